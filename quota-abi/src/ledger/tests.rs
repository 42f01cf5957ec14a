//! The ledger, with real threads.

use super::*;

struct Words {
    high_water: AtomicU64,
    held: Vec<AtomicU64>,
    asking: Vec<AtomicU64>,
}

impl Words {
    fn new(slots: usize) -> Self {
        let words = || (0..slots).map(|_| AtomicU64::new(0)).collect();
        Self {
            high_water: AtomicU64::new(slots as u64),
            held: words(),
            asking: words(),
        }
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger {
            high_water: &self.high_water,
            held: &self.held,
            asking: &self.asking,
        }
    }
}

#[test]
fn exactly_the_limit_fits() {
    let words = Words::new(2);
    let ledger = words.ledger();
    assert_eq!(ledger.reserve(0, 60, 100, |_| false), Verdict::Admitted);
    assert_eq!(ledger.reserve(1, 41, 100, |_| false), Verdict::Full);
    assert_eq!(ledger.reserve(1, 40, 100, |_| false), Verdict::Admitted);
    assert_eq!(ledger.usage(), 100);
    ledger.refund(0, 60);
    assert_eq!(ledger.usage(), 40);
}

#[test]
fn a_request_above_the_limit_is_never_posted() {
    let words = Words::new(1);
    assert_eq!(
        words.ledger().reserve(0, u64::MAX, 100, |_| false),
        Verdict::Full
    );
    assert_eq!(words.asking[0].load(Ordering::Relaxed), 0);
}

#[test]
fn a_refund_does_not_wrap() {
    let words = Words::new(1);
    words.ledger().force(0, 5);
    words.ledger().refund(0, 7);
    assert_eq!(words.ledger().usage(), 0);
}

#[test]
fn what_only_others_ask_for_is_waited_for() {
    let words = Words::new(2);
    words.asking[0].store(80, Ordering::Relaxed);
    let mut pauses = 0;
    let verdict = words.ledger().reserve(1, 50, 100, |_| {
        pauses += 1;
        if pauses == 3 {
            words.asking[0].store(0, Ordering::Relaxed);
        }
        true
    });
    assert_eq!(verdict, Verdict::Admitted);
    assert_eq!(pauses, 3);
}

#[test]
fn garbage_from_a_neighbour_refuses_but_does_not_wrap() {
    let words = Words::new(2);
    words.held[1].store(u64::MAX, Ordering::Relaxed);
    assert_eq!(words.ledger().reserve(0, 1, 100, |_| false), Verdict::Full);
}

#[test]
fn processes_never_exceed_and_always_fill() {
    fill([0, 1, 2, 3]);
}

#[test]
fn threads_of_a_process_never_exceed_and_always_fill() {
    fill([0, 0, 1, 1]);
}

fn fill(slots: [usize; 4]) {
    let words = Words::new(4);
    let (words, limit) = (&words, 64);
    for _ in 0..200 {
        std::thread::scope(|scope| {
            for slot in slots {
                scope.spawn(move || {
                    for _ in 0..32 {
                        let verdict = words.ledger().reserve(slot, 1, limit, |_| {
                            std::thread::yield_now();
                            true
                        });
                        assert!(words.ledger().usage() <= limit);
                        assert_ne!(verdict, Verdict::Contended);
                    }
                });
            }
        });
        assert_eq!(words.ledger().usage(), limit);
        for (slot, held) in words.held.iter().enumerate() {
            words.ledger().refund(slot, held.load(Ordering::Relaxed));
        }
    }
}
