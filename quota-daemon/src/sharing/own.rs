//! What is a container's own of a device's time.

use super::WHOLE;
use crate::model::Compute;

/// The rate in ppm that is a container's own: its limit, or its guarantee by weight over all that are declared on the device,
/// itself included. Never 0, which would be no rate, and never a million, which would be no limit. `None`: time is free.
pub fn own_ppm(compute: Compute, all_of_device: impl Iterator<Item = Compute>) -> Option<u32> {
    match compute {
        Compute::Free => None,
        Compute::Limit { ppm } => Some(ppm.clamp(1, WHOLE)),
        Compute::Share { weight, cap_ppm } => {
            let weights = Weights::of(all_of_device);
            Some(weights.guarantee(weight).min(cap(cap_ppm)))
        }
    }
}

/// The most that a share gets, loans included.
pub(super) fn cap(cap_ppm: Option<u32>) -> u32 {
    cap_ppm.unwrap_or(WHOLE).clamp(1, WHOLE)
}

/// The weights of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weights {
    sum: u64,
    count: u32,
}

impl Weights {
    pub(super) fn of(all: impl Iterator<Item = Compute>) -> Self {
        let mut weights = Self::default();
        for compute in all {
            if let Compute::Share { weight, .. } = compute {
                weights.sum += u64::from(weight.max(1));
                weights.count += 1;
            }
        }
        weights
    }

    /// At least 1 ppm for everybody, the rest by weight; rounded down, so that the guarantees together never exceed the whole.
    pub(super) fn guarantee(self, weight: u32) -> u32 {
        let rest = u64::from(WHOLE.saturating_sub(self.count));
        let weight = u64::from(weight.max(1));
        // A weight that is not among those counted is one that the caller forgot: it gets all at most.
        let part = rest * weight / self.sum.max(weight);
        u32::try_from(part + 1).unwrap_or(WHOLE).min(WHOLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(weights: &[u32]) -> Vec<Compute> {
        let share = |weight: &u32| Compute::Share {
            weight: *weight,
            cap_ppm: None,
        };
        weights.iter().map(share).collect()
    }

    fn own(all: &[Compute], index: usize) -> Option<u32> {
        own_ppm(all[index], all.iter().copied())
    }

    #[test]
    fn five_five_and_ten_have_a_quarter_a_quarter_and_a_half() {
        let mut all = shares(&[5, 5, 10]);
        all.push(Compute::Limit { ppm: 300_000 });
        all.push(Compute::Free);
        let own: Vec<_> = (0..5).map(|index| own(&all, index)).collect();
        assert_eq!(
            own,
            [
                Some(250_000),
                Some(250_000),
                Some(499_999),
                Some(300_000),
                None
            ]
        );
    }

    #[test]
    fn one_alone_is_still_counted() {
        assert_eq!(own(&shares(&[7]), 0), Some(WHOLE));
        assert_eq!(own(&[Compute::Limit { ppm: 1_000_000 }], 0), Some(WHOLE));
        assert_eq!(own(&[Compute::Limit { ppm: 0 }], 0), Some(1));
    }

    #[test]
    fn a_cap_below_the_guarantee_is_the_rate() {
        let mut all = shares(&[5]);
        all.push(Compute::Share {
            weight: 5,
            cap_ppm: Some(100_000),
        });
        assert_eq!(own(&all, 1), Some(100_000));
    }

    #[test]
    fn nobody_has_nothing_and_all_have_at_most_the_whole() {
        for count in [1, 2, 3, 7, 64, 512] {
            let mut weights = vec![10_000; count];
            weights[0] = 1;
            let all = shares(&weights);
            let own: Vec<u32> = (0..count).filter_map(|index| own(&all, index)).collect();
            assert!(own.iter().all(|ppm| *ppm > 0));
            assert!(own.iter().sum::<u32>() <= WHOLE, "{count}");
        }
    }
}
