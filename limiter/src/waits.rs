//! What is told of launches that waited: sums in the bucket, and some of them one by one in the region.

use quota_abi::events::{self, Event, What};
use quota_abi::sync::{AtomicU64, Ordering::Relaxed};

use crate::gate::Place;

/// Shorter waits are not told of one by one, ns.
const SHORTEST: u64 = 1_000_000;
/// A process tells of one wait on a device in this time, ns, and of each that is much longer than the last: a container that is
/// held back all the time must not push out of the ring what it did a second ago.
const INTERVAL: u64 = 100_000_000;

/// The last wait on a device that this process told of.
#[derive(Debug)]
pub(crate) struct Noted {
    at: AtomicU64,
    waited: AtomicU64,
}

/// A launch that waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// For how long, ns.
    pub(crate) waited: u64,
    /// When it went on.
    pub(crate) now: u64,
    /// What it was charged, ns.
    pub(crate) price: i64,
    /// The bucket's level when it came.
    pub(crate) level: i64,
    /// It went on because it had waited long enough.
    pub(crate) forced: bool,
}

impl Noted {
    pub(crate) const fn new() -> Self {
        Self {
            at: AtomicU64::new(0),
            waited: AtomicU64::new(0),
        }
    }

    /// Whether a wait is to be told of.
    fn takes(&self, waited: u64, now: u64) -> bool {
        if waited < SHORTEST {
            return false;
        }
        let last = self.at.load(Relaxed);
        let due = now >= last.saturating_add(INTERVAL)
            || waited / 2 >= self.waited.load(Relaxed).max(SHORTEST);
        let ours = due
            && self
                .at
                .compare_exchange(last, now, Relaxed, Relaxed)
                .is_ok();
        if ours {
            self.waited.store(waited, Relaxed);
        }
        ours
    }
}

impl Place<'_> {
    /// Counts a launch that waited, or would have.
    pub(crate) fn count_wait(&self, wait: Wait) {
        self.account.bucket.count_wait(wait.waited, wait.forced);
        let Some(seat) = self.account.terms.seat else {
            return;
        };
        if self.device.noted.takes(wait.waited, wait.now) {
            let event = Event {
                at: wait.now,
                pid: seat.pid,
                device: u8::try_from(seat.device).unwrap_or(u8::MAX),
                slot: u16::try_from(seat.slot).unwrap_or(u16::MAX),
                asked: wait.price.max(0).unsigned_abs(),
                own: wait.level.cast_unsigned(),
                all: wait.waited,
                limit: self.account.rate.ppm().into(),
            };
            events::note(seat.region, What::Wait, &event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn one_in_a_while_is_told_and_much_longer_ones_at_once() {
        let noted = Noted::new();
        assert!(!noted.takes(MS - 1, 1000 * MS));
        assert!(noted.takes(2 * MS, 1000 * MS));
        assert!(!noted.takes(3 * MS, 1001 * MS));
        assert!(noted.takes(4 * MS, 1002 * MS));
        assert!(!noted.takes(4 * MS, 1003 * MS));
        assert!(noted.takes(2 * MS, 1102 * MS));
    }
}
