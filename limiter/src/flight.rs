//! How much work is in flight: launched, and not known to have ended.
//!
//! The bound keeps a program from queueing seconds of work on the strength of a wrong estimate. It only
//! ever delays: an earlier launch may wait for the later one, so after [`PATIENCE`] the launch is
//! admitted and the bound is off until the GPU shows that it moves.

use quota_abi::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Estimated work in flight per process and device, ns.
pub(crate) const BOUND: i64 = 4_000_000;
/// The same where durations vary, ns: half of it may turn out to be next to nothing.
const UNSURE_BOUND: i64 = 10_000_000;
/// The most that the bound delays one launch, ns.
pub(crate) const PATIENCE: u64 = 20_000_000;
/// A launch that alone exceeds this may join work that leaves room for this much.
const ROOM: i64 = 2_000_000;

/// While what is in flight takes longer than its estimate, a waiting launch looks after half of the time by which it is late, but not
/// sooner than this, ns.
const SHORTEST_LOOK: u64 = 200_000;
/// Nor later.
const LONGEST_LOOK: u64 = 1_000_000;

/// Work that is late by its estimate and so much more, ns, does not just take longer.
const STUCK: u64 = 60_000_000;

/// That the GPU has passed a marker is seen so much later, ns, or an estimate is off by as much: nothing is wrong yet.
const SEEN: i64 = 250_000;

/// One device's work of this process between the recording and the passing of a marker.
#[derive(Debug)]
pub(crate) struct Flight {
    work: AtomicI64,
    count: AtomicU32,
    off: AtomicU32,
    /// Estimate of the oldest, and since when it can have been running.
    head: AtomicI64,
    since: AtomicU64,
    /// Launches let through, since a marker was last passed, for the sake of work that did not end.
    relieved: AtomicU32,
}

impl Flight {
    pub(crate) const fn new() -> Self {
        Self {
            work: AtomicI64::new(0),
            count: AtomicU32::new(0),
            off: AtomicU32::new(0),
            head: AtomicI64::new(0),
            since: AtomicU64::new(0),
            relieved: AtomicU32::new(0),
        }
    }

    /// Work behind a marker that was just recorded.
    pub(crate) fn depart(&self, estimate: i64, now: u64) {
        if self.count.fetch_add(1, Relaxed) == 0 {
            self.head.store(estimate, Relaxed);
            self.since.store(now, Relaxed);
        }
        self.work.fetch_add(estimate, Relaxed);
    }

    /// A marker was passed, which shows that the GPU moves, or given up.
    pub(crate) fn arrive(&self, estimate: i64, now: u64) {
        self.work.fetch_sub(estimate, Relaxed);
        self.count.fetch_sub(1, Relaxed);
        self.since.fetch_max(now, Relaxed);
        self.off.store(0, Relaxed);
        self.relieved.store(0, Relaxed);
    }

    /// Which marker is the oldest now.
    pub(crate) fn lead(&self, estimate: i64) {
        self.head.store(estimate, Relaxed);
    }

    /// The estimate of all of it.
    pub(crate) fn work(&self) -> i64 {
        self.work.load(Relaxed).max(0)
    }

    /// Whether anything is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// The estimate of the oldest.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Relaxed).max(0).unsigned_abs()
    }

    /// Whether the oldest is late by so much that it rather waits for something: its container must not pay for that with its turns.
    pub(crate) fn is_stuck(&self, now: u64) -> bool {
        now > self
            .head_ends_at()
            .saturating_add(self.head())
            .saturating_add(STUCK)
    }

    /// When the oldest will have ended, by its estimate.
    pub(crate) fn head_ends_at(&self) -> u64 {
        let head = self.head.load(Relaxed).max(0).unsigned_abs();
        self.since.load(Relaxed).saturating_add(head)
    }

    /// Estimated work that the GPU still has to do. The time since its last sign of life counts as done,
    /// unless the oldest marker is overdue: then the estimates are wrong, and nothing counts as done.
    pub(crate) fn remaining(&self, now: u64) -> i64 {
        if self.is_empty() {
            return 0;
        }
        let work = self.work();
        let elapsed = now.saturating_sub(self.since.load(Relaxed));
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        if elapsed > self.head.load(Relaxed).saturating_add(SEEN) {
            work
        } else {
            (work - elapsed).max(0)
        }
    }

    /// Whether the oldest takes longer than its estimate.
    pub(crate) fn is_late(&self, now: u64) -> bool {
        !self.is_empty() && now > self.head_ends_at().saturating_add(SEEN.unsigned_abs())
    }

    /// When to look whether it has ended: at the end of all of it by the estimates; and where they are wrong, the later the longer the oldest
    /// goes on beyond its time.
    pub(crate) fn next_look(&self, now: u64) -> u64 {
        let late = now.saturating_sub(self.head_ends_at());
        let nap = (late / 2).clamp(SHORTEST_LOOK, LONGEST_LOOK);
        if late > SEEN.unsigned_abs() {
            now.saturating_add(nap)
        } else {
            now.saturating_add(self.remaining(now).unsigned_abs().max(SHORTEST_LOOK))
        }
    }

    /// How much too much is in flight for a launch of `cost` to join; 0: it may.
    pub(crate) fn excess(&self, cost: i64, sure: bool, now: u64) -> i64 {
        if self.is_off() || self.is_empty() {
            return 0;
        }
        let bound = if sure { BOUND } else { UNSURE_BOUND };
        (self.remaining(now) + cost.min(ROOM) - bound).max(0)
    }

    /// Somebody has waited for [`PATIENCE`] and in vain.
    pub(crate) fn turn_off(&self) {
        self.off.store(1, Relaxed);
    }

    /// A launch was let through for the sake of work that did not end.
    pub(crate) fn relieve(&self) {
        self.relieved.fetch_add(1, Relaxed);
    }

    /// How many were since a marker was last passed.
    pub(crate) fn relieved(&self) -> u32 {
        self.relieved.load(Relaxed)
    }

    /// Whether the bound is off.
    pub(crate) fn is_off(&self) -> bool {
        self.off.load(Relaxed) != 0
    }

    /// Forgets everything: a forked child has no work in flight.
    pub(crate) fn reset(&self) {
        self.work.store(0, Relaxed);
        self.count.store(0, Relaxed);
        self.off.store(0, Relaxed);
        self.relieved.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MS_WORK: i64 = 1_000_000;

    #[test]
    fn two_first_guesses_fit_and_a_third_does_not() {
        let flight = Flight::new();
        assert_eq!(flight.excess(2 * MS_WORK, true, 0), 0);
        flight.depart(2 * MS_WORK, 0);
        assert_eq!(flight.excess(2 * MS_WORK, true, 0), 0);
        flight.depart(2 * MS_WORK, 0);
        assert_eq!(flight.excess(2 * MS_WORK, true, 0), 2 * MS_WORK);
    }

    #[test]
    fn known_work_makes_room_as_the_clock_goes() {
        let flight = Flight::new();
        flight.depart(5 * MS_WORK, 0);
        assert_eq!(flight.excess(5 * MS_WORK, true, 0), 3 * MS_WORK);
        assert_eq!(flight.excess(5 * MS_WORK, true, 3 * MS), 0);
    }

    #[test]
    fn an_overdue_marker_makes_no_room() {
        let flight = Flight::new();
        flight.depart(4 * MS_WORK, 0);
        assert_eq!(flight.excess(MS_WORK, true, 4 * MS), 0);
        assert_eq!(flight.excess(MS_WORK, true, 4 * MS + 250_000), 0);
        assert_eq!(flight.excess(MS_WORK, true, 5 * MS), MS_WORK);
        flight.turn_off();
        assert_eq!(flight.excess(MS_WORK, true, 5 * MS), 0);
        flight.depart(4 * MS_WORK, 5 * MS);
        flight.arrive(4 * MS_WORK, 6 * MS);
        flight.lead(4 * MS_WORK);
        assert_eq!(flight.excess(MS_WORK, true, 6 * MS), MS_WORK);
    }
}
