//! Boxes of an array's elements: what is left of one where another is taken away.

/// From `low` up to, and not with, `high`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Cuboid {
    pub(super) low: [u64; 3],
    pub(super) high: [u64; 3],
}

impl Cuboid {
    /// Everything there is.
    pub(super) const ALL: Self = Self {
        low: [0; 3],
        high: [u64::MAX; 3],
    };

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let sides = self.low.iter().zip(&self.high);
        let others = other.low.iter().zip(&other.high);
        sides
            .zip(others)
            .all(|((low, high), (from, to))| low.max(from) < high.min(to))
    }

    /// The same with other ends along one side.
    fn between(mut self, side: usize, from: u64, to: u64) -> Self {
        if let (Some(low), Some(high)) = (self.low.get_mut(side), self.high.get_mut(side)) {
            (*low, *high) = (from, to);
        }
        self
    }

    /// The parts of this that do not lie in `other`: at most two for each side.
    pub(super) fn without(mut self, other: &Self, mut left: impl FnMut(Self)) {
        if !self.overlaps(other) {
            left(self);
            return;
        }
        for side in 0..3 {
            let (Some(&from), Some(&to)) = (other.low.get(side), other.high.get(side)) else {
                return;
            };
            let (Some(&low), Some(&high)) = (self.low.get(side), self.high.get(side)) else {
                return;
            };
            if low < from {
                left(self.between(side, low, from));
                self = self.between(side, from, high);
            }
            if to < high {
                left(self.between(side, to, high));
                self = self.between(side, low.max(from), to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: [u64; 3], high: [u64; 3]) -> Cuboid {
        Cuboid { low, high }
    }

    fn volume(of: &Cuboid) -> u64 {
        of.low.iter().zip(&of.high).map(|(l, h)| h - l).product()
    }

    #[test]
    fn what_is_left_and_what_is_taken_make_the_whole() {
        let whole = of([0, 0, 0], [4, 4, 4]);
        for other in [
            of([1, 1, 1], [2, 2, 2]),
            of([0, 0, 0], [4, 4, 1]),
            of([2, 0, 0], [9, 9, 9]),
            of([4, 0, 0], [5, 4, 4]),
            Cuboid::ALL,
        ] {
            let mut parts = Vec::new();
            whole.without(&other, |part| parts.push(part));
            for (i, part) in parts.iter().enumerate() {
                assert!(!part.overlaps(&other), "{part:?} {other:?}");
                assert!(parts[..i].iter().all(|before| !before.overlaps(part)));
            }
            let common = |side: usize| {
                let end = whole.high[side].min(other.high[side]);
                end.saturating_sub(whole.low[side].max(other.low[side]))
            };
            let taken: u64 = (0..3).map(common).product();
            assert_eq!(parts.iter().map(volume).sum::<u64>() + taken, 64);
        }
    }
}
