//! What this process may see through NVML: the limits of its group, what the group holds, and who is in it.

use std::ffi::CString;

use cuda_headers::nvml::nvmlDevice_t;
use quota_abi::life::Identity;
use quota_abi::region::Mapped;
use quota_abi::settings::{Settings, Utilization};
use quota_abi::spelling::{self, Ppm};
use quota_abi::sync::{AtomicPtr, Ordering};
use quota_abi::{devices, slots};

use super::parts::{self, Part};
use super::visible;
use crate::guard::Aside;
use crate::memory::view;
use crate::{attach, process};

/// The view of a process under a quota.
pub(super) struct Viewer {
    settings: Settings,
    path: CString,
    /// The group's region, once anybody has made one.
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

/// A process of the group.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(super) pid: u32,
    /// Bytes that it holds on the device in question.
    pub(super) held: u64,
    pub(super) instance: (u32, u32),
}

/// Made by the first question, and never changed.
static VIEWER: AtomicPtr<Known> = AtomicPtr::new(core::ptr::null_mut());

enum Known {
    Limited(Box<Viewer>),
    NotLimited,
    Refused,
}

impl Viewer {
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
                limit: device.memory,
                compute: device.compute,
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
        Share {
            limit: self.settings.memory.of(number, uuid),
            compute: self.settings.compute.of(number, uuid),
            usage: usage.unwrap_or(0),
        }
    }

    /// What utilisation is relative to.
    pub(super) fn utilization(&self) -> Utilization {
        self.settings.utilization
    }

    /// The group's processes that hold memory on a device, as far as this one can name them: those of its own pid namespace.
    pub(super) fn each_member(&self, device: nvmlDevice_t, mut visit: impl FnMut(Member)) {
        self.reap();
        let Some(region) = self.region() else { return };
        parts::each(device, |part: Part| {
            let ledger =
                devices::find(region, &part.uuid).and_then(|index| devices::ledger(region, index));
            let Some(ledger) = ledger else { return };
            for (slot, pid) in own_namespace(region) {
                let held = ledger.held_by(slot);
                if held > 0 {
                    visit(Member {
                        pid,
                        held,
                        instance: part.instance,
                    });
                }
            }
        });
    }

    /// What a process of the group holds on a device; `None` if it is somebody else's.
    pub(super) fn member(&self, device: nvmlDevice_t, pid: u32) -> Option<u64> {
        let region = self.region()?;
        own_namespace(region).find(|(_, own)| *own == pid)?;
        let mut held = 0;
        self.each_member(device, |member| {
            if member.pid == pid {
                held += member.held;
            }
        });
        Some(held)
    }

    fn reap(&self) {
        if let Some(region) = self.region() {
            slots::reap(region, &Identity::own());
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
        let region = Box::into_raw(Box::new(region));
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

fn add(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.saturating_add(other?))
}

/// Two threads that ask first may both read the variables; one's view is kept.
fn known() -> &'static Known {
    // SAFETY: null, or never freed.
    if let Some(known) = unsafe { VIEWER.load(Ordering::Acquire).as_ref() } {
        return known;
    }
    let fresh = Box::into_raw(Box::new(match attach::view() {
        Ok(Some((settings, group, list))) => Known::Limited(Box::new(Viewer {
            settings,
            path: group.path(),
            region: AtomicPtr::new(core::ptr::null_mut()),
            list,
            visible: AtomicPtr::new(core::ptr::null_mut()),
        })),
        Ok(None) => Known::NotLimited,
        Err(()) => Known::Refused,
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
