//! How much a container uses, measured from a counter that it writes itself.

use super::{MS, Reading, WHOLE};

/// Over so long at least.
const WINDOW: u64 = 200 * MS;
/// What was measured longer ago tells nothing any more.
const STALE: u64 = 2_000 * MS;

/// The measure of one container on one device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    /// When the window began, and what the counters were then.
    since: Option<(u64, u64, u64)>,
    /// The last window's rate.
    ppm: Option<u32>,
    /// Whether launches waited in the last window.
    waited: bool,
    /// When it was last fed.
    fed: u64,
}

impl Meter {
    pub(super) fn feed(&mut self, now: u64, reading: Option<&Reading>) {
        let Some(reading) = reading else {
            *self = Self::default();
            return;
        };
        if now.saturating_sub(self.fed) > STALE {
            *self = Self::default();
        }
        self.fed = now;
        let Some((at, used, waits)) = self.since else {
            self.since = Some((now, reading.used, reading.waits));
            return;
        };
        self.waited |= reading.waits != waits;
        let elapsed = now.saturating_sub(at);
        if elapsed < WINDOW {
            return;
        }
        // Backwards (an estimate taken back, or a lie) is nothing used; faster than the clock is all of it.
        let used = reading.used.saturating_sub(used).min(elapsed);
        let ppm = u128::from(used) * 1_000_000 / u128::from(elapsed.max(1));
        self.ppm = Some(u32::try_from(ppm).unwrap_or(WHOLE).min(WHOLE));
        self.waited = reading.waits != waits;
        self.since = Some((now, reading.used, reading.waits));
    }

    /// Parts per million of the device; `None` while nothing is measured.
    pub(super) fn ppm(&self, now: u64) -> Option<u32> {
        self.ppm.filter(|_| now.saturating_sub(self.fed) <= STALE)
    }

    /// Whether launches waited lately.
    pub(super) fn waited(&self) -> bool {
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1 << 40;

    fn feed(meter: &mut Meter, at: u64, used: u64, waits: u64) {
        let reading = Reading {
            used,
            waits,
            ..Reading::default()
        };
        meter.feed(NOW + at * MS, Some(&reading));
    }

    #[test]
    fn a_quarter_used_is_a_quarter() {
        let mut meter = Meter::default();
        for at in (0..=400).step_by(50) {
            feed(&mut meter, at, at * MS / 4, 0);
        }
        assert_eq!(meter.ppm(NOW + 400 * MS), Some(250_000));
        assert!(!meter.waited());
        assert_eq!(meter.ppm(NOW + 3_000 * MS), None);
    }

    #[test]
    fn waiting_shows_at_once_and_ends_with_a_window_without() {
        let mut meter = Meter::default();
        feed(&mut meter, 0, 0, 7);
        feed(&mut meter, 50, 0, 8);
        assert!(meter.waited());
        feed(&mut meter, 200, 0, 8);
        assert!(meter.waited());
        feed(&mut meter, 400, 0, 8);
        assert!(!meter.waited());
    }

    #[test]
    fn no_counter_measures_more_than_all_or_less_than_nothing() {
        let mut meter = Meter::default();
        feed(&mut meter, 0, u64::MAX, 0);
        feed(&mut meter, 300, 0, u64::MAX);
        assert_eq!(meter.ppm(NOW + 300 * MS), Some(0));
        feed(&mut meter, 600, u64::MAX, 0);
        assert_eq!(meter.ppm(NOW + 600 * MS), Some(WHOLE));
        meter.feed(0, Some(&Reading::default()));
        meter.feed(NOW, None);
        assert_eq!(meter.ppm(NOW), None);
    }
}
