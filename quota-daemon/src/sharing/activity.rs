//! Whether a container is active on a device, by what it says about itself.

use super::{MS, Reading};

/// A container is idle when nothing has been heard of it for so long. More than the gaps of a training loop that reads its
/// loss and loads a batch; and with it, what is left by one who goes idle is lent within a tenth of a second.
pub(super) const QUIET: u64 = 60 * MS;

/// A busy bit counts for so long after a process was last heard of. A process that stopped calling with the bit set cannot clear
/// it, and a kernel that runs longer than this keeps its container's own rate in any case.
pub(super) const BUSY: u64 = 1_000 * MS;

/// What is known of one container on one device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activity {
    /// The last moment at which something is known to have happened.
    moved: u64,
    /// The last look, and the counters it found.
    looked: Option<(u64, u64, u64)>,
}

impl Activity {
    /// Whether it is active at `now`.
    pub(super) fn look(&mut self, now: u64, reading: Option<&Reading>) -> bool {
        let Some(reading) = reading else {
            self.looked = None;
            return false;
        };
        // A stamp ahead of the clock is a lie or damage, and tells nothing.
        if reading.refilled_at <= now {
            self.moved = self.moved.max(reading.refilled_at);
        }
        if let Some((at, waits, launches)) = self.looked
            && (waits, launches) != (reading.waits, reading.launches)
        {
            // Somewhere between the last look and this one: the earliest of it is sure.
            self.moved = self.moved.max(at.min(now));
        }
        self.looked = Some((now, reading.waits, reading.launches));
        let quiet = now.saturating_sub(self.moved);
        self.moved > 0 && (quiet <= QUIET || reading.busy && quiet <= BUSY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1 << 40;

    fn stamp(refilled_at: u64) -> Reading {
        Reading {
            refilled_at,
            ..Reading::default()
        }
    }

    #[test]
    fn a_fresh_stamp_is_activity_and_an_old_one_is_not() {
        let mut activity = Activity::default();
        assert!(activity.look(NOW, Some(&stamp(NOW))));
        assert!(activity.look(NOW + QUIET, Some(&stamp(NOW))));
        assert!(!activity.look(NOW + QUIET + 1, Some(&stamp(NOW))));
        assert!(!activity.look(NOW + QUIET + 2, None));
    }

    #[test]
    fn a_stamp_in_the_future_is_none() {
        for stamped in [NOW + 1, u64::MAX] {
            assert!(!Activity::default().look(NOW, Some(&stamp(stamped))));
        }
        assert!(!Activity::default().look(NOW, Some(&stamp(0))));
        assert!(!Activity::default().look(0, Some(&stamp(0))));
    }

    #[test]
    fn a_busy_bit_bridges_a_long_kernel_and_not_for_ever() {
        let mut activity = Activity::default();
        let busy = Reading {
            busy: true,
            ..stamp(NOW)
        };
        assert!(activity.look(NOW, Some(&busy)));
        assert!(activity.look(NOW + BUSY, Some(&busy)));
        assert!(!activity.look(NOW + BUSY + 1, Some(&busy)));
    }

    #[test]
    fn a_counter_that_moves_counts_from_the_look_before() {
        let mut activity = Activity::default();
        let launches = |launches| Reading {
            launches,
            ..stamp(1)
        };
        assert!(!activity.look(NOW, Some(&launches(5))));
        assert!(activity.look(NOW + 50 * MS, Some(&launches(6))));
        assert!(!activity.look(NOW + 111 * MS, Some(&launches(6))));
        // Backwards is a lie, and moves it all the same: a container may claim to be active.
        assert!(activity.look(NOW + 150 * MS, Some(&launches(0))));
    }

    #[test]
    fn gaps_of_thirty_milliseconds_do_not_end_it() {
        let mut activity = Activity::default();
        for step in 0..100 {
            let now = NOW + step * 47 * MS;
            let last = now - (step * 7 % 31) * MS;
            assert!(activity.look(now, Some(&stamp(last))), "{step}");
        }
    }
}
