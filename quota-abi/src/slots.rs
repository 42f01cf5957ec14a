//! One slot for each process of a group. The owner's identity in one word is the lock: claimed by one compare-and-swap, and
//! whoever finds its owner dead takes it by another.
//!
//! Dead is who is seen dead by a process of the same pid namespace, and who was declared dead by a daemon.

use crate::devices::ledgers;
use crate::exports;
use crate::layout::{Region, SLOTS, SlotRow};
use crate::ledger;
use crate::life::{Identity, Life, life};
use crate::sync::{AtomicU64, Ordering};

/// The owner words that a daemon has declared dead, by slot ([`crate::policy::Policy::dead`]); `None` without a daemon.
pub type Declared<'a> = Option<&'a [AtomicU64; SLOTS]>;

/// An owner in one word: pid (22 bits, the kernel's maximum), state (2), hashed pid namespace (16), start time (24).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Owner(u64);

const PID_BITS: u32 = 22;
const STATE_SHIFT: u32 = 22;
const NAMESPACE_SHIFT: u32 = 24;
const START_SHIFT: u32 = 40;
const START_MASK: u64 = (1 << 24) - 1;

/// How often others are looked at that clear slots up, which takes them microseconds; and how often without sleeping.
const PATIENCE: u32 = 256;
const HASTY: u32 = 32;
static NAP: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 50_000,
};

/// What an owner does with its slot.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Counts in it.
    Live,
    /// Zeroes what a dead owner left.
    Reaping,
}

impl Owner {
    /// A process that counts in its slot.
    #[must_use]
    pub fn of(identity: &Identity) -> Self {
        Self::new(identity, State::Live)
    }

    /// What [`SlotRow::owner`] holds.
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Whether both words are of one process, whatever it does with the slot.
    #[must_use]
    pub fn is_same_process(self, other: Self) -> bool {
        (self.0 ^ other.0) & !(3 << STATE_SHIFT) == 0
    }

    fn new(identity: &Identity, state: State) -> Self {
        let state: u64 = match state {
            State::Live => 1,
            State::Reaping => 2,
        };
        Self(
            u64::from(identity.pid) & ((1 << PID_BITS) - 1)
                | state << STATE_SHIFT
                | hashed(identity.namespace) << NAMESPACE_SHIFT
                | (identity.start & START_MASK) << START_SHIFT,
        )
    }

    /// The pid in the owner's own namespace.
    #[must_use]
    pub fn pid(self) -> u32 {
        u32::try_from(self.0 & ((1 << PID_BITS) - 1)).unwrap_or(0)
    }

    /// As it stands in a slot; `None` is a slot that nobody owns.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    /// Whether it counts in its slot, rather than clearing up after another.
    #[must_use]
    pub fn is_live(self) -> bool {
        self.0 >> STATE_SHIFT & 3 == 1
    }

    fn is_reaping(self) -> bool {
        self.0 >> STATE_SHIFT & 3 == 2
    }

    fn start(self) -> u64 {
        self.0 >> START_SHIFT
    }

    fn namespace(self) -> u64 {
        self.0 >> NAMESPACE_SHIFT & 0xffff
    }
}

/// 16 bits of a namespace's inode.
fn hashed(inode: u64) -> u64 {
    inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48
}

/// Claims a slot for this process; `None` when all are taken by the living.
///
/// A slot that this very process owns already is of the program that it was before `execve`: what that held is gone.
pub fn claim(region: &Region, me: &Identity) -> Option<usize> {
    claim_under(region, me, None)
}

/// The same under a daemon.
pub fn claim_under(region: &Region, me: &Identity, declared: Declared<'_>) -> Option<usize> {
    reap_under(region, me, declared);
    let mine = Owner::new(me, State::Live);
    for (index, slot) in region.slots.iter().enumerate() {
        if slot.owner.load(Ordering::Acquire) == mine.0
            && slot.namespace.load(Ordering::Relaxed) == me.namespace
        {
            reap_one(region, index, slot, mine.0, me);
        }
    }
    for (index, slot) in region.slots.iter().enumerate() {
        let free = slot
            .owner
            .compare_exchange(0, mine.0, Ordering::AcqRel, Ordering::Relaxed);
        if free.is_ok() {
            slot.namespace.store(me.namespace, Ordering::Relaxed);
            slot.image.store(me.image, Ordering::Relaxed);
            let count = u64::try_from(index + 1).unwrap_or(0);
            region.header.high_water.fetch_max(count, Ordering::AcqRel);
            ledger::take_up(ledgers(region), index, || has_others(region, index));
            return Some(index);
        }
    }
    None
}

fn has_others(region: &Region, mine: usize) -> bool {
    owners(region).any(|(index, _)| index != mine)
}

/// Frees the slots of dead processes. `true` if there were any, whoever freed them.
pub fn reap(region: &Region, me: &Identity) -> bool {
    reap_under(region, me, None)
}

/// The same under a daemon.
pub fn reap_under(region: &Region, me: &Identity, declared: Declared<'_>) -> bool {
    let (mut any, mut patience) = (false, PATIENCE);
    let count = region.header.high_water.load(Ordering::Acquire);
    let count = usize::try_from(count).unwrap_or(SLOTS).min(SLOTS);
    for (index, slot) in region.slots.iter().enumerate().take(count) {
        let owner = slot.owner.load(Ordering::Acquire);
        if owner == 0 {
            continue;
        }
        let dead = is_declared(declared, index, Owner(owner)) || is_dead(slot, Owner(owner), me);
        any |= dead && reap_one(region, index, slot, owner, me)
            || is_reaped_by_another(slot, &mut patience);
    }
    any
}

/// Whether another was clearing this slot up and is done: what it found is there for whoever is about to be refused, too. It is
/// waited for, but not for long, since it may be stopped in the middle.
fn is_reaped_by_another(slot: &SlotRow, patience: &mut u32) -> bool {
    let mut waited = false;
    while Owner(slot.owner.load(Ordering::Acquire)).is_reaping() {
        if *patience == 0 {
            return false;
        }
        *patience -= 1;
        waited = true;
        if *patience > PATIENCE - HASTY {
            std::thread::yield_now();
        } else {
            // SAFETY: a live timespec; no answer wanted.
            unsafe { libc::nanosleep(&raw const NAP, core::ptr::null_mut()) };
        }
    }
    waited
}

/// The owners of slots in use.
pub fn owners(region: &Region) -> impl Iterator<Item = (usize, Owner)> {
    region.slots.iter().enumerate().filter_map(|(index, slot)| {
        match slot.owner.load(Ordering::Acquire) {
            0 => None,
            owner => Some((index, Owner(owner))),
        }
    })
}

/// One that was declared dead while it cleared up after another is dead as well.
fn is_declared(declared: Declared<'_>, index: usize, owner: Owner) -> bool {
    declared
        .and_then(|dead| dead.get(index))
        .map(|dead| dead.load(Ordering::Acquire))
        .is_some_and(|dead| dead != 0 && owner.is_same_process(Owner(dead)))
}

fn is_dead(slot: &SlotRow, owner: Owner, me: &Identity) -> bool {
    let full = slot.namespace.load(Ordering::Relaxed);
    let same_namespace = owner.namespace() == hashed(me.namespace)
        && me.namespace != 0
        && (full == 0 || full == me.namespace);
    let image = slot.image.load(Ordering::Relaxed);
    same_namespace && life(owner.pid(), owner.start(), START_MASK, image) == Life::Dead
}

/// Takes a dead owner's slot, zeroes its words, frees it. One who dies here is a dead owner like any other.
fn reap_one(region: &Region, index: usize, slot: &SlotRow, dead: u64, me: &Identity) -> bool {
    let mine = Owner::new(me, State::Reaping).0;
    let taken = slot
        .owner
        .compare_exchange(dead, mine, Ordering::AcqRel, Ordering::Relaxed);
    if taken.is_err() {
        return false;
    }
    // What others still hold of its memory is theirs before its own words are zeroed: counted twice for a moment, never not.
    exports::reap(region, index);
    for word in ledgers(region).filter_map(|ledger| ledger.words.get(index)) {
        ledger::clear(word);
    }
    slot.namespace.store(0, Ordering::Relaxed);
    slot.image.store(0, Ordering::Relaxed);
    slot.busy.store(0, Ordering::Relaxed);
    ledger::release(&slot.owner);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices;
    use crate::region::Mapped;

    fn ended() -> Identity {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        Identity {
            pid,
            start: 1,
            namespace: Identity::own().namespace,
            image: 0,
        }
    }

    #[test]
    fn a_dead_process_is_reaped_and_its_words_zeroed() {
        let region = Mapped::private().unwrap();
        let me = Identity::own();
        let theirs = claim(&region, &ended()).unwrap();
        region.memory[3][theirs].store(7 << 32 | 9, Ordering::Relaxed);
        assert!(reap(&region, &me));
        assert!(!reap(&region, &me));
        assert_eq!(region.memory[3][theirs].load(Ordering::Relaxed), 0);
        assert_eq!(claim(&region, &me), Some(theirs));
    }

    #[test]
    fn the_living_and_strangers_stay() {
        let region = Mapped::private().unwrap();
        let me = Identity::own();
        let mine = claim(&region, &me).unwrap();
        let stranger = Identity {
            namespace: 1,
            ..ended()
        };
        let theirs = claim(&region, &stranger).unwrap();
        assert_ne!(mine, theirs);
        assert!(!reap(&region, &me));
        assert_eq!(owners(&region).count(), 2);
    }

    #[test]
    fn a_stranger_that_was_declared_dead_is_reaped_and_its_successor_is_not() {
        let region = Mapped::private().unwrap();
        let me = Identity::own();
        let stranger = Identity {
            namespace: 1,
            ..ended()
        };
        let theirs = claim(&region, &stranger).unwrap();
        region.memory[3][theirs].store(7 << 32, Ordering::Relaxed);
        let dead = [const { AtomicU64::new(0) }; SLOTS];
        assert!(!reap_under(&region, &me, Some(&dead)));
        // Declared in another slot it says nothing of this one.
        dead[theirs + 1].store(Owner::of(&stranger).word(), Ordering::Relaxed);
        assert!(!reap_under(&region, &me, Some(&dead)));
        dead[theirs].store(Owner::of(&stranger).word(), Ordering::Relaxed);
        assert!(reap_under(&region, &me, Some(&dead)));
        assert_eq!(region.memory[3][theirs].load(Ordering::Relaxed), 0);

        let next = Identity {
            start: 2,
            ..stranger
        };
        assert_eq!(claim_under(&region, &next, Some(&dead)), Some(theirs));
        assert!(!reap_under(&region, &me, Some(&dead)));
        // It began to clear up in its slot, and was declared dead by its name.
        let reaping = Owner::new(&next, State::Reaping);
        region.slots[theirs]
            .owner
            .store(reaping.0, Ordering::Relaxed);
        dead[theirs].store(Owner::of(&next).word(), Ordering::Relaxed);
        assert!(reap_under(&region, &me, Some(&dead)));
    }

    #[test]
    fn a_reaper_that_died_is_reaped() {
        let region = Mapped::private().unwrap();
        let me = Identity::own();
        let slot = claim(&region, &me).unwrap();
        let dead = Owner::new(&ended(), State::Reaping);
        region.slots[slot].owner.store(dead.0, Ordering::Relaxed);
        region.memory[0][slot].store(5 << 32, Ordering::Relaxed);
        assert!(reap(&region, &me));
        assert_eq!(region.memory[0][slot].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_another_reaps_is_waited_for() {
        let region = Mapped::private().unwrap();
        let me = Identity::own();
        let stranger = Identity {
            namespace: 1,
            ..Identity::own()
        };
        let theirs = claim(&region, &stranger).unwrap();
        let (slot, held) = (&region.slots[theirs], &region.memory[0][theirs]);
        let reaping = Owner::new(&stranger, State::Reaping).0;
        // The other may be done before it is met, or be kept from its work for longer than anybody waits.
        let met = || {
            held.store(5 << 32, Ordering::Relaxed);
            slot.owner.store(reaping, Ordering::Relaxed);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::yield_now();
                    ledger::clear(held);
                    ledger::release(&slot.owner);
                });
                reap(&region, &me) && held.load(Ordering::Relaxed) == 0
            })
        };
        assert!((0..1000).any(|_| met()));
        // One that is stopped is not waited for without an end.
        slot.owner.store(reaping, Ordering::Relaxed);
        assert!(!reap(&region, &me));
    }

    #[test]
    fn a_process_is_known_by_its_word_whatever_it_does_with_its_slot() {
        let region = Mapped::private().unwrap();
        let me = Identity::own();
        let mine = claim(&region, &me).unwrap();
        let word = region.slots[mine].owner.load(Ordering::Relaxed);
        assert_eq!(Owner::from_word(word), Some(Owner::of(&me)));
        assert_eq!(Owner::of(&me).word(), word);
        let reaping = Owner::new(&me, State::Reaping);
        assert!(reaping.is_same_process(Owner::of(&me)));
        assert!(!reaping.is_same_process(Owner::of(&ended())));
        assert_eq!(Owner::from_word(0), None);
    }

    #[test]
    fn slots_run_out() {
        let region = Mapped::private().unwrap();
        for slot in 0..SLOTS {
            // A namespace of its own for each: this process may call none of them dead.
            let stranger = Identity {
                namespace: slot as u64 + 1,
                ..Identity::own()
            };
            assert_eq!(claim(&region, &stranger), Some(slot));
        }
        assert_eq!(claim(&region, &Identity::own()), None);
    }

    #[test]
    fn what_the_process_held_before_execve_is_gone() {
        let region = Mapped::private().unwrap();
        let me = Identity::own();
        let before = claim(&region, &me).unwrap();
        devices::ledger(&region, 0).unwrap().force(before, 512);
        assert_eq!(claim(&region, &me), Some(before));
        assert_eq!(devices::ledger(&region, 0).unwrap().usage(), 0);
        assert_eq!(owners(&region).count(), 1);
    }

    #[test]
    fn who_comes_second_ends_the_first_ones_being_alone() {
        let region = Mapped::private().unwrap();
        let alone = |slot| ledgers(&region).all(|ledger| ledger.word(slot).is_alone());
        let not_alone = |slot| !ledgers(&region).any(|ledger| ledger.word(slot).is_alone());
        let first = claim(&region, &Identity::own()).unwrap();
        assert!(alone(first));
        devices::ledger(&region, 7).unwrap().force(first, 512);
        let stranger = Identity {
            namespace: 1,
            ..Identity::own()
        };
        let second = claim(&region, &stranger).unwrap();
        assert!(not_alone(first) && not_alone(second));
        assert_eq!(devices::ledger(&region, 7).unwrap().usage(), 512);
    }

    #[test]
    fn who_comes_after_all_others_have_gone_is_alone() {
        let region = Mapped::private().unwrap();
        claim(&region, &ended()).unwrap();
        claim(&region, &ended()).unwrap();
        let mine = claim(&region, &Identity::own()).unwrap();
        assert!(devices::ledger(&region, 0).unwrap().word(mine).is_alone());
    }
}
