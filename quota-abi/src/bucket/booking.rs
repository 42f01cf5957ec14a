//! When a device will be done with what a container has admitted: one word, which its processes share, and read off which a daemon deals
//! the next turn. Nothing in it holds anybody back by itself.

use super::{Bucket, MOST_CHARGED};
use crate::sync::Ordering::Relaxed;

/// In [`Bucket::ends_at`]: see [`Bucket::say_full`].
const FULL: u64 = 1;
/// In [`Bucket::overdue_until`]: see [`Bucket::goes_on`].
const UNSURE: u64 = 1;

/// An end this far ahead of the clock is damage, and counts as none.
fn sane(ends_at: u64, now: u64) -> u64 {
    if ends_at > now.saturating_add(MOST_CHARGED.unsigned_abs()) {
        0
    } else {
        ends_at
    }
}

impl Bucket {
    /// Books `least` or up to `most` ns of the device behind all that was booked before, so that it ends by `until`; what finds
    /// nothing before it may end later, or nobody could ever start a long kernel; and so may what fits by half. Returns how much; `None` if there is no room.
    pub fn book(&self, now: u64, least: i64, most: i64, until: u64) -> Option<i64> {
        let least = least.max(0);
        let mut ends_at = self.ends_at.load(Relaxed);
        loop {
            let begin = sane(ends_at, now).max(now) & !FULL;
            let room = i64::try_from(until.saturating_sub(begin)).unwrap_or(i64::MAX);
            if room < least - least / 2 && begin > now {
                return None;
            }
            let amount = most.min(room).max(least);
            let ends = begin.saturating_add(amount.unsigned_abs()) & !FULL;
            match self
                .ends_at
                .compare_exchange_weak(ends_at, ends, Relaxed, Relaxed)
            {
                Ok(_) => return Some(amount),
                Err(changed) => ends_at = changed,
            }
        }
    }

    /// What was booked takes so much longer, or shorter, than was thought.
    pub fn rebook(&self, gpu_ns: i64) {
        if gpu_ns != 0 {
            // Wraps only in a damaged region, where it is as good as any other number.
            let more = gpu_ns.clamp(-MOST_CHARGED, MOST_CHARGED).cast_unsigned() & !FULL;
            self.ends_at.fetch_add(more, Relaxed);
        }
    }

    /// When what is booked will have run, as far as is known at `now`; not after it where nothing is booked.
    pub fn ends_at(&self, now: u64) -> u64 {
        let overdue = sane(self.overdue_until.load(Relaxed), now);
        sane(self.ends_at.load(Relaxed), now).max(overdue)
    }

    /// What comes next does not fit behind what is booked. Holds until something is booked all the same.
    /// False if it has been said.
    pub fn say_full(&self) -> bool {
        self.ends_at.fetch_or(FULL, Relaxed) & FULL == 0
    }

    /// Whether that was said.
    pub fn is_full(&self) -> bool {
        self.ends_at.load(Relaxed) & FULL != 0
    }

    /// Nothing is booked.
    pub fn forget_bookings(&self) -> bool {
        self.overdue_until.store(0, Relaxed);
        self.ends_at.swap(0, Relaxed) > FULL
    }

    /// Something that is booked takes longer than was thought, until `at` at least. The booking stays as it is: how much longer it took
    /// is known in the end. Not `sure`: so that is with much of what is booked here.
    pub fn goes_on(&self, at: u64, sure: bool) {
        let flag = if sure { 0 } else { UNSURE };
        self.overdue_until.store(at & !UNSURE | flag, Relaxed);
    }

    /// Whether estimates tell little of when something ends, as was said of what goes on now.
    pub fn is_unsure(&self) -> bool {
        self.overdue_until.load(Relaxed) & UNSURE != 0
    }

    /// Nothing goes on any more.
    pub fn is_over(&self) {
        if self.overdue_until.load(Relaxed) != 0 {
            self.overdue_until.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_booked_stands_in_line_and_ends_in_time() {
        let bucket = Bucket::default();
        let ms = 1_000_000;
        let now = 1 << 40;
        let until = now + 5 * ms;
        let some = 2_000_000;
        assert_eq!(bucket.book(now, some, some, until), Some(some));
        assert_eq!(bucket.book(now, some, some, until), Some(some));
        assert_eq!(bucket.book(now, some + some / 2, some * 2, until), None);
        // What there is room for.
        assert_eq!(bucket.book(now, 1, some, until), Some(1_000_000));
        assert_eq!(bucket.ends_at(now), until);
        // Two turned out shorter.
        bucket.settle(some, some / 2);
        assert_eq!(bucket.book(now + ms, 1, some, until), Some(1_000_000));
        // Nothing before it: too long, and after the end, all the same.
        let later = until + 10 * ms;
        assert_eq!(bucket.book(later, some, some, later + 1), Some(some));
        assert_eq!(bucket.book(later, 1, 1, later + 1), None);
        bucket.goes_on(later + 3 * ms, true);
        assert_eq!(bucket.ends_at(later), later + 3 * ms);
        assert!(!bucket.is_unsure());
        bucket.goes_on(later + 3 * ms, false);
        assert!(bucket.is_unsure());
        bucket.is_over();
        assert_eq!(bucket.ends_at(later), later + 2 * ms);
    }

    #[test]
    fn a_damaged_end_is_none() {
        let bucket = Bucket::default();
        for damaged in [u64::MAX, u64::MAX / 2, 1 << 63] {
            bucket.ends_at.store(damaged, Relaxed);
            assert_eq!(bucket.book(1 << 40, 5, 7, (1 << 40) + 100), Some(7));
        }
        bucket.ends_at.store(3, Relaxed);
        bucket.rebook(i64::MIN);
        assert_eq!(bucket.book(1 << 40, 5, 7, (1 << 40) + 100), Some(7));
    }
}
