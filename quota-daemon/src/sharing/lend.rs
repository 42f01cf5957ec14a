//! Dividing what is to lend.
//!
//! By weight, within the highest priority first; what somebody cannot take goes to the others. First everybody is served
//! as far as it seems to want, so that time goes where launches wait; then what is left goes by weight again, so that
//! whoever begins to want more finds some of it lent to him already.

/// One who may be lent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Borrower {
    /// Its place among the members of the device.
    pub index: usize,
    /// Its weight.
    pub weight: u32,
    /// Higher is served first.
    pub priority: i32,
    /// Up to where it seems to want, in ppm, its own included.
    pub wants: u32,
    /// Up to where it may go at all.
    pub cap: u32,
    /// What it has: its own to begin with, then what it is lent on top.
    pub has: u32,
}

/// Lends `spare` ppm. Leaves the borrowers in another order.
pub(crate) fn lend(spare: u32, borrowers: &mut [Borrower]) {
    let mut spare = spare;
    for wants in [true, false] {
        let ceiling = |b: &Borrower| if wants { b.wants.min(b.cap) } else { b.cap };
        let room = |b: &Borrower| ceiling(b).saturating_sub(b.has);
        // Who is full first comes first: then one pass over a tier divides all of it.
        borrowers.sort_unstable_by_key(|b| {
            let full_at = (u64::from(room(b)) << 32) / u64::from(b.weight.max(1));
            (std::cmp::Reverse(b.priority), full_at, b.index)
        });
        for tier in borrowers.chunk_by_mut(|a, b| a.priority == b.priority) {
            let mut weights: u64 = tier.iter().map(|b| u64::from(b.weight.max(1))).sum();
            for borrower in tier {
                let weight = u64::from(borrower.weight.max(1));
                let part = u64::from(spare) * weight / weights.max(1);
                let part = u32::try_from(part).unwrap_or(spare).min(room(borrower));
                borrower.has += part;
                spare -= part;
                weights -= weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn borrower(index: usize, weight: u32, has: u32) -> Borrower {
        Borrower {
            index,
            weight,
            priority: 0,
            wants: 999_999,
            cap: 999_999,
            has,
        }
    }

    fn lent(spare: u32, mut borrowers: Vec<Borrower>) -> Vec<u32> {
        lend(spare, &mut borrowers);
        borrowers.sort_by_key(|b| b.index);
        borrowers.iter().map(|b| b.has).collect()
    }

    #[test]
    fn by_weight() {
        let two = vec![borrower(0, 5, 250_000), borrower(1, 5, 250_000)];
        assert_eq!(lent(499_999, two), [499_999, 500_000]);
        let unequal = vec![borrower(0, 1, 100_000), borrower(1, 3, 300_000)];
        assert_eq!(lent(400_000, unequal), [200_000, 600_000]);
    }

    #[test]
    fn what_a_capped_one_cannot_take_goes_to_the_others() {
        let mut three = vec![
            borrower(0, 5, 100_000),
            borrower(1, 5, 100_000),
            borrower(2, 5, 100_000),
        ];
        three[1].cap = 150_000;
        assert_eq!(lent(300_000, three), [225_000, 150_000, 225_000]);
    }

    #[test]
    fn the_higher_priority_first() {
        let mut two = vec![borrower(0, 5, 100_000), borrower(1, 5, 100_000)];
        two[1].priority = 1;
        two[1].cap = 300_000;
        assert_eq!(lent(150_000, two.clone()), [100_000, 250_000]);
        assert_eq!(lent(250_000, two), [150_000, 300_000]);
    }

    #[test]
    fn who_wants_it_before_who_does_not_and_all_of_it_in_the_end() {
        let mut two = vec![borrower(0, 5, 100_000), borrower(1, 5, 100_000)];
        two[0].wants = 120_000;
        assert_eq!(lent(100_000, two.clone()), [120_000, 180_000]);
        two[1].wants = 120_000;
        assert_eq!(lent(100_000, two), [150_000, 150_000]);
    }

    prop_compose! {
        fn any_borrower()(weight in 0..=10_000_u32, priority in -1..=1, wants in 0..=999_999_u32,
                          cap in 1..=999_999_u32, has in 0..200_000_u32) -> Borrower {
            Borrower { index: 0, weight, priority, wants, cap, has }
        }
    }

    proptest! {
        #[test]
        fn nothing_is_made_and_nothing_is_left_that_anybody_can_take(
            spare in 0..=999_999_u32,
            mut borrowers in proptest::collection::vec(any_borrower(), 0..20),
        ) {
            for (index, borrower) in borrowers.iter_mut().enumerate() {
                borrower.index = index;
            }
            let before = borrowers.clone();
            lend(spare, &mut borrowers);
            borrowers.sort_by_key(|b| b.index);
            let given: u64 = before.iter().zip(&borrowers).map(|(a, b)| u64::from(b.has - a.has)).sum();
            prop_assert!(given <= u64::from(spare));
            for (before, after) in before.iter().zip(&borrowers) {
                prop_assert!(after.has >= before.has);
                prop_assert!(after.has <= after.cap.max(before.has));
            }
            if given < u64::from(spare) {
                // The last of each tier takes all that is left, so nothing is lost to rounding.
                prop_assert!(borrowers.iter().all(|b| b.has >= b.cap));
            }
            for (lower, higher) in borrowers.iter().flat_map(|a| borrowers.iter().map(move |b| (a, b))) {
                let lent_beyond_want = lower.has > before[lower.index].has.max(lower.wants);
                if lower.priority < higher.priority && lent_beyond_want {
                    prop_assert!(higher.has >= higher.cap);
                }
            }
        }
    }
}
