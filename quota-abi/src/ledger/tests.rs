//! The ledger, with real threads.

#![expect(
    clippy::indexing_slicing,
    reason = "a slot that is not there fails its test"
)]

use super::*;

const PAGE: u64 = UNIT;

struct Words {
    high_water: AtomicU64,
    words: Vec<AtomicU64>,
    /// One for each slot, as each process has its own.
    turns: Vec<AtomicU32>,
}

impl Words {
    fn new(slots: usize) -> Self {
        Self {
            high_water: AtomicU64::new(slots as u64),
            words: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            turns: (0..slots).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger {
            high_water: &self.high_water,
            words: &self.words,
        }
    }

    /// Asks in units, and gives up at once.
    fn reserve(&self, slot: usize, amount: u64, limit: u64) -> Verdict {
        self.reserve_with(slot, amount, limit, |_| Patience::End)
    }

    fn reserve_with(
        &self,
        slot: usize,
        amount: u64,
        limit: u64,
        pause: impl FnMut(u32) -> Patience,
    ) -> Verdict {
        let me = Asker {
            slot,
            turn: &self.turns[slot],
        };
        let ledger = self.ledger();
        ledger.reserve(me, amount * UNIT, limit * UNIT, pause)
    }

    fn usage(&self) -> u64 {
        self.ledger().usage() / UNIT
    }

    fn set(&self, slot: usize, word: Word) {
        self.words[slot].store(word.0, Ordering::Relaxed);
    }
}

#[test]
fn exactly_the_limit_fits() {
    let words = Words::new(2);
    assert_eq!(words.reserve(0, 60, 100), Verdict::Admitted);
    assert_eq!(words.reserve(1, 41, 100), Verdict::Full);
    assert_eq!(words.reserve(1, 40, 100), Verdict::Admitted);
    assert_eq!(words.usage(), 100);
    words.ledger().refund(0, 60 * PAGE);
    assert_eq!(words.usage(), 40);
    assert_eq!(words.ledger().word(0), Word::new(0, 0));
}

#[test]
fn bytes_round_up_and_limits_down() {
    let words = Words::new(1);
    let me = Asker {
        slot: 0,
        turn: &words.turns[0],
    };
    let ledger = words.ledger();
    let ask = |bytes, limit| ledger.reserve(me, bytes, limit, |_| Patience::End);
    assert_eq!(ask(1, 511), Verdict::Full);
    assert_eq!(ask(513, 1023), Verdict::Full);
    assert_eq!(ask(513, 1024), Verdict::Admitted);
    assert_eq!(ledger.usage(), 1024);
    assert_eq!(ask(0, 1024), Verdict::Admitted);
    ledger.refund(0, 513);
    assert_eq!(ledger.usage(), 0);
}

#[test]
fn a_request_above_the_limit_is_never_posted() {
    let words = Words::new(1);
    assert_eq!(words.reserve(0, 101, 100), Verdict::Full);
    let me = Asker {
        slot: 0,
        turn: &words.turns[0],
    };
    let verdict = words.ledger().reserve(me, u64::MAX, 100, |_| panic!());
    assert_eq!(verdict, Verdict::Full);
    assert_eq!(words.ledger().word(0), Word::new(0, 0));
}

#[test]
fn nothing_fits_even_above_the_limit() {
    let words = Words::new(1);
    for word in [Word::new(200, 0), Word::new(200, ASKING)] {
        words.set(0, word);
        assert_eq!(words.reserve(0, 0, 100), Verdict::Admitted);
        assert_eq!(words.reserve(0, 1, 100), Verdict::Full);
    }
}

#[test]
fn a_refund_does_not_wrap() {
    let words = Words::new(1);
    words.ledger().force(0, 5 * PAGE);
    words.ledger().refund(0, 7 * PAGE);
    assert_eq!(words.ledger().word(0), Word::new(0, 0));
}

#[test]
fn what_only_others_ask_for_is_waited_for() {
    let words = Words::new(2);
    words.set(0, Word::new(0, 80));
    let mut pauses = 0;
    let verdict = words.reserve_with(1, 50, 100, |_| {
        pauses += 1;
        if pauses == 3 {
            words.set(0, Word::new(0, 0));
        }
        Patience::Wait
    });
    assert_eq!(verdict, Verdict::Admitted);
    assert_eq!(pauses, 3);
}

#[test]
fn what_another_thread_asks_for_is_waited_for() {
    let words = Words::new(1);
    words.set(0, Word::new(20, 80));
    assert_eq!(words.reserve(0, 50, 100), Verdict::Contended);
    assert_eq!(words.ledger().word(0), Word::new(20, 80));
    assert_eq!(words.reserve(0, 81, 100), Verdict::Full);
}

#[test]
fn what_cannot_be_asked_for_at_a_time_is_asked_for_in_parts() {
    let words = Words::new(2);
    let limit = 3 * ASKING;
    assert_eq!(words.reserve(0, 2 * ASKING, limit), Verdict::Admitted);
    assert_eq!(words.reserve(1, ASKING + 1, limit), Verdict::Full);
    // Part of it is admitted, and then no more: given back.
    words.set(1, Word::new(0, ASKING / 2));
    assert_eq!(words.reserve(0, ASKING, limit), Verdict::Contended);
    assert_eq!(words.ledger().word(0), Word::new(2 * ASKING, 0));
    words.set(1, Word::new(0, 0));
    assert_eq!(words.reserve(1, ASKING, limit), Verdict::Admitted);
    assert_eq!(words.usage(), limit);
}

/// One that has been stopped in the middle of asking.
#[test]
fn what_one_who_is_stopped_asks_for_is_taken_away_and_it_asks_anew() {
    let words = Words::new(2);
    let word = &words.words[0];
    let posted = post(word, 80).unwrap();
    let insists = |tries| match tries {
        1 => Patience::Wait,
        2 => Patience::Insist,
        _ => Patience::End,
    };
    let verdict = words.reserve_with(1, 50, 100, insists);
    assert_eq!(verdict, Verdict::Admitted);
    // It goes on: neither admitted by what it saw before, nor taking back what it does not ask for any more.
    for admitted in [true, false] {
        assert!(!change(word, |now| now.answered(posted, 80, admitted)));
    }
    assert_eq!(words.ledger().word(0).uncounted(), Word::new(0, 0));
    assert_eq!(words.reserve(0, 80, 100), Verdict::Full);
    assert_eq!(words.reserve(0, 50, 100), Verdict::Admitted);
}

#[test]
fn fields_that_are_full_refuse_or_wait_and_never_carry() {
    let words = Words::new(2);
    let unlimited = u64::MAX / UNIT;
    words.set(0, Word::new(MOST_HELD - 5, 0));
    assert_eq!(words.reserve(0, 6, unlimited), Verdict::Full);
    words.set(0, Word::new(2, ASKING - 5));
    assert_eq!(words.reserve(0, 5, unlimited), Verdict::Contended);
    assert_eq!(words.ledger().word(0), Word::new(2, ASKING - 5));
    words.set(0, Word::ALONE);
    assert_eq!(words.reserve(0, MOST_HELD, unlimited), Verdict::Admitted);
    assert_eq!(words.reserve(0, 1, unlimited), Verdict::Full);
    assert_eq!(words.ledger().word(0), Word::new(MOST_HELD, ASKING));
}

#[test]
fn garbage_from_a_neighbour_refuses_but_does_not_wrap() {
    let words = Words::new(2);
    words.set(1, Word::new(MOST_HELD, 7));
    assert_eq!(words.reserve(0, 1, 100), Verdict::Full);
}

#[test]
fn alone_until_another_takes_up_its_slot() {
    let words = Words::new(2);
    take_up([words.ledger()].into_iter(), 0, || false);
    assert!(words.ledger().word(0).is_alone());
    assert_eq!(words.reserve(0, 99, 100), Verdict::Admitted);
    assert_eq!(words.reserve(0, 2, 100), Verdict::Full);
    take_up([words.ledger()].into_iter(), 1, || true);
    for slot in [0, 1] {
        assert!(!words.ledger().word(slot).is_alone());
        assert_eq!(words.reserve(slot, 2, 100), Verdict::Full);
    }
    assert_eq!(words.reserve(1, 1, 100), Verdict::Admitted);
    assert_eq!(words.usage(), 100);
}

/// One that died between marking itself and looking around.
#[test]
fn a_mark_that_should_not_be_is_taken_by_whoever_asks() {
    let words = Words::new(2);
    words.set(1, Word::ALONE);
    // Even where the limit is so large that the mark would fit as if it were a request.
    let verdict = words.reserve_with(0, 1, u64::MAX / UNIT, |_| Patience::Wait);
    assert_eq!(verdict, Verdict::Admitted);
    assert!(!words.ledger().word(1).is_alone());
}

#[test]
fn processes_never_exceed_and_always_fill() {
    fill([0, 1, 2, 3]);
}

#[test]
fn threads_of_a_process_never_exceed_and_always_fill() {
    fill([0, 0, 0, 0]);
}

#[test]
fn threads_of_processes_never_exceed_and_always_fill() {
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
                        let verdict = words.reserve_with(slot, 1, limit, |_| {
                            std::thread::yield_now();
                            Patience::Wait
                        });
                        assert!(words.usage() <= limit);
                        assert_ne!(verdict, Verdict::Contended);
                    }
                });
            }
        });
        assert_eq!(words.usage(), limit);
        for slot in slots {
            words.ledger().refund(slot, limit * PAGE);
        }
    }
}

/// One who asks for too much again and again, and one who asks for what fits: the second is never refused.
#[test]
fn the_impossible_does_not_hinder_the_possible() {
    for (possible, impossible) in [(0, 1), (1, 0), (0, 0)] {
        let words = Words::new(2);
        words.ledger().force(1, 10 * PAGE);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(
                        words.reserve_with(impossible, 95, 100, yields),
                        Verdict::Full
                    );
                }
            });
            for _ in 0..20_000 {
                let verdict = words.reserve_with(possible, 10, 100, yields);
                assert_eq!(verdict, Verdict::Admitted);
                words.ledger().refund(possible, 10 * PAGE);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

fn yields(_: u32) -> Patience {
    std::thread::yield_now();
    Patience::Wait
}
