//! What this process may see through NVML: the limits of its group, what the group holds, and who is in it.

use std::ffi::CString;

use cuda_headers::nvml::nvmlDevice_t;
use quota_abi::layout::SLOTS;
use quota_abi::life::Identity;
use quota_abi::policy::{NO_LIMIT, Policy, Row, mode};
use quota_abi::region::Mapped;
use quota_abi::settings::{Settings, Utilization};
use quota_abi::spelling::{self, Ppm, WHOLE};
use quota_abi::sync::{AtomicBool, AtomicPtr, Ordering};
use quota_abi::{devices, slots};

use super::pages::List;
use super::parts::{self, Part};
use super::visible;
use crate::attach::{self, Seen, Source, Unseen};
use crate::guard::Aside;
use crate::memory::view;
use crate::{process, time};

/// The view of a process under a quota.
pub(super) struct Viewer {
    settings: Settings,
    /// What the daemon says, if there is one.
    policy: Option<&'static Policy>,
    /// The file of the group's region; empty under a daemon.
    path: CString,
    /// The region, once anybody has made one.
    region: AtomicPtr<Mapped>,
    /// `CUDA_VISIBLE_DEVICES`, which decides what number a device has.
    list: Option<String>,
    /// UUIDs by the number under which CUDA would show them.
    visible: AtomicPtr<Vec<[u8; 16]>>,
}

/// One device under the quota.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Share {
    /// Bytes of memory, if limited.
    pub(super) limit: Option<u64>,
    /// Share of its time, if limited.
    pub(super) compute: Option<Ppm>,
    /// Bytes that the group holds.
    pub(super) usage: u64,
}

impl Share {
    /// What is left of it under a daemon's rule. A device that the container has no rule for is none of its own.
    fn under(self, rule: Option<&Row>) -> Self {
        let Some(rule) = rule else {
            return Self {
                limit: Some(0),
                ..self
            };
        };
        if rule.mode.load(Ordering::Relaxed) & mode::OBSERVE != 0 {
            return Self {
                limit: None,
                compute: None,
                ..self
            };
        }
        let limit = rule.memory.load(Ordering::Relaxed);
        let limit = limit.min(self.limit.unwrap_or(NO_LIMIT));
        let rate = rule.rate_at(time::now()).unwrap_or(WHOLE);
        let rate = rate.min(self.compute.unwrap_or(WHOLE));
        Self {
            limit: (limit != NO_LIMIT).then_some(limit),
            compute: (rate < WHOLE).then_some(rate),
            usage: self
                .usage
                .saturating_add(rule.overhead.load(Ordering::Relaxed)),
        }
    }
}

/// A process of the group on a device, or on one part of it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(super) pid: u32,
    /// Bytes that it holds there; none if it is somewhere else.
    pub(super) held: u64,
    pub(super) instance: (u32, u32),
}

/// The processes of the group at one moment.
pub(super) struct Members(List<Member>);

impl Members {
    /// Those that hold memory.
    pub(super) fn holding(&self) -> impl Iterator<Item = &Member> {
        self.0.iter().filter(|member| member.held > 0)
    }

    /// What a process holds; `None` if it is not the group's.
    pub(super) fn held(&self, pid: u32) -> Option<u64> {
        let mut own = self.0.iter().filter(|member| member.pid == pid).peekable();
        own.peek()?;
        Some(own.map(|member| member.held).sum())
    }
}

/// More instances than a GPU can have.
const MOST_PARTS: usize = 8;

/// Whether the daemon was waited for in vain. A monitor asks again and again, and sees it when it is back.
static AWAY: AtomicBool = AtomicBool::new(false);

/// Made by the first question that is answered, and never changed.
static VIEWER: AtomicPtr<Known> = AtomicPtr::new(core::ptr::null_mut());

enum Known {
    Limited(Box<Viewer>),
    NotLimited,
    Refused,
}

impl Viewer {
    fn new(seen: Seen) -> Self {
        let (policy, path, region) = match seen.source {
            Source::Group(group) => (None, group.path(), core::ptr::null_mut()),
            Source::Daemon(policy, region) => (Some(policy), CString::default(), kept(region)),
        };
        Self {
            settings: seen.settings,
            policy,
            path,
            region: AtomicPtr::new(region),
            list: seen.visible,
            visible: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// The view of this process; otherwise why it has none. A process whose quota cannot be enforced sees nothing, whether
    /// CUDA has refused it or the variables alone say so.
    pub(super) fn get() -> Result<&'static Self, Aside> {
        if matches!(process::limited(), Err(Aside::Refused)) {
            return Err(Aside::Refused);
        }
        match known() {
            Known::Limited(viewer) => Ok(viewer),
            Known::NotLimited => Err(Aside::NotLimited),
            Known::Refused => Err(Aside::Refused),
        }
    }

    /// What a device is under the quota. A GPU in MIG mode is the sum of its instances; limited if all of them are.
    pub(super) fn share(&self, device: nvmlDevice_t) -> Option<Share> {
        self.reap();
        let mut sum: Option<Share> = None;
        parts::each(device, |part| {
            let share = self.share_of(&part.uuid);
            sum = Some(match sum {
                None => share,
                Some(sum) => Share {
                    limit: add(sum.limit, share.limit),
                    compute: None,
                    usage: sum.usage.saturating_add(share.usage),
                },
            });
        });
        sum
    }

    fn share_of(&self, uuid: &[u8; 16]) -> Share {
        let process = process::limited().ok();
        if let Some(process) = process
            && let Some(device) = process.devices.iter().find(|d| d.uuid() == Some(*uuid))
        {
            return Share {
                limit: device.shown_limit(),
                compute: device.shown_share(),
                usage: view::usage(process, device),
            };
        }
        // CUDA knows the devices of a process that is attached, and this is none of them.
        let by_number = self.settings.memory.by_number() || self.settings.compute.by_number();
        let number = (by_number && process.is_none())
            .then(|| self.number(uuid))
            .flatten();
        let usage = self.region().and_then(|region| {
            let index = devices::find(region, uuid)?;
            Some(devices::ledger(region, index)?.usage())
        });
        let share = Share {
            limit: self.settings.memory.of(number, uuid),
            compute: self.settings.compute.of(number, uuid),
            usage: usage.unwrap_or(0),
        };
        match self.policy {
            Some(policy) => share.under(policy.row(uuid)),
            None => share,
        }
    }

    /// What utilisation is relative to.
    pub(super) fn utilization(&self) -> Utilization {
        self.settings.utilization
    }

    /// The group's processes, as far as this one can name them: those of its own pid namespace. `None` where none has
    /// started, or without memory for the list.
    pub(super) fn members(&self, device: nvmlDevice_t) -> Option<Members> {
        let region = self.region()?;
        self.reap();
        let mut members = List::with_room(SLOTS * MOST_PARTS)?;
        parts::each(device, |part: Part| {
            let ledger =
                devices::find(region, &part.uuid).and_then(|index| devices::ledger(region, index));
            for (slot, pid) in own_namespace(region) {
                members.push(Member {
                    pid,
                    held: ledger.map_or(0, |ledger| ledger.held_by(slot)),
                    instance: part.instance,
                });
            }
        });
        Some(Members(members))
    }

    fn reap(&self) {
        if let Some(region) = self.region() {
            let declared = self.policy.map(|policy| &policy.dead);
            slots::reap_under(region, &Identity::own(), declared);
        }
    }

    fn region(&self) -> Option<&Mapped> {
        let known = self.region.load(Ordering::Acquire);
        // SAFETY: null, or never freed.
        if let Some(region) = unsafe { known.as_ref() } {
            return Some(region);
        }
        let region = Mapped::open(&self.path).ok().flatten()?;
        // Two threads that come at once map it twice, and one mapping is forgotten.
        let region = kept(region);
        self.region.store(region, Ordering::Release);
        // SAFETY: never freed.
        unsafe { region.as_ref() }
    }

    /// The number under which CUDA would show a device to this process.
    fn number(&self, uuid: &[u8; 16]) -> Option<u32> {
        let known = self.visible.load(Ordering::Acquire);
        // SAFETY: null, or never freed.
        let visible = match unsafe { known.as_ref() } {
            Some(visible) => visible,
            None => {
                let texts = visible::uuids(self.list.as_deref())?;
                let fresh: Vec<_> = texts
                    .iter()
                    .map(|text| spelling::uuid(text).unwrap_or_default())
                    .collect();
                let fresh = Box::into_raw(Box::new(fresh));
                // As with the region.
                self.visible.store(fresh, Ordering::Release);
                // SAFETY: never freed.
                unsafe { fresh.as_ref() }?
            }
        };
        let place = visible.iter().position(|other| other == uuid)?;
        u32::try_from(place).ok()
    }
}

/// Slots and pids of the living processes that have the pid namespace of this one.
fn own_namespace(region: &Mapped) -> impl Iterator<Item = (usize, u32)> {
    let namespace = Identity::own().namespace;
    slots::owners(region).filter_map(move |(slot, owner)| {
        let inode = region.slots.get(slot)?.namespace.load(Ordering::Relaxed);
        (inode == namespace && owner.is_live()).then(|| (slot, owner.pid()))
    })
}

/// Never freed.
fn kept(region: Mapped) -> *mut Mapped {
    Box::into_raw(Box::new(region))
}

fn add(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.saturating_add(other?))
}

/// Two threads that ask first may both read the variables; one's view is kept.
fn known() -> &'static Known {
    // SAFETY: null, or never freed.
    if let Some(known) = unsafe { VIEWER.load(Ordering::Acquire).as_ref() } {
        return known;
    }
    let patient = !AWAY.load(Ordering::Relaxed);
    let fresh = Box::into_raw(Box::new(match attach::view(process::attached(), patient) {
        Err(Unseen::Away) => {
            AWAY.store(true, Ordering::Relaxed);
            return &Known::Refused;
        }
        Ok(Some(seen)) => Known::Limited(Box::new(Viewer::new(seen))),
        Ok(None) => Known::NotLimited,
        Err(Unseen::ForGood) => Known::Refused,
    }));
    let first = VIEWER.compare_exchange(
        core::ptr::null_mut(),
        fresh,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    let kept = match first {
        Ok(_) => fresh,
        Err(other) => {
            // SAFETY: made above, seen by nobody.
            drop(unsafe { Box::from_raw(fresh) });
            other
        }
    };
    // SAFETY: never freed, and not null.
    unsafe { &*kept }
}
