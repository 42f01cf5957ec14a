//! Words of a policy row, written only where they change.

use quota_abi::policy::{Loan, Row};
use quota_abi::sync::{AtomicU32, AtomicU64, Ordering};
use rustix::thread::futex;

use super::MS;

/// How long a loan holds.
const LOAN: u64 = 100 * MS;
/// A loan is renewed when less than this is left of it.
const RENEW: u64 = 75 * MS;

/// Writes what is lent; `old` is what the row says.
pub(super) fn write_loan(row: &Row, now: u64, old: Loan, lent: Option<u32>) {
    let was = old.rate(now);
    let new = match lent {
        Some(rate)
            if was == lent && old.until() >= now.saturating_add(RENEW) && is_near(old, now) =>
        {
            Loan::new(rate, old.until())
        }
        Some(rate) => Loan::new(rate, now.saturating_add(LOAN)),
        None => Loan(0),
    };
    if set(&row.loan, new.0) && was != lent {
        wake(&row.wake);
    }
}

/// A loan that ends later than any that is given is damage, or of another clock.
fn is_near(loan: Loan, now: u64) -> bool {
    loan.until() <= now.saturating_add(LOAN)
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
