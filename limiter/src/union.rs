//! Time that several streams were busy, counted once.

/// Stretches remembered. Work of a few milliseconds is in flight at a time, in spans of about one.
const KEPT: usize = 64;
/// Stretches closer together than this are joined: the gap between two kernels of one stream.
const GAP: i64 = 2_000;

/// A stretch of the GPU's clock, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    begin: i64,
    end: i64,
}

/// The recent stretches that were charged, in order and disjoint.
#[derive(Debug)]
pub(crate) struct Union {
    stretches: [Stretch; KEPT],
    count: usize,
}

impl Union {
    pub(crate) const fn new() -> Self {
        Self {
            stretches: [Stretch { begin: 0, end: 0 }; KEPT],
            count: 0,
        }
    }

    /// Adds `begin..end`; returns how much of it had not been covered. What was forgotten because it was
    /// too long ago counts as not covered.
    pub(crate) fn add(&mut self, begin: i64, end: i64) -> i64 {
        if end <= begin {
            return 0;
        }
        let mut fresh = end - begin;
        let mut merged = Stretch { begin, end };
        let mut kept = 0;
        let mut place = None;
        for index in 0..self.count {
            let Some(&old) = self.stretches.get(index) else {
                break;
            };
            fresh -= (old.end.min(end) - old.begin.max(begin)).max(0);
            if old.end + GAP >= begin && old.begin <= end + GAP {
                merged.begin = merged.begin.min(old.begin);
                merged.end = merged.end.max(old.end);
                continue;
            }
            if place.is_none() && old.begin > end {
                place = Some(kept);
            }
            if let Some(slot) = self.stretches.get_mut(kept) {
                *slot = old;
            }
            kept += 1;
        }
        let mut place = place.unwrap_or(kept);
        if kept == KEPT {
            // The oldest goes, and with it the new one if that is older still.
            if place == 0 {
                self.count = kept;
                return fresh;
            }
            self.stretches.copy_within(1.., 0);
            kept -= 1;
            place -= 1;
        }
        self.stretches.copy_within(place..kept, place + 1);
        if let Some(slot) = self.stretches.get_mut(place) {
            *slot = merged;
        }
        self.count = kept + 1;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn overlaps_count_once_in_any_order() {
        let spans = [(0, 10), (5, 12), (20, 30), (11, 21), (40, 41), (0, 50)];
        for rotate in 0..spans.len() {
            let mut order = spans;
            order.rotate_left(rotate);
            let mut union = Union::new();
            let total: i64 = order.iter().map(|(a, b)| union.add(a * MS, b * MS)).sum();
            assert_eq!(total, 50 * MS, "{order:?}");
        }
    }

    #[test]
    fn a_long_span_that_ends_last_is_charged_for_the_gaps_only() {
        let mut union = Union::new();
        let mut short = 0;
        for index in 0..20 {
            short += union.add(index * 10 * MS, index * 10 * MS + MS);
        }
        assert_eq!(short, 20 * MS);
        assert_eq!(union.add(0, 200 * MS), 180 * MS);
    }

    #[test]
    fn what_is_forgotten_is_charged_again_and_nothing_breaks() {
        let mut union = Union::new();
        for index in 0..1000 {
            assert_eq!(union.add(index * MS, index * MS + MS / 2), MS / 2);
        }
        assert_eq!(union.add(999 * MS, 999 * MS + MS / 2), 0);
        assert_eq!(union.add(0, MS / 2), MS / 2);
        assert_eq!(union.add(0, 0), 0);
        assert_eq!(union.add(5, 3), 0);
    }

    #[test]
    fn compared_with_a_plain_bitmap() {
        let mut seed = 7_u64;
        let mut union = Union::new();
        let mut bitmap = [false; 60];
        for _ in 0..400 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let begin = usize::try_from(seed >> 33).unwrap() % 55;
            let length = usize::try_from(seed >> 50).unwrap() % 5;
            let mut fresh = 0;
            for cell in &mut bitmap[begin..begin + length] {
                fresh += i64::from(!*cell);
                *cell = true;
            }
            let [begin, end] = [begin, begin + length].map(|at| i64::try_from(at).unwrap() * MS);
            assert_eq!(union.add(begin, end), fresh * MS);
        }
    }
}
