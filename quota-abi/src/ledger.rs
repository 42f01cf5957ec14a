//! Who holds how much of a device: reserve, then allocate.
//!
//! Each process has two words, `held` and `asking`. The sum over all processes is the only truth, so a process killed at
//! any instruction leaves nothing to repair: its words are zeroed when it is reaped.
//!
//! No over-admission: a process first says in `asking` what it wants, then, past a full fence, sums everybody's words. Of two
//! that ask at the same time at least one sees the other. Of the threads of one process one asks at a time. No refusal of what fits: only `held` refuses; where others' `asking`
//! alone stands in the way, the one in the lowest slot waits and the rest step back and try again.

use crate::sync::{AtomicU64, Ordering, post_then_fence};

/// Looks again this often before it takes a sum for the truth: a sum is not read at one instant, and memory that moves
/// from one process to another meanwhile is counted twice.
const CONFIRMATIONS: u32 = 4;
/// How often the lowest slot looks again before it steps back as well.
#[cfg(not(loom))]
const PATIENCE: u32 = 64;
#[cfg(loom)]
const PATIENCE: u32 = 1;

/// The words of one device.
#[derive(Copy, Clone)]
pub struct Ledger<'a> {
    /// One more than the highest slot in use.
    pub high_water: &'a AtomicU64,
    /// Bytes held, by slot.
    pub held: &'a [AtomicU64],
    /// Bytes asked for, by slot.
    pub asking: &'a [AtomicU64],
}

/// What became of a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    /// It is in `held`.
    Admitted,
    /// What is held leaves no room for it.
    Full,
    /// Others were asking all the while.
    Contended,
}

enum Sight {
    Fits,
    Full,
    Contended { yields: bool },
}

impl Ledger<'_> {
    /// Asks for `amount` more, so that the sum does not exceed `limit`. `pause(n)` waits before the n-th new try, or
    /// answers `false` to give up.
    pub fn reserve(
        &self,
        slot: usize,
        amount: u64,
        limit: u64,
        mut pause: impl FnMut(u32) -> bool,
    ) -> Verdict {
        let (Some(held), Some(asking)) = (self.held.get(slot), self.asking.get(slot)) else {
            return Verdict::Full;
        };
        // Words cannot overflow: a process posts no more than a limit at a time.
        if amount > limit {
            return Verdict::Full;
        }
        if amount == 0 {
            return Verdict::Admitted;
        }
        let mut tries = 0;
        loop {
            // SYNC POINT with the loads in `look`: asking before the fence, sums after it.
            if post_then_fence(asking, amount) {
                let verdict = match self.watch(slot, amount, limit) {
                    Sight::Fits => {
                        held.fetch_add(amount, Ordering::Relaxed);
                        Some(Verdict::Admitted)
                    }
                    Sight::Full => Some(Verdict::Full),
                    Sight::Contended { .. } => None,
                };
                // SYNC POINT with `look`'s load of `asking`: who sees it gone sees `held`.
                asking.store(0, Ordering::Release);
                if let Some(verdict) = verdict {
                    return verdict;
                }
            } else if wait_for(asking) {
                continue;
            }
            tries += 1;
            if !pause(tries) {
                return Verdict::Contended;
            }
        }
    }

    /// Adds without asking: what has happened already and cannot be undone.
    pub fn force(&self, slot: usize, amount: u64) {
        if let Some(held) = self.held.get(slot) {
            held.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Gives back. Never goes below zero, whoever wrote the word meanwhile.
    pub fn refund(&self, slot: usize, amount: u64) {
        let Some(held) = self.held.get(slot) else {
            return;
        };
        let mut before = held.load(Ordering::Relaxed);
        while let Err(now) = held.compare_exchange_weak(
            before,
            before.saturating_sub(amount),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            before = now;
        }
    }

    /// Bytes held by one.
    #[must_use]
    pub fn held_by(&self, slot: usize) -> u64 {
        self.held
            .get(slot)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Bytes held by all.
    #[must_use]
    pub fn usage(&self) -> u64 {
        self.in_use(self.held).iter().fold(0, |sum, word| {
            sum.saturating_add(word.load(Ordering::Relaxed))
        })
    }

    /// Looks until the sight is sure, or it is somebody else's turn to wait.
    fn watch(&self, slot: usize, amount: u64, limit: u64) -> Sight {
        let mut full = 0;
        let mut waited = 0;
        loop {
            match self.look(slot, amount, limit) {
                Sight::Full if full < CONFIRMATIONS => full += 1,
                Sight::Contended { yields: false } if waited < PATIENCE => {
                    waited += 1;
                    spin();
                }
                sight => return sight,
            }
        }
    }

    fn look(&self, slot: usize, amount: u64, limit: u64) -> Sight {
        let mut everything = 0_u64;
        let mut held_sum = 0_u64;
        let mut yields = false;
        let words = self.in_use(self.asking).iter().zip(self.held);
        for (index, (asking, held)) in words.enumerate() {
            // SYNC POINT: asking is read before held, so that what moves from one to the other is seen at least once.
            let asking = asking.load(Ordering::Acquire);
            let held = held.load(Ordering::Relaxed);
            everything = everything.saturating_add(asking).saturating_add(held);
            held_sum = held_sum.saturating_add(held);
            // The lowest slot goes first.
            yields |= index < slot && asking > 0;
        }
        if everything <= limit {
            Sight::Fits
        } else if held_sum.saturating_add(amount) > limit {
            Sight::Full
        } else {
            Sight::Contended { yields }
        }
    }

    /// The words of the slots in use. Read after one's own fence: a slot claimed later asks after its own fence as well,
    /// and sees us.
    fn in_use<'a>(&self, words: &'a [AtomicU64]) -> &'a [AtomicU64] {
        let count = usize::try_from(self.high_water.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        words.get(..count).unwrap_or(words)
    }
}

/// Waits a little for another thread of this process to have its answer. `true` if it has.
fn wait_for(asking: &AtomicU64) -> bool {
    for _ in 0..PATIENCE {
        if asking.load(Ordering::Relaxed) == 0 {
            return true;
        }
        spin();
    }
    false
}

fn spin() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

#[cfg(all(test, not(loom)))]
mod tests {
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
}

#[cfg(all(test, loom))]
mod loom_tests {
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
}
