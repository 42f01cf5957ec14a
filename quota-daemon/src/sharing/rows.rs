//! Words of a policy row, written only where they change.

use quota_abi::policy::{Loan, Row};
use quota_abi::sync::{AtomicU32, AtomicU64, Ordering};
use rustix::thread::futex;

use super::MS;

/// How long a loan holds.
const LOAN: u64 = 100 * MS;
/// A loan is renewed when less than this is left of it.
const RENEW: u64 = 75 * MS;

/// Writes what each row is lent, in ppm in all: first what is taken back, then what is given, so that at no moment more is lent
/// than there is. `written` is told after each word.
pub(super) fn write_loans<'a>(
    now: u64,
    rows: impl Iterator<Item = (&'a Row, Option<u32>)> + Clone,
    mut written: impl FnMut(),
) {
    for giving in [false, true] {
        for (row, lent) in rows.clone() {
            let old = Loan(row.loan.load(Ordering::Relaxed));
            if (lent > old.rate(now)) == giving {
                write_loan(row, now, old, lent);
                written();
            }
        }
    }
}

fn write_loan(row: &Row, now: u64, old: Loan, lent: Option<u32>) {
    let was = old.rate(now);
    // One that ends later than any that is given is damage, or of another clock.
    let is_near = old.until() <= now.saturating_add(LOAN);
    let new = match lent {
        Some(_) if was == lent && is_near && old.until() >= now.saturating_add(RENEW) => old,
        Some(rate) => Loan::new(rate, now.saturating_add(LOAN)),
        None => Loan(0),
    };
    if set(&row.loan, new.0) && was != lent {
        wake(&row.wake);
    }
}

/// Whether the word changed.
pub(super) fn set(word: &AtomicU64, value: u64) -> bool {
    let changed = word.load(Ordering::Relaxed) != value;
    if changed {
        word.store(value, Ordering::Release);
    }
    changed
}

/// Raises the word and wakes all that sleep on it.
pub(super) fn wake(word: &AtomicU32) {
    word.fetch_add(1, Ordering::Release);
    // Whoever sleeps there wakes by the clock all the same.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::super::fluid::{START, zero_row};
    use super::*;

    fn rate(row: &Row) -> Option<u32> {
        Loan(row.loan.load(Ordering::Relaxed)).rate(START)
    }

    #[test]
    fn what_is_taken_back_is_written_before_what_is_given() {
        let rows = [zero_row(), zero_row(), zero_row()];
        let mut moments = 0;
        // Each in turn has most of it, in both orders of the rows.
        for most in [0, 2, 1, 0, 1, 2] {
            let lent = |index| Some(if index == most { 700_000 } else { 100_000 });
            let wanted = rows
                .iter()
                .enumerate()
                .map(|(index, row)| (&**row, lent(index)));
            write_loans(START, wanted, || {
                let sum: u32 = rows.iter().filter_map(|row| rate(row)).sum();
                assert!(sum <= 900_000, "{sum}");
                moments += 1;
            });
            assert_eq!(rate(&rows[most]), Some(700_000));
        }
        assert!(moments > 12);
    }

    #[test]
    fn only_a_change_of_the_rate_wakes_and_a_fresh_loan_is_left_alone() {
        let row = zero_row();
        let lend = |at, lent| write_loans(START + at * MS, [(&*row, lent)].into_iter(), || ());
        let seen = || {
            let loan = Loan(row.loan.load(Ordering::Relaxed));
            let until = loan.until().saturating_sub(START).div_ceil(MS);
            (until, row.wake.load(Ordering::Relaxed))
        };
        lend(0, Some(500_000));
        assert_eq!(seen(), (100, 1));
        lend(20, Some(500_000));
        assert_eq!(seen(), (100, 1));
        lend(50, Some(500_000));
        assert_eq!(seen(), (150, 1));
        lend(60, Some(400_000));
        assert_eq!(seen(), (160, 2));
        lend(70, None);
        assert_eq!(seen().1, 3);
        lend(80, None);
        assert_eq!(seen().1, 3);
        // What an earlier daemon lent for longer than anybody may is cut short.
        row.loan
            .store(Loan::new(400_000, u64::MAX).0, Ordering::Relaxed);
        lend(90, Some(400_000));
        assert_eq!(seen(), (190, 3));
    }
}
