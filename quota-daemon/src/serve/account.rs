//! Counters of a container on a device, made from what it writes itself: added up over regions that were replaced, compared
//! with what is possible, and with what they were about a second ago.

use std::time::{Duration, Instant};

use quota_abi::bucket::Reading;

/// Two looks closer together than this say nothing about a rate.
const WINDOW: Duration = Duration::from_secs(1);
/// Older looks than this are not "the last second or so".
const STALE: Duration = Duration::from_secs(4);
/// No counter is older.
const EVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// What GPU time may be ahead of the clock: charges come before the work, and are corrected after it.
const AHEAD: u64 = 100_000_000_000;

/// What a container has used of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Added up over all regions.
    pub(super) total: Counters,
    /// As they stood in the region at the last look.
    last: Option<(Instant, Counters)>,
    looks: [Option<(Instant, u64)>; 2],
    /// The highest use of memory seen.
    pub(super) peak: u64,
}

/// Counters of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// GPU time, ns.
    pub(super) used: u64,
    /// Waited, ns, summed over threads.
    pub(super) waited: u64,
    /// Launches that waited.
    pub(super) waits: u64,
    /// Launches.
    pub(super) launches: u64,
    /// Launches let through without time for them.
    pub(super) forced: u64,
    /// GPU time settled by measurement, ns.
    pub(super) measured: u64,
    /// What had been charged for that before, ns.
    pub(super) estimated: u64,
    /// Requests for memory that were refused.
    pub(super) refusals: u64,
}

impl Counters {
    /// From a region.
    #[must_use]
    pub(super) fn new(reading: &Reading, refusals: u64) -> Self {
        Self {
            used: reading.used,
            waited: reading.waited,
            waits: reading.waits,
            launches: reading.launches,
            forced: reading.forced,
            measured: reading.measured,
            estimated: reading.estimated,
            refusals,
        }
    }
}

impl Tally {
    /// Takes note of a look at the region. An error says what cannot be; then the counters go on from what they were.
    ///
    /// # Errors
    /// A counter went backwards or leapt: only a process of the container can have done that.
    pub(super) fn look(&mut self, now: Instant, seen: Counters) -> Result<(), &'static str> {
        let (elapsed, before) = match self.last {
            Some((at, before)) => (now.saturating_duration_since(at), before),
            // What is there when the daemon comes is taken as it is.
            None => (EVER, Counters::default()),
        };
        self.last = Some((now, seen));
        let possible = u64::try_from(elapsed.as_nanos())
            .unwrap_or(u64::MAX)
            .saturating_add(AHEAD);
        let result = match advance(&mut self.total, before, seen, possible) {
            true => Ok(()),
            false => Err("the counters in its usage region have leapt"),
        };
        let [_, newest] = self.looks;
        if newest.is_none_or(|(at, _)| now.saturating_duration_since(at) >= WINDOW) {
            self.looks = [newest, Some((now, self.total.used))];
        }
        result
    }

    /// The region has been replaced: its counters begin at zero.
    pub(super) fn restart(&mut self) {
        self.last = self.last.map(|(at, _)| (at, Counters::default()));
    }

    /// Percent of the device used over the last second or so; `None` if the last look is too long ago.
    #[must_use]
    pub(super) fn got_percent(&self, now: Instant) -> Option<f64> {
        let age = |look: &(Instant, u64)| now.saturating_duration_since(look.0);
        let look = self
            .looks
            .iter()
            .flatten()
            .rfind(|look| age(look) >= WINDOW / 4)?;
        let elapsed = age(look);
        (elapsed < STALE).then(|| {
            let used = self.total.used.saturating_sub(look.1);
            let percent = 100.0 * Duration::from_nanos(used).as_secs_f64() / elapsed.as_secs_f64();
            (percent * 100.0).round() / 100.0
        })
    }
}

/// Adds what has come since `before`; `false`, and nothing of that counter, where that cannot be.
fn advance(total: &mut Counters, before: Counters, seen: Counters, possible: u64) -> bool {
    let mut sound = true;
    let mut add =
        |total: &mut u64, before: u64, seen: u64, most: u64| match seen.checked_sub(before) {
            Some(more) if more <= most => *total = total.saturating_add(more),
            _ => sound = false,
        };
    // A thousand threads that wait, a launch each 100 ns.
    add(
        &mut total.waited,
        before.waited,
        seen.waited,
        possible.saturating_mul(1000),
    );
    add(&mut total.waits, before.waits, seen.waits, possible / 100);
    add(
        &mut total.launches,
        before.launches,
        seen.launches,
        possible / 100,
    );
    add(
        &mut total.refusals,
        before.refusals,
        seen.refusals,
        possible / 100,
    );
    add(
        &mut total.forced,
        before.forced,
        seen.forced,
        possible / 100,
    );
    // Work of many streams is measured side by side, and an estimate may be anything up to the most that is charged at once.
    for (total, before, seen) in [
        (&mut total.measured, before.measured, seen.measured),
        (&mut total.estimated, before.estimated, seen.estimated),
    ] {
        add(total, before, seen, possible.saturating_mul(1000));
    }
    // Alone of all it may fall: what was charged too high is given back.
    if seen.used >= before.used {
        add(&mut total.used, before.used, seen.used, possible);
    } else {
        let back = before.used - seen.used;
        if back <= AHEAD {
            total.used = total.used.saturating_sub(back);
        } else {
            sound = false;
        }
    }
    sound
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(used: u64) -> Counters {
        Counters {
            used,
            ..Counters::default()
        }
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn half_a_second_in_a_second_is_50_percent() {
        let start = Instant::now();
        let mut tally = Tally::default();
        let after = |ms| start + Duration::from_millis(ms);
        tally.look(after(0), used(7 * S)).unwrap();
        assert_eq!(tally.got_percent(after(0)), None);
        tally.look(after(1000), used(7 * S + S / 2)).unwrap();
        assert_eq!(tally.got_percent(after(1000)), Some(50.0));
        tally.look(after(1500), used(7 * S + S / 2)).unwrap();
        assert_eq!(tally.got_percent(after(1500)), Some(0.0));
        assert_eq!(tally.got_percent(after(9000)), None);
        assert_eq!(tally.total.used, 7 * S + S / 2);
    }

    #[test]
    fn a_region_that_is_replaced_loses_nothing() {
        let now = Instant::now();
        let mut tally = Tally::default();
        tally.look(now, used(5 * S)).unwrap();
        tally.restart();
        tally.look(now, used(S)).unwrap();
        assert_eq!(tally.total.used, 6 * S);
    }

    #[test]
    fn what_cannot_be_is_damage_and_not_counted() {
        let now = Instant::now();
        let mut tally = Tally::default();
        tally.look(now, used(500 * S)).unwrap();
        assert!(tally.look(now, used(u64::MAX)).is_err());
        assert!(tally.look(now, used(0)).is_err());
        assert_eq!(tally.total.used, 500 * S);
        tally.look(now, used(S)).unwrap();
        assert_eq!(tally.total.used, 501 * S);
    }

    #[test]
    fn an_estimate_that_was_too_high_is_given_back() {
        let now = Instant::now();
        let mut tally = Tally::default();
        tally.look(now, used(5 * S)).unwrap();
        tally.look(now, used(4 * S)).unwrap();
        assert_eq!(tally.total.used, 4 * S);
    }
}
