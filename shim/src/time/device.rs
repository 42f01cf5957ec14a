//! One limited device as this process sees it.

use core::ptr;

use quota_abi::bucket::{Bucket, OwnShare, Rate, Taken};
use quota_abi::sync::{
    AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use super::flight::Flight;
use super::settler::Settler;
use super::try_lock::TryLock;

/// Bytes per microsecond, where a device does not say: 200 GB/s, as slow devices have.
const SLOW_MEMORY: u32 = 200_000;
/// What the smallest fill or copy takes, ns.
const TRANSFER: i64 = 2_000;
/// No fill or copy takes longer, however many bytes its arguments name: a second.
const LONGEST_TRANSFER: i64 = 1_000_000_000;

/// A bucket, this process's rate for it, and the work in flight.
#[derive(Debug)]
pub(super) struct Device {
    bucket: AtomicPtr<Bucket>,
    rate: AtomicU32,
    /// Bytes that its memory moves in a microsecond; 0: unknown.
    bandwidth: AtomicU32,
    own: OwnShare,
    pub(super) flight: Flight,
    pub(super) settler: TryLock<Settler>,
}

/// A device's account at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) bucket: &'static Bucket,
    pub(super) rate: Rate,
}

/// Whether work may start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It may; so much was taken for it.
    Granted(i64),
    /// Not before so many ns have gone by.
    Wait(u64),
}

impl Device {
    pub(super) const fn new() -> Self {
        Self {
            bucket: AtomicPtr::new(ptr::null_mut()),
            rate: AtomicU32::new(0),
            bandwidth: AtomicU32::new(0),
            own: OwnShare::new(),
            flight: Flight::new(),
            settler: TryLock::new(Settler::new()),
        }
    }

    /// Sets or lifts the limit. True if there is one now.
    pub(super) fn limit(&self, bucket: &'static Bucket, rate: Option<Rate>) -> bool {
        self.rate.store(rate.map_or(0, Rate::ppm), Relaxed);
        // SYNC POINT: pairs with the load in `account`.
        self.bucket.store(ptr::from_ref(bucket).cast_mut(), Release);
        rate.is_some()
    }

    /// Sets the bandwidth of its memory, in bytes per microsecond.
    pub(super) fn set_bandwidth(&self, bandwidth: u32) {
        self.bandwidth.store(bandwidth, Relaxed);
    }

    /// What moving so many bytes in or out of its memory takes, ns.
    pub(super) fn transfer_time(&self, bytes: u64) -> i64 {
        let bandwidth = match self.bandwidth.load(Relaxed) {
            0 => SLOW_MEMORY,
            known => known,
        };
        let moving = u128::from(bytes) * 1000 / u128::from(bandwidth);
        i64::try_from(moving)
            .unwrap_or(i64::MAX)
            .min(LONGEST_TRANSFER)
            .saturating_add(TRANSFER)
    }

    /// Its account, if it has a limit.
    pub(super) fn account(&self) -> Option<Account> {
        let rate = Rate::from_ppm(self.rate.load(Relaxed))?;
        // SAFETY: null, or what `limit` stored, which is a `&'static Bucket`.
        let bucket = unsafe { self.bucket.load(Acquire).as_ref() }?;
        Some(Account { bucket, rate })
    }

    /// Takes `least` or up to `most`, or says how long there will be nothing to take. Who has `waited` goes
    /// on when there is enough for a burst, others as long as there is anything.
    pub(super) fn admit(
        &self,
        account: Account,
        least: i64,
        most: i64,
        waited: bool,
        now: u64,
    ) -> Admission {
        let Account { bucket, rate } = account;
        bucket.refill(now, rate);
        let own = self.own.refill(bucket, now, rate);
        let from = if waited { rate.resume() } else { 1 };
        if own < from {
            return Admission::Wait(rate.time_for(rate.resume() - own).max(1));
        }
        match bucket.take(from, least, most) {
            Taken::Granted(amount) => Admission::Granted(amount),
            Taken::Empty(level) => {
                let fills_at = bucket.rate().unwrap_or(rate);
                Admission::Wait(fills_at.time_for(rate.resume() - level).max(1))
            }
        }
    }

    /// Forgets what a forked child does not have: its parent's work in flight.
    pub(super) fn reset(&self) {
        self.rate.store(0, Relaxed);
        self.flight.reset();
        self.settler.release_in_child();
        if let Some(mut settler) = self.settler.try_lock() {
            settler.reset();
        }
    }
}
