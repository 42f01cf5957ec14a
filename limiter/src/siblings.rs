//! Other processes of the container that have work on the same device.
//!
//! Two contexts have no common clock, so that in a span the device's slices of other processes cannot be told from its own work. In turns the
//! container pays for the time that they last, whoever of it works; but what it books must not be what each of its processes had of
//! all of them. So where its rate is the whole device such a span is no reason to raise anything. Where a limit is waited for
//! it is charged as it was measured, rather too much than too little.

use quota_abi::sync::{AtomicU64, Ordering::Relaxed};

use crate::terms::{Account, Terms};

/// What was seen so shortly before a span was opened, ns, was there when it was.
const BEFORE: u64 = 200_000;

/// In the word that processes share: who moved it.
const SLOT: u64 = (1 << 10) - 1;
/// A time so far ahead of the clock is damage, ns.
const DAMAGE: u64 = 1_000_000_000;

/// Takes note that this process had work on a device from a time to another, by the host's clock. Tells how much of that others of the container
/// are known to have had work there too, ns: that time has been charged already. Work is seen to have ended in about the order in which it did, so
/// the furthest end says enough.
pub(crate) fn cover(terms: &Terms, (begin, end): (u64, u64), now: u64) -> i64 {
    let Some(seat) = terms.seat else {
        return 0;
    };
    let Some(row) = seat.region.devices.get(seat.device) else {
        return 0;
    };
    let own = (u64::try_from(seat.slot).unwrap_or(0) + 1) & SLOT;
    let end = end.min(now);
    let before = row.covered.load(Relaxed);
    let (until, whose) = match before & !SLOT {
        until if until > now.saturating_add(DAMAGE) => (0, 0),
        until => (until, before & SLOT),
    };
    if until < end & !SLOT {
        row.covered.store(end & !SLOT | own, Relaxed);
    }
    if whose == own {
        return 0;
    }
    i64::try_from(until.min(end).saturating_sub(begin)).unwrap_or(0)
}

/// When any were last seen to have work in flight, where the container's rate is the whole device. 0: never.
#[derive(Debug)]
pub(crate) struct Siblings(AtomicU64);

impl Siblings {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes note of any that have work in flight now.
    pub(crate) fn look(&self, account: Account, now: u64) {
        if account.rate.is_whole() && account.terms.siblings_work() {
            self.0.store(now, Relaxed);
        }
    }

    /// Whether any had since `opened`.
    pub(crate) fn had_work_since(&self, opened: u64) -> bool {
        let seen = self.0.load(Relaxed);
        seen != 0 && seen.saturating_add(BEFORE) >= opened
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use quota_abi::layout::{DEVICES, Region};
    use quota_abi::policy::{Loan, Row};
    use quota_abi::region::Mapped;
    use quota_abi::sync::Ordering::Relaxed;

    use super::cover;
    use crate::gpu::Gpu;
    use crate::model::{FOREVER, MS, Model, Process, US};
    use crate::terms::{Seat, Terms};

    const ONE: usize = 0x5000;

    /// One of two processes of a container, and its region.
    fn one_of_two(prepare: impl Fn(&Row)) -> (Process, &'static Region) {
        let region = Mapped::private().unwrap().get();
        region.header.high_water.store(2, Relaxed);
        let seat = Seat {
            region,
            device: 0,
            slot: 1,
            pid: 7,
        };
        let (process, _, row) = Process::seated(500_000, seat);
        row.active_until.store(FOREVER, Relaxed);
        prepare(row);
        (process, region)
    }

    fn whole(row: &Row) {
        row.loan.store(Loan::new(1_000_000, FOREVER).0, Relaxed);
    }

    /// Measured at 100 us a launch, then at 800: what is booked for one. `works`: whether another process does too.
    fn booked(works: bool, prepare: impl Fn(&Row)) -> u64 {
        let (model, (process, region)) = (Model::new(), one_of_two(prepare));
        let one_by_one = |count, ns| {
            for _ in 0..count {
                process.launch(&model, ONE, 7, ns);
                model.synchronise(ONE);
                process.engine.resume(&model, &process.thread);
                model.pass(10 * MS);
            }
        };
        one_by_one(20, 100 * US);
        let bits = 1 << DEVICES;
        region.slots[0]
            .busy
            .store(if works { bits } else { 0 }, Relaxed);
        one_by_one(50, 800 * US);
        process.thread.drop_batch();
        let now = model.now();
        process.bucket.forget_bookings();
        process.launch(&model, ONE, 7, 100 * US);
        (process.bucket.ends_at(now) - now) / US
    }

    #[test]
    fn a_siblings_slices_are_not_booked() {
        let (alone, beside) = (booked(false, whole), booked(true, whole));
        assert!((600..900).contains(&alone), "{alone} us");
        assert!((90..200).contains(&beside), "{beside} us");
    }

    #[test]
    fn where_a_limit_is_waited_for_they_are_charged() {
        let beside = booked(true, |_| ());
        assert!((600..900).contains(&beside), "{beside} us");
    }

    /// Nobody else wants the device, and another process of the container has booked it for 100 ms.
    #[test]
    fn a_device_is_not_booked_far_ahead_by_many() {
        let waited = |busy: u64| {
            let (model, (process, region)) = (Model::new(), one_of_two(whole));
            region.slots[0].busy.store(busy, Relaxed);
            let (begin, booked) = (model.now(), 100_000_000);
            process.bucket.book(begin, booked, booked, u64::MAX);
            process.launch(&model, ONE, 7, 100 * US);
            (model.now() - begin) / MS
        };
        let beside = waited(1 | 1 << DEVICES);
        assert!((80..100).contains(&beside), "{beside} ms");
        assert_eq!(waited(0), 0);
    }

    /// Two of three milliseconds that one had were another's too.
    #[test]
    fn what_two_had_is_charged_once() {
        let region = Mapped::private().unwrap().get();
        let seat = |slot| Seat {
            region,
            device: 0,
            slot,
            pid: 7,
        };
        let terms = |slot| Terms {
            bucket: Box::leak(Box::default()),
            own: None,
            rule: None,
            seat: Some(seat(slot)),
        };
        let (one, other) = (terms(1), terms(2));
        let at = |ms: u64| (1 << 30) + ms * 1024 * 1024;
        let ms = 1024 * 1024;
        assert_eq!(cover(&one, (at(0), at(5)), at(6)), 0);
        assert_eq!(cover(&other, (at(3), at(6)), at(6)), 2 * ms);
        // One's own is not another's, nor is what nobody had.
        assert_eq!(cover(&other, (at(4), at(7)), at(7)), 0);
        assert_eq!(cover(&one, (at(8), at(9)), at(9)), 0);
        // Damage is nothing, and does not last.
        region.devices[0].covered.store(u64::MAX, Relaxed);
        assert_eq!(cover(&one, (at(9), at(10)), at(10)), 0);
        assert_eq!(cover(&other, (at(9), at(11)), at(11)), ms);
    }
}
