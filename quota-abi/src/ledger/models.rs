//! The ledger, in every order in which two or three processes or threads can run.
//!
//! `Contended` is always an answer here, since nobody waits: the models show that nothing else is ever wrong.

use super::*;
use loom::sync::Arc;
use loom::thread;

struct Group {
    high_water: AtomicU64,
    owners: [AtomicU64; 3],
    words: [AtomicU64; 3],
    turn: AtomicU32,
}

impl Group {
    fn new(words: [Word; 3]) -> Arc<Self> {
        Arc::new(Self {
            high_water: AtomicU64::new(3),
            owners: [0; 3].map(AtomicU64::new),
            words: words.map(|word| AtomicU64::new(word.0)),
            turn: AtomicU32::new(0),
        })
    }

    fn ledger(&self) -> Ledger<'_> {
        Ledger {
            high_water: &self.high_water,
            words: &self.words,
        }
    }

    fn ask(&self, slot: usize, amount: u64, limit: u64) -> Verdict {
        self.ask_with(slot, amount, limit, |_| Patience::End)
    }

    fn ask_with(
        &self,
        slot: usize,
        amount: u64,
        limit: u64,
        pause: impl FnMut(u32) -> Patience,
    ) -> Verdict {
        let me = Asker {
            slot,
            turn: &self.turn,
        };
        let ledger = self.ledger();
        ledger.reserve(me, amount * UNIT, limit * UNIT, pause)
    }

    fn held(&self, slot: usize) -> u64 {
        self.ledger().word(slot).held()
    }

    fn sum(&self) -> u64 {
        self.ledger().usage() / UNIT
    }

    /// Claims a slot that nobody owns, as `slots::claim` does.
    fn come(&self, slot: usize) {
        let free = self.owners[slot].compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        assert!(free.is_ok());
        self.high_water.fetch_max(slot as u64 + 1, Ordering::AcqRel);
        take_up([self.ledger()].into_iter(), slot, || {
            let taken = |(index, owner): (usize, &AtomicU64)| {
                index != slot && owner.load(Ordering::Acquire) != 0
            };
            self.owners.iter().enumerate().any(taken)
        });
    }
}

/// The models with many steps are looked at with no more preemptions than this: a full search takes hours, and a wrong order
/// that needs more of them has not been met.
fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(model);
}

const NOTHING: [Word; 3] = [Word::new(0, 0); 3];

/// Two processes ask for the last unit: never both, and nobody is told `Full` while nothing is held.
#[test]
fn loom_two_ask_for_the_last_unit() {
    two_ask([0, 1], [1, 1], 1);
}

/// One asks for all, the other for half.
#[test]
fn loom_a_large_and_a_small_request() {
    two_ask([0, 1], [2, 1], 2);
    two_ask([1, 0], [2, 1], 2);
}

/// What fits together is admitted at the first try: nobody is ever seen twice.
#[test]
fn loom_what_fits_together_is_admitted_at_once() {
    for slots in [[0, 1], [0, 0]] {
        loom::model(move || {
            let group = Group::new(NOTHING);
            let theirs = Arc::clone(&group);
            let other = thread::spawn(move || theirs.ask(slots[1], 1, 2));
            assert_eq!(group.ask(slots[0], 1, 2), Verdict::Admitted);
            assert_eq!(other.join().unwrap(), Verdict::Admitted);
        });
    }
}

/// The same among threads, who ask in one word.
#[test]
fn loom_two_threads_of_a_process() {
    two_ask([0, 0], [1, 1], 1);
    two_ask([0, 0], [2, 1], 2);
}

fn two_ask(slots: [usize; 2], amounts: [u64; 2], limit: u64) {
    loom::model(move || {
        let group = Group::new(NOTHING);
        let theirs = Arc::clone(&group);
        let other = thread::spawn(move || theirs.ask(slots[1], amounts[1], limit));
        let verdicts = [
            group.ask(slots[0], amounts[0], limit),
            other.join().unwrap(),
        ];
        let admitted = [0, 1].map(|one| {
            let admitted = verdicts[one] == Verdict::Admitted;
            if admitted { amounts[one] } else { 0 }
        });
        assert!(admitted[0] + admitted[1] <= limit, "over-admitted");
        assert_eq!(group.sum(), admitted[0] + admitted[1]);
        assert_eq!(group.ledger().word(slots[0]).asking(), 0);
        assert_eq!(group.ledger().word(slots[1]).asking(), 0);
        for one in [0, 1] {
            if verdicts[one] == Verdict::Full {
                assert!(
                    admitted[1 - one] + amounts[one] > limit,
                    "refused what fits"
                );
            }
        }
    });
}

/// One asks for more than what is held leaves, the other for what fits: it is never told that all is full.
#[test]
fn loom_the_impossible_beside_the_possible() {
    loom::model(|| {
        let group = Group::new([Word::new(0, 0), Word::new(0, 0), Word::new(1, 0)]);
        let theirs = Arc::clone(&group);
        let other = thread::spawn(move || theirs.ask(1, 2, 2));
        let mine = group.ask(0, 1, 2);
        let impossible = other.join().unwrap();
        assert_ne!(mine, Verdict::Full, "refused what fits");
        assert_ne!(impossible, Verdict::Admitted);
        assert_eq!(group.sum(), 1 + u64::from(mine == Verdict::Admitted));
    });
}

/// Who has waited takes away what the others ask for: whoever had asked, and whatever it had seen, is not admitted by it.
#[test]
fn loom_what_others_ask_for_is_taken_away() {
    let insists = |tries| match tries {
        1 => Patience::Insist,
        _ => Patience::End,
    };
    for slots in [[0, 1], [1, 0], [0, 0]] {
        bounded(move || {
            let group = Group::new(NOTHING);
            let theirs = Arc::clone(&group);
            let other = thread::spawn(move || theirs.ask_with(slots[1], 1, 1, insists));
            let verdicts = [
                group.ask_with(slots[0], 1, 1, insists),
                other.join().unwrap(),
            ];
            let admitted = verdicts.iter().filter(|v| **v == Verdict::Admitted);
            let admitted = admitted.count() as u64;
            assert!(admitted <= 1, "over-admitted");
            assert_eq!(group.sum(), admitted);
            for slot in slots {
                assert_eq!(group.ledger().word(slot).asking(), 0);
            }
        });
    }
}

/// One gives back while the other asks.
#[test]
fn loom_refund_beside_reservation() {
    loom::model(|| {
        let group = Group::new([Word::new(1, 0), Word::new(0, 0), Word::new(0, 0)]);
        let theirs = Arc::clone(&group);
        let other = thread::spawn(move || theirs.ask(1, 1, 1));
        group.ledger().refund(0, UNIT);
        let verdict = other.join().unwrap();
        assert_eq!(group.held(0), 0);
        assert_eq!(group.held(1), u64::from(verdict == Verdict::Admitted));
    });
}

/// The same among threads: refund and reservation change the same word.
#[test]
fn loom_refund_beside_reservation_of_another_thread() {
    loom::model(|| {
        let group = Group::new([Word::new(1, 0), Word::new(0, 0), Word::new(0, 0)]);
        let theirs = Arc::clone(&group);
        let other = thread::spawn(move || theirs.ask(0, 1, 1));
        group.ledger().refund(0, UNIT);
        let verdict = other.join().unwrap();
        let admitted = u64::from(verdict == Verdict::Admitted);
        assert_eq!(group.ledger().word(0).uncounted(), Word::new(admitted, 0));
    });
}

/// A process that is alone takes the last unit while the second one of its group comes and asks for it.
#[test]
fn loom_a_second_process_comes() {
    bounded(|| {
        let group = Group::new(NOTHING);
        group.high_water.store(0, Ordering::Relaxed);
        group.come(0);
        assert!(group.ledger().word(0).is_alone());
        let theirs = Arc::clone(&group);
        let other = thread::spawn(move || {
            theirs.come(1);
            theirs.ask(1, 1, 1)
        });
        let verdicts = [group.ask(0, 1, 1), other.join().unwrap()];
        assert!(group.sum() <= 1, "over-admitted");
        let admitted = |slot: usize| u64::from(verdicts[slot] == Verdict::Admitted);
        assert_eq!(group.sum(), admitted(0) + admitted(1));
        for slot in [0, 1] {
            assert_eq!(group.held(slot), admitted(slot));
            if verdicts[slot] == Verdict::Full {
                assert_eq!(admitted(1 - slot), 1, "refused what fits");
            }
        }
    });
}

/// Two come at once: never are both alone.
#[test]
fn loom_two_processes_come_at_once() {
    bounded(|| {
        let group = Group::new(NOTHING);
        group.high_water.store(0, Ordering::Relaxed);
        let theirs = Arc::clone(&group);
        let other = thread::spawn(move || {
            theirs.come(1);
            theirs.ask(1, 1, 1)
        });
        group.come(0);
        let verdicts = [group.ask(0, 1, 1), other.join().unwrap()];
        let admitted = |slot: usize| u64::from(verdicts[slot] == Verdict::Admitted);
        assert!(admitted(0) + admitted(1) <= 1, "over-admitted");
        assert_eq!(group.sum(), admitted(0) + admitted(1));
        let ledger = group.ledger();
        assert!(!(ledger.word(0).is_alone() && ledger.word(1).is_alone()));
    });
}

/// A dead process's slot is reaped while another asks: what the dead held counts in full or not at all.
#[test]
fn loom_reaping_beside_reservation() {
    loom::model(|| {
        let group = Group::new([Word::new(0, 0), Word::new(1, 1), Word::new(0, 0)]);
        let theirs = Arc::clone(&group);
        let reaper = thread::spawn(move || clear(&theirs.words[1]));
        let verdict = group.ask(0, 2, 2);
        reaper.join().unwrap();
        assert_eq!(group.held(1), 0);
        let admitted = verdict == Verdict::Admitted;
        assert_eq!(group.held(0), if admitted { 2 } else { 0 });
    });
}

/// A slot that is reaped and claimed anew: nothing of the dead is left in it, and nothing of the new owner is lost.
#[test]
fn loom_a_reaped_slot_is_claimed() {
    loom::model(|| {
        let group = Group::new([Word::new(0, 0), Word::new(1, 1), Word::new(0, 0)]);
        const DEAD: u64 = 7;
        group.owners[1].store(DEAD, Ordering::Relaxed);
        let theirs = Arc::clone(&group);
        let reaper = thread::spawn(move || {
            let owner = &theirs.owners[1];
            let taken = owner.compare_exchange(DEAD, 8, Ordering::AcqRel, Ordering::Relaxed);
            assert!(taken.is_ok());
            clear(&theirs.words[1]);
            release(owner);
        });
        if group.owners[1].load(Ordering::Acquire) == 0 {
            group.come(1);
            assert_eq!(group.ask(1, 2, 2), Verdict::Admitted);
        }
        reaper.join().unwrap();
        let claimed = group.owners[1].load(Ordering::Relaxed) == 1;
        assert_eq!(group.held(1), if claimed { 2 } else { 0 });
    });
}
