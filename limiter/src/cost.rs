//! What a launch of one shape costs, and what a measurement makes of that.
//!
//! Most shapes take the same time whenever they run, and a few measurements tell it. Some do not: a kernel that works on as much as it finds
//! takes now this and now that, and its next launch is as likely as any to be a long one. What matters there is the mean over many launches. Which
//! of the two a shape is, its measurements tell: by how far they lie from what was expected.

use crate::verdict::likely;

/// Nothing is estimated higher. It is what 39 bits hold, 9 minutes.
pub(crate) const HIGHEST: i64 = (1 << 39) - 1;
/// In an entry's word, above the cost: the shape was seen to wait for a later launch. With the bits of the cost this reads as a
/// price that no thread can pay on the fast path: all launches of such a shape are measured.
const WAITS: u64 = 1 << 63;
/// Where the cost begins in an entry's word: to its end, so that reading a price is one shift.
pub(crate) const COST: u32 = 24;
/// Below the cost: how far measurements lie from it.
const SPREAD: u32 = 12;
/// And below that, how often it was measured.
const SAMPLES: u64 = (1 << SPREAD) - 1;

/// Measurements after which a cost is known.
const SETTLED: u32 = 2;
/// One launch moves the cost of a shape whose launches are all alike by a quarter of the difference: it counts as much as the last
/// three.
const ALIKE: i64 = 3;
/// And as much as the last so many, where they are not.
const UNLIKE: i64 = 64;
/// The spread up to which launches are alike, and from which on they are not, in 256ths of the cost.
const LITTLE: i64 = 64;
const MUCH: i64 = 256;
/// No spread is larger, in 256ths.
const MOST_SPREAD: i64 = (1 << SPREAD) - 1;

/// What is known of a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Nanoseconds of GPU time for one launch.
    pub(crate) ns: i64,
    /// How often it was measured. 0: a guess.
    pub(crate) samples: u32,
    /// How far single launches lie from the cost on average, in 256ths of it.
    pub(crate) spread: u32,
    /// Whether it was ever seen to wait for a later launch.
    pub(crate) waits: bool,
}

impl Cost {
    /// What nothing was measured of.
    pub(crate) const fn guess(ns: i64) -> Self {
        Self {
            ns,
            samples: 0,
            spread: 0,
            waits: false,
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_wrap, reason = "39 bits")]
    pub(crate) const fn unpack(word: u64) -> Self {
        Self {
            ns: ((word & !WAITS) >> COST) as i64,
            samples: (word & SAMPLES) as u32,
            spread: (word >> SPREAD & SAMPLES) as u32,
            waits: word & WAITS != 0,
        }
    }

    pub(crate) fn pack(self) -> u64 {
        self.ns.clamp(0, HIGHEST).unsigned_abs() << COST
            | (u64::from(self.spread) & SAMPLES) << SPREAD
            | u64::from(self.samples).min(SAMPLES)
            | if self.waits { WAITS } else { 0 }
    }

    /// Whether it was hardly measured yet.
    pub(crate) fn is_young(self) -> bool {
        self.samples < SETTLED
    }

    /// Whether each launch of this shape gets a span of its own.
    pub(crate) fn is_singular(self) -> bool {
        self.is_young() || self.waits
    }

    /// What becomes of it when so many launches together took at least `low` and at most `high` ns each.
    pub(crate) fn measured(self, (low, high): (i64, i64), launches: u32) -> Self {
        let samples = self.samples.saturating_add(1);
        if self.samples == 0 {
            return Self {
                ns: high,
                samples,
                ..self
            };
        }
        let launches = i64::from(launches.max(1));
        let off = likely(self.ns, low.min(high), high) - self.ns;
        // A mean of several lies nearer to the cost than one does, by the root of their number.
        let single = off.saturating_abs().saturating_mul(isqrt(launches));
        let single = single.saturating_mul(256) / self.ns.max(1);
        let spread = i64::from(self.spread);
        let spread = spread + (single.min(MOST_SPREAD) - spread) / 8;
        let memory = ALIKE
            + (i64::from(self.spread) - LITTLE).clamp(0, MUCH - LITTLE) * (UNLIKE - ALIKE)
                / (MUCH - LITTLE);
        // However many they are, what measures them may be in error.
        let weight = launches.min(memory / ALIKE);
        Self {
            ns: self.ns + off.saturating_mul(weight) / (weight + memory),
            samples,
            spread: u32::try_from(spread).unwrap_or(0),
            ..self
        }
    }
}

fn isqrt(number: i64) -> i64 {
    i64::from(u32::try_from(number).unwrap_or(u32::MAX).isqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_what_was_put_in() {
        for cost in [
            Cost::guess(0),
            Cost {
                ns: HIGHEST,
                samples: 4095,
                spread: 4095,
                waits: true,
            },
            Cost {
                ns: 20_000,
                samples: 3,
                spread: 77,
                waits: false,
            },
        ] {
            assert_eq!(Cost::unpack(cost.pack()), cost);
        }
        assert_eq!(
            Cost::unpack(
                Cost {
                    samples: 1 << 20,
                    ..Cost::guess(5)
                }
                .pack()
            )
            .samples,
            4095
        );
    }

    #[test]
    fn alike_launches_are_followed_at_once() {
        let mut cost = Cost::guess(2_000_000).measured((20_000, 20_000), 1);
        assert_eq!(cost.ns, 20_000);
        for _ in 0..20 {
            cost = cost.measured((22_000, 22_000), 1);
        }
        assert!((21_900..=22_000).contains(&cost.ns), "{cost:?}");
    }

    /// Nine of ten take 20 us, one takes 2 ms: the mean is 218 us.
    #[test]
    fn of_unlike_launches_the_mean_is_kept() {
        let mut dice = 7_u64;
        let mut cost = Cost::guess(2_000_000).measured((20_000, 20_000), 1);
        let (mut lowest, mut highest) = (i64::MAX, 0);
        for round in 0..4_000 {
            // As many in a span as fill a millisecond by the estimate.
            let launches = (1_000_000 / cost.ns.max(1)).clamp(1, 50);
            let mut sum = 0;
            for _ in 0..launches {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                sum += if (dice >> 40).is_multiple_of(10) {
                    2_000_000
                } else {
                    20_000
                };
            }
            let each = sum / launches;
            cost = cost.measured((each, each), u32::try_from(launches).unwrap());
            if round > 100 {
                lowest = lowest.min(cost.ns);
                highest = highest.max(cost.ns);
            }
        }
        assert!(
            lowest > 70_000 && highest < 550_000,
            "{lowest} to {highest}"
        );
    }

    #[test]
    fn a_shape_that_changes_for_good_is_followed() {
        let mut cost = Cost::guess(2_000_000).measured((20_000, 20_000), 1);
        for _ in 0..4 {
            cost = cost.measured((20_000, 20_000), 50);
        }
        for _ in 0..4 {
            cost = cost.measured((1_000_000, 1_000_000), 50);
        }
        assert!(cost.ns > 600_000, "{cost:?}");
        for _ in 0..200 {
            cost = cost.measured((20_000, 20_000), 1);
        }
        assert!(cost.ns < 80_000, "{cost:?}");
    }
}
