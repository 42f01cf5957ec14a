//! The devices that this process sees, with their limits and their part of the region.

use core::ffi::c_int;

use cuda_headers::driver::{CUdevice, CUresult, CUuuid};
use quota_abi::bucket::Bucket;
use quota_abi::devices;
use quota_abi::events::{self, Event, What};
use quota_abi::layout::{DeviceRow, Region};
use quota_abi::ledger::{Asker, Ledger, Patience, Verdict};
use quota_abi::policy::{NO_LIMIT, Policy, Row, mode};
use quota_abi::settings::CONTEXT_DEFAULT;
use quota_abi::spelling::{Ppm, WHOLE};
use quota_abi::sync::{AtomicU32, Ordering};

use crate::attach::Attached;
use crate::context::DeviceContexts;
use crate::driver::call;
use crate::guard;
use crate::lock::{Lock, nap};
use crate::named;
use crate::process;
use crate::report;
use crate::time;

/// New tries of a request that only others' requests stand in the way of: about a second in all, because on a busy machine
/// the other may have been interrupted between asking and its answer.
const TRIES: u32 = 450;
/// After which there are a few more, which take away what stands in the way.
const LAST: u32 = TRIES + 10;
/// The first of them are made without sleeping.
const HASTY: u32 = 20;

/// All devices, by the number under which CUDA shows them.
pub(crate) struct Devices(Vec<Device>);

/// One device.
pub(crate) struct Device {
    /// Its number here.
    pub(crate) number: usize,
    /// What the daemon says of it; nothing without a daemon.
    rule: &'static Row,
    /// The policy that the rule is of.
    pub(crate) policy: Option<&'static Policy>,
    /// The most bytes of memory by the variables; [`NO_LIMIT`] is none.
    most: u64,
    /// Share of its time by the variables, if they limit it.
    compute: Option<Ppm>,
    /// What this process's contexts on it are charged together, at least.
    context: u64,
    /// This process's contexts on it.
    pub(crate) contexts: Lock<DeviceContexts>,
    /// Its driver handle.
    pub(crate) handle: CUdevice,
    /// The group's region, and the device's index there.
    pub(crate) region: &'static Region,
    pub(crate) index: usize,
    ledger: Ledger<'static>,
    /// Its GPU time, shared by the group.
    bucket: &'static Bucket,
    row: &'static DeviceRow,
    /// This process's words in the ledger.
    pub(crate) slot: usize,
    /// Which of this process's threads goes first where others' requests stand in the way.
    turn: AtomicU32,
}

/// Bytes that have been admitted and go back unless they are kept.
#[must_use]
pub(crate) struct Reservation<'a> {
    device: &'a Device,
    bytes: u64,
    /// What of them is not charged yet: all, or nothing. As wide as the rest: the compiler copies this in whole words, and a
    /// processor waits for a byte that it has just written before it reads the word around it.
    owed: u64,
}

/// What a process without a daemon goes by.
static NO_RULE: Row = Row::none();

impl Devices {
    /// Asks the driver for its devices, and finds each in the region. Otherwise what `cuInit` answers; the reason has been
    /// said.
    pub(crate) fn learn(attached: &Attached) -> Result<Self, CUresult> {
        let mut count: c_int = 0;
        // SAFETY: a live out-pointer.
        let answer = unsafe { call!(cuDeviceGetCount(&raw mut count)) };
        if answer != CUresult::CUDA_SUCCESS {
            return Err(answer);
        }
        let devices = (0..count)
            .map(|number| Device::learn(attached, number))
            .collect::<Result<_, _>>()
            .map(Self)?;
        named::not_seen(&attached.settings, &devices);
        Ok(devices)
    }

    /// The device of a driver handle.
    #[inline]
    pub(crate) fn get(&self, handle: CUdevice) -> Option<&Device> {
        let number = usize::try_from(handle).ok()?;
        match self.0.get(number) {
            Some(device) if device.handle == handle => Some(device),
            _ => self.0.iter().find(|device| device.handle == handle),
        }
    }

    /// The device of a number, as kept in a record.
    #[inline]
    pub(crate) fn by_number(&self, number: usize) -> Option<&Device> {
        self.0.get(number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Device> {
        self.0.iter()
    }
}

impl Device {
    fn learn(attached: &Attached, number: c_int) -> Result<Self, CUresult> {
        let mut handle: CUdevice = 0;
        // SAFETY: a live out-pointer.
        let answer = unsafe { call!(cuDeviceGet(&raw mut handle, number)) };
        if answer != CUresult::CUDA_SUCCESS {
            return Err(answer);
        }
        let uuid = uuid_of(handle)?;
        let shown = u32::try_from(number).ok();
        let settings = &attached.settings;
        let rule = match attached.policy {
            Some(policy) => policy
                .row(&uuid)
                .ok_or_else(|| named::not_allowed(policy, number, handle, &uuid))?,
            None => match settings.uncovered(shown, &uuid) {
                Some(uncovered) => return Err(named::left_out(&uncovered, number, handle, &uuid)),
                None => &NO_RULE,
            },
        };
        let region = attached.region.get();
        let shared = devices::index_of(region, &uuid).and_then(|index| {
            let ledger = devices::ledger(region, index)?;
            Some((
                index,
                ledger,
                region.buckets.get(index)?,
                region.devices.get(index)?,
            ))
        });
        let Some((index, ledger, bucket, row)) = shared else {
            report::stop(match attached.policy {
                Some(_) => format_args!(
                    "the container's region has no room for another device; restart its processes, the daemon clears it then"
                ),
                None => format_args!(
                    "the group has seen too many devices; set GPU_QUOTA_GROUP to a new name"
                ),
            });
            return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
        };
        let context = match attached.policy {
            Some(_) => 0,
            None => CONTEXT_DEFAULT,
        };
        Ok(Self {
            number: usize::try_from(number).unwrap_or(0),
            rule,
            policy: attached.policy,
            most: settings.memory.of(shown, &uuid).unwrap_or(NO_LIMIT),
            compute: settings.compute.of(shown, &uuid),
            context: settings.context.unwrap_or(context),
            contexts: Lock::new(DeviceContexts::default()),
            handle,
            region,
            index,
            ledger,
            bucket,
            row,
            slot: attached.slot,
            turn: AtomicU32::new(0),
        })
    }

    /// Bytes that the ledger may hold now, if they are limited.
    #[inline]
    fn room(&self) -> Option<u64> {
        match self.rule.memory.load(Ordering::Relaxed).min(self.most) {
            NO_LIMIT => None,
            limit => Some(limit.saturating_sub(self.overhead())),
        }
    }

    /// The same, where going beyond it is refused.
    pub(crate) fn bound(&self) -> Option<u64> {
        self.room().filter(|_| !self.observes())
    }

    /// Bytes in use that no ledger knows of.
    #[inline]
    pub(crate) fn overhead(&self) -> u64 {
        self.rule.overhead.load(Ordering::Relaxed)
    }

    /// Bytes of memory that the program is shown, if it is to see a limit.
    pub(crate) fn shown_limit(&self) -> Option<u64> {
        let limit = self.rule.memory.load(Ordering::Relaxed).min(self.most);
        (limit != NO_LIMIT && !self.observes()).then_some(limit)
    }

    /// Share of its time, if that is limited now.
    pub(crate) fn shown_share(&self) -> Option<Ppm> {
        let ruled = self.rule.rate_at(time::now()).filter(|_| !self.observes());
        let share = ruled.unwrap_or(WHOLE).min(self.compute.unwrap_or(WHOLE));
        (share < WHOLE).then_some(share)
    }

    /// What this process's contexts are charged, together, if the first of them is made now.
    pub(crate) fn context_charge(&self) -> u64 {
        self.rule.context.load(Ordering::Relaxed).max(self.context)
    }

    /// Whether nothing is refused here, and what would have been only counted.
    fn observes(&self) -> bool {
        self.rule.mode.load(Ordering::Relaxed) & mode::OBSERVE != 0
    }

    /// Admits `bytes` if they fit; tries once, gives up nothing.
    #[inline]
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reservation<'_>> {
        let admitted = |owed| {
            Some(Reservation {
                device: self,
                bytes,
                owed,
            })
        };
        let Some(room) = self.room() else {
            // Nothing to be refused: charged when the driver has succeeded.
            return admitted(bytes);
        };
        if self.ask(bytes, room) == Verdict::Admitted || self.observe(bytes, room) {
            admitted(0)
        } else {
            None
        }
    }

    #[inline]
    fn ask(&self, bytes: u64, room: u64) -> Verdict {
        let me = Asker {
            slot: self.slot,
            turn: &self.turn,
        };
        self.ledger.reserve(me, bytes, room, step_back)
    }

    /// Charges what would have been refused, if refusals are only counted. What the program keeps in pools is left to it, so that
    /// more may be counted as refused than would have been.
    #[cold]
    fn observe(&self, bytes: u64, room: u64) -> bool {
        if !self.observes() {
            return false;
        }
        // Asked again whoever has reaped: another may have been quicker.
        process::reap();
        if self.ask(bytes, room) != Verdict::Admitted {
            self.denied(bytes);
            self.charge(bytes);
        }
        true
    }

    /// Charges what has happened already and cannot be undone.
    #[inline(never)]
    pub(crate) fn charge(&self, bytes: u64) {
        self.ledger.force(self.slot, bytes);
    }

    /// Gives back what was charged.
    #[inline]
    pub(crate) fn refund(&self, bytes: u64) {
        self.ledger.refund(self.slot, bytes);
    }

    /// Bytes that the whole group holds.
    pub(crate) fn usage(&self) -> u64 {
        self.ledger.usage()
    }

    /// The same for somebody who is shown it: what the dead have left is not in it for longer than a moment.
    pub(crate) fn shown_usage(&self) -> u64 {
        let usage = self.usage();
        if usage > self.ledger.held_by(self.slot) && process::reap_now_and_then() {
            return self.usage();
        }
        usage
    }

    /// Counts a refusal, notes it, and says so to whoever wants to know.
    pub(crate) fn denied(&self, bytes: u64) {
        self.row.denials.fetch_add(1, Ordering::Relaxed);
        let (room, usage) = (self.room().unwrap_or(u64::MAX), self.usage());
        let event = Event {
            at: time::now(),
            pid: process::pid(),
            device: u8::try_from(self.index).unwrap_or(u8::MAX),
            slot: u16::try_from(self.slot).unwrap_or(u16::MAX),
            asked: bytes,
            own: self.ledger.held_by(self.slot),
            all: usage,
            limit: room,
        };
        events::note(self.region, What::Refusal, &event);
        report::info(format_args!(
            "refused {bytes} bytes on device {}: {usage} of {room} in use",
            self.number,
        ));
    }

    /// Its UUID; under MIG that of the instance.
    pub(crate) fn uuid(&self) -> Option<[u8; 16]> {
        devices::uuid_of(self.row)
    }

    /// The driver's handle.
    pub(crate) fn handle(&self) -> CUdevice {
        self.handle
    }

    /// Its GPU time, shared by the group.
    pub(crate) fn bucket(&self) -> &'static Bucket {
        self.bucket
    }

    /// What the daemon says of it; nothing without a daemon.
    pub(crate) fn rule(&self) -> &'static Row {
        self.rule
    }

    /// Share of its time by the variables, if they limit it.
    pub(crate) fn own_share(&self) -> Option<Ppm> {
        self.compute
    }
}

impl Reservation<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps it charged: the driver has succeeded.
    #[inline]
    pub(crate) fn keep(self) {
        if self.owed != 0 {
            self.device.charge(self.owed);
        }
        core::mem::forget(self);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        give_back(self);
    }
}

/// A request of which nothing came: not on the way of those of which something does.
#[cold]
fn give_back(unused: &Reservation<'_>) {
    if unused.owed == 0 {
        unused.device.refund(unused.bytes);
    }
}

/// The instance's own UUID under MIG, which only the second version tells.
fn uuid_of(handle: CUdevice) -> Result<[u8; 16], CUresult> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: a live out-pointer.
    let mut answer = unsafe { call!(cuDeviceGetUuid_v2(&raw mut uuid, handle)) };
    if answer == CUresult::CUDA_ERROR_NOT_FOUND {
        // SAFETY: as above.
        answer = unsafe { call!(cuDeviceGetUuid(&raw mut uuid, handle)) };
    }
    if answer != CUresult::CUDA_SUCCESS {
        return Err(answer);
    }
    Ok(uuid.bytes.map(|byte| u8::from_ne_bytes(byte.to_ne_bytes())))
}

/// Waits before a new try, longer each time. The one that stands in the way may be dead, or stopped by a debugger or a
/// freezer.
#[cold]
pub(crate) fn step_back(tries: u32) -> Patience {
    if tries < HASTY {
        // SAFETY: gives the processor away.
        unsafe { libc::sched_yield() };
        return Patience::Wait;
    }
    if tries.is_multiple_of(HASTY) {
        process::reap_now_and_then();
    }
    guard::outside(|| nap(libc::c_long::from(tries) * 10_000));
    match tries {
        ..TRIES => Patience::Wait,
        TRIES..LAST => Patience::Insist,
        _ => Patience::End,
    }
}
