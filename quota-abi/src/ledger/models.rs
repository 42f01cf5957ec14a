//! The ledger, in every order in which two processes can run.

use super::*;
use loom::sync::Arc;

/// Two processes ask for the last byte: never both, and nobody is told `Full` while nothing is held.
#[test]
fn loom_two_ask_for_the_last_byte() {
    two_ask([1, 1], 1);
}

/// One asks for all, the other for half.
#[test]
fn loom_a_large_and_a_small_request() {
    two_ask([2, 1], 2);
}

fn two_ask(amounts: [u64; 2], limit: u64) {
    loom::model(move || {
        let words = Arc::new((
            AtomicU64::new(2),
            [AtomicU64::new(0), AtomicU64::new(0)],
            [AtomicU64::new(0), AtomicU64::new(0)],
        ));
        let ask = move |slot: usize, words: &(AtomicU64, [AtomicU64; 2], [AtomicU64; 2])| {
            let ledger = Ledger {
                high_water: &words.0,
                held: &words.1,
                asking: &words.2,
            };
            ledger.reserve(slot, amounts[slot], limit, |_| false)
        };
        let other = {
            let words = Arc::clone(&words);
            loom::thread::spawn(move || ask(1, &words))
        };
        let verdicts = [ask(0, &words), other.join().unwrap()];
        let held: Vec<u64> = words
            .1
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        assert!(held[0] + held[1] <= limit, "over-admitted");
        for slot in 0..2 {
            let admitted = verdicts[slot] == Verdict::Admitted;
            assert_eq!(held[slot], if admitted { amounts[slot] } else { 0 });
            if verdicts[slot] == Verdict::Full {
                assert!(held[1 - slot] + amounts[slot] > limit, "refused what fits");
            }
        }
    });
}

/// One gives back while the other asks: never more than the limit.
#[test]
fn loom_refund_while_another_asks() {
    loom::model(|| {
        let words = Arc::new((
            AtomicU64::new(2),
            [AtomicU64::new(1), AtomicU64::new(0)],
            [AtomicU64::new(0), AtomicU64::new(0)],
        ));
        let theirs = Arc::clone(&words);
        let other = loom::thread::spawn(move || {
            let ledger = Ledger {
                high_water: &theirs.0,
                held: &theirs.1,
                asking: &theirs.2,
            };
            ledger.reserve(1, 1, 1, |_| false)
        });
        words.1[0].fetch_sub(1, Ordering::Release);
        let verdict = other.join().unwrap();
        let held: u64 = words
            .1
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .sum();
        assert_eq!(held, u64::from(verdict == Verdict::Admitted));
    });
}

/// A process that is alone takes the last byte while the second one of its group comes and asks for it.
#[test]
fn loom_a_second_process_comes() {
    loom::model(|| {
        let words = Arc::new((
            AtomicU64::new(1),
            [AtomicU64::new(0), AtomicU64::new(0)],
            [AtomicU64::new(0), AtomicU64::new(0)],
        ));
        let theirs = Arc::clone(&words);
        let other = loom::thread::spawn(move || {
            theirs.0.fetch_max(2, Ordering::AcqRel);
            ask(&theirs, 1)
        });
        let verdicts = [ask(&words, 0), other.join().unwrap()];
        let held: u64 = words
            .1
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .sum();
        assert!(held <= 1, "over-admitted");
        let admitted = verdicts.iter().filter(|v| **v == Verdict::Admitted).count();
        assert_eq!(admitted as u64, held);
    });
}

fn ask(words: &(AtomicU64, [AtomicU64; 2], [AtomicU64; 2]), slot: usize) -> Verdict {
    let ledger = Ledger {
        high_water: &words.0,
        held: &words.1,
        asking: &words.2,
    };
    ledger.reserve(slot, 1, 1, |_| false)
}
