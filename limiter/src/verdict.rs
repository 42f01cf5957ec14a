//! What a measured span says about the work in it.
//!
//! Two events around launches tell when the GPU reached the first and when it had done the last. That is
//! the most that the work can have taken. It can have taken less where the host launched so slowly that
//! the GPU stood idle in between; how slowly is known from the moments at which a thread refilled.

/// Limits that are closer together than this part of the upper one leave little room.
const NARROW: i64 = 8;
/// And only in a span of this length, ns: how long the first launch of it took to begin does not count there.
const LONG: i64 = 250_000;
/// Moments remembered of one span.
pub(crate) const POINTS: usize = 8;

/// What was known of a span when its last event was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence<'a> {
    /// What the work in it was estimated at, ns.
    pub(crate) estimate: i64,
    /// Between the two events on the GPU's clock, ns.
    pub(crate) measured: i64,
    /// When the host went on launching: ns after the first event was recorded, and the estimate of what
    /// had been launched before that moment. Ascending; the launch at moment 0 is not listed.
    pub(crate) points: &'a [(i64, i64)],
    /// When the host had launched everything.
    pub(crate) closed: i64,
    /// Whether the GPU had nothing to do when the first event was recorded: then the time that the host
    /// took for the launch was idle time.
    pub(crate) idle: bool,
}

impl Evidence<'_> {
    /// The least GPU time that the work took: under the assumption that all estimates are wrong by the
    /// same factor, and that the host launched each stretch at its very end.
    ///
    /// From the end of a stretch on, the GPU had at most the rest of the span for this stretch and
    /// all later ones; whichever stretch leaves the smallest factor decides.
    pub(crate) fn least(&self) -> i64 {
        let mut least = i64::MAX;
        let mut before = 0;
        for &(moment, launched) in self.points.iter().chain(&[(self.closed, self.estimate)]) {
            least = least.min(self.factor(moment, before));
            before = launched;
        }
        least.clamp(0, self.measured.max(0))
    }

    /// The most GPU time that the work can have taken.
    pub(crate) fn most(&self) -> i64 {
        if self.idle {
            self.least()
        } else {
            self.measured
        }
    }

    /// What the whole estimate becomes if the work estimated after `before` fitted between `moment` and
    /// the end.
    fn factor(&self, moment: i64, before: i64) -> i64 {
        let rest = self.estimate - before;
        if rest <= 0 {
            return i64::MAX;
        }
        let whole = i128::from((self.measured - moment).max(0)) * i128::from(self.estimate);
        i64::try_from(whole / i128::from(rest)).unwrap_or(i64::MAX)
    }

    /// The same where other containers had work on the device, whose slices are in the measurement: it proves only a maximum.
    pub(crate) fn charge_in_contention(&self, fresh: i64) -> i64 {
        let shared = (self.measured - fresh).max(0);
        self.estimate.min((self.measured - shared).max(0))
    }

    /// What is charged in the end, if `fresh` of the measured time had not been charged already to work
    /// that ran at the same time: the estimate, as far as the measurement allows it.
    pub(crate) fn charge(&self, fresh: i64) -> i64 {
        let shared = (self.measured - fresh).max(0);
        let low = (self.least() - shared).max(0);
        let high = (self.most() - shared).max(low);
        likely(self.estimate, low, high)
    }
}

/// What a time was that is known to lie between `low` and `high`: where these leave little room, what the GPU's clock says, less a
/// part of what the host may have let it stand idle; else the estimate, as far as they allow it. An estimate that they always
/// allow would never be corrected.
pub(crate) fn likely(estimate: i64, low: i64, high: i64) -> i64 {
    let room = high - low;
    if high >= LONG && room <= high / NARROW {
        high - room / 4
    } else {
        estimate.clamp(low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i64 = 1_000;

    #[test]
    fn launched_ahead_of_the_gpu_the_measurement_stands() {
        // 20 launches of 10 us each in 40 us; estimated at half and at twice their length.
        for estimate in [100, 400] {
            let evidence = Evidence {
                estimate: estimate * US,
                measured: 200 * US,
                points: &[],
                closed: US,
                idle: false,
            };
            let charge = evidence.charge(200 * US);
            assert!((199 * US..=200 * US).contains(&charge), "{charge}");
        }
    }

    #[test]
    fn a_host_that_dawdles_proves_nothing_but_a_maximum() {
        let evidence = |estimate| Evidence {
            estimate,
            measured: 1000 * US,
            points: &[],
            closed: 995 * US,
            idle: false,
        };
        assert_eq!(evidence(100 * US).charge(1000 * US), 100 * US);
        assert_eq!(evidence(3000 * US).charge(1000 * US), 1000 * US);
    }

    #[test]
    fn a_fast_beginning_bounds_the_rest() {
        // 10 stretches estimated at 50 us, launched within 20 us each; the GPU needed 100 us for each.
        let points: Vec<_> = (1..8).map(|n| (n * 20 * US, n * 50 * US)).collect();
        let evidence = Evidence {
            estimate: 500 * US,
            measured: 1000 * US,
            points: &points,
            closed: 200 * US,
            idle: false,
        };
        assert_eq!(evidence.least(), 980 * US);
    }

    #[test]
    fn an_idle_gap_is_not_charged() {
        // Launched in two bursts 5 ms apart, 500 us of true work each, rightly estimated.
        let evidence = Evidence {
            estimate: 1000 * US,
            measured: 5500 * US,
            points: &[(5000 * US, 500 * US)],
            closed: 5010 * US,
            idle: false,
        };
        assert_eq!(evidence.charge(5500 * US), 1000 * US);
    }

    #[test]
    fn what_ran_beside_other_work_is_charged_once() {
        let evidence = Evidence {
            estimate: 400 * US,
            measured: 400 * US,
            points: &[],
            closed: 2 * US,
            idle: false,
        };
        assert_eq!(evidence.charge(100 * US), 100 * US);
        assert_eq!(evidence.charge(0), 0);
    }

    #[test]
    fn the_first_launch_on_an_idle_gpu_is_not_charged_for_the_call() {
        // The call took 20 ms (the driver loaded the module), the kernel 50 us.
        let evidence = Evidence {
            estimate: 2000 * US,
            measured: 20_050 * US,
            points: &[],
            closed: 20_000 * US,
            idle: true,
        };
        assert_eq!(evidence.charge(20_050 * US), 50 * US);
    }

    #[test]
    fn others_slices_are_not_charged_and_what_was_shorter_is_given_back() {
        let evidence = |measured| Evidence {
            estimate: 400 * US,
            measured,
            points: &[],
            closed: 2 * US,
            idle: false,
        };
        assert_eq!(
            evidence(1400 * US).charge_in_contention(1400 * US),
            400 * US
        );
        assert_eq!(evidence(300 * US).charge_in_contention(300 * US), 300 * US);
        assert_eq!(evidence(300 * US).charge_in_contention(100 * US), 100 * US);
    }

    #[test]
    fn nothing_measured_means_nothing_charged() {
        let evidence = Evidence {
            estimate: 0,
            measured: 0,
            points: &[],
            closed: 0,
            idle: false,
        };
        assert_eq!(evidence.charge(0), 0);
        let evidence = Evidence {
            estimate: 2_000_000,
            ..evidence
        };
        assert_eq!(evidence.charge(0), 0);
    }
}
