//! Who holds how much of a device: reserve, then allocate.
//!
//! Each process has one word: what it holds and what it asks for ([`Word`]). The sum over all processes is the only truth, so
//! a process killed at any instruction leaves nothing to repair: its word is zeroed when it is reaped.
//!
//! *No over-admission.* A process first adds to its word what it asks for, then, past a full fence, sums everybody's words. Of
//! two that ask at the same time at least one sees the other. Threads of one process ask in the same word, and see each other
//! in the same way.
//!
//! *No refusal of what fits.* Only what is held refuses. Where only what others ask for stands in the way, one goes first and
//! the rest step back and try again: of the threads of a process the one that has its turn, of the processes the one in the
//! lowest slot. One who is stopped in the middle of asking does not stand in the way for ever: whoever has waited long enough
//! takes away what it asks for, and it asks anew when it goes on.
//!
//! *Alone*, a process asks nobody: what it holds is the sum. It knows by a mark in the word itself, so that it
//! cannot both miss that another has come and be admitted. The mark is set when a slot is claimed and nobody else has one,
//! and taken away, for good, by whoever comes later.

mod sum;
mod word;

use crate::sync::{AtomicU32, AtomicU64, Ordering, exchange_then_fence, full_fence};
use word::{ASKING, MOST_HELD, units};
pub use word::{UNIT, Word};

/// Looks again this often before it takes a sum for the truth: a sum is not read at one instant, and memory that moves
/// from one process to another meanwhile is counted twice.
const CONFIRMATIONS: u32 = 4;
/// How often the one who goes first looks again before it steps back as well.
#[cfg(not(loom))]
const PATIENCE: u32 = 64;
#[cfg(loom)]
const PATIENCE: u32 = 1;

/// The words of one device.
#[derive(Copy, Clone)]
pub struct Ledger<'a> {
    /// One more than the highest slot in use.
    pub high_water: &'a AtomicU64,
    /// By slot.
    pub words: &'a [AtomicU64],
}

/// A thread that asks.
#[derive(Copy, Clone)]
pub struct Asker<'a> {
    /// Its process's slot.
    pub slot: usize,
    /// Which of its process's threads goes first where others stand in the way: memory of the process's own. Should it stay
    /// set for ever, no thread goes first, and all go on trying.
    pub turn: &'a AtomicU32,
}

/// What became of a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    /// It is held.
    Admitted,
    /// What is held leaves no room for it.
    Full,
    /// Others were asking all the while.
    Contended,
}

/// What to do about a request that others' requests stand in the way of.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Try again.
    Wait,
    /// Take away what all others ask for, and try again.
    Insist,
    /// Give up.
    End,
}

enum Sight {
    Fits,
    Full,
    Contended { yields: bool },
}

impl Ledger<'_> {
    /// Asks for `bytes` more, so that the sum does not exceed `limit`. `pause(n)` waits before the n-th new try, and says how
    /// that is to be made.
    ///
    /// A request that the field of what is held has no room for is refused; one that the field of what is asked for has no room
    /// for is made in parts, or waits where it is other threads' requests that take the room.
    #[inline]
    pub fn reserve(
        &self,
        me: Asker<'_>,
        bytes: u64,
        limit: u64,
        pause: impl FnMut(u32) -> Patience,
    ) -> Verdict {
        let word = self.words.get(me.slot);
        if word.is_some_and(|word| take_at_once(word, units(bytes), limit / UNIT)) {
            return Verdict::Admitted;
        }
        self.reserve_otherwise(me, bytes, limit, pause)
    }

    /// [`Self::reserve`] for whoever is not alone, or does not find it fit at the first look.
    #[inline(never)]
    fn reserve_otherwise(
        &self,
        me: Asker<'_>,
        bytes: u64,
        limit: u64,
        pause: impl FnMut(u32) -> Patience,
    ) -> Verdict {
        let Some(word) = self.words.get(me.slot) else {
            return Verdict::Full;
        };
        let (amount, limit) = (units(bytes), limit / UNIT);
        if amount == 0 {
            // Fits even where more is held than the limit.
            return Verdict::Admitted;
        }
        if amount > limit {
            // Never posted: it stands in nobody's way.
            return Verdict::Full;
        }
        match take_alone(word, amount, limit) {
            Some(verdict) => verdict,
            None if amount < ASKING => self.reserve_among(me, word, amount, limit, pause),
            None => self.reserve_in_parts(me, word, amount, limit, pause),
        }
    }

    /// Charges without asking: what has happened already and cannot be undone.
    #[inline]
    pub fn force(&self, slot: usize, bytes: u64) {
        self.change(slot, |word| word.more(units(bytes)));
    }

    /// Gives back. Never goes below zero, whoever wrote the word meanwhile.
    #[inline]
    pub fn refund(&self, slot: usize, bytes: u64) {
        self.change(slot, |word| word.less(units(bytes)));
    }

    /// What one has.
    #[must_use]
    pub fn word(&self, slot: usize) -> Word {
        Word(
            self.words
                .get(slot)
                .map_or(0, |word| word.load(Ordering::Relaxed)),
        )
    }

    /// Bytes held by one.
    #[must_use]
    pub fn held_by(&self, slot: usize) -> u64 {
        self.word(slot).held_bytes()
    }

    /// Bytes held by all.
    #[must_use]
    pub fn usage(&self) -> u64 {
        sum::sum(self.in_use()).0 * UNIT
    }

    #[inline]
    fn change(&self, slot: usize, how: impl Fn(Word) -> Word) {
        if let Some(word) = self.words.get(slot) {
            change(word, |now| Some(how(now)));
        }
    }

    /// [`Self::reserve`] for a process that is not alone.
    fn reserve_among(
        &self,
        me: Asker<'_>,
        word: &AtomicU64,
        amount: u64,
        limit: u64,
        mut pause: impl FnMut(u32) -> Patience,
    ) -> Verdict {
        let mut turn = Turn {
            taken: me.turn,
            ours: false,
        };
        let mut tries = 0;
        loop {
            let verdict = self.ask(me.slot, word, amount, limit, turn.ours);
            if verdict != Verdict::Contended {
                return verdict;
            }
            turn.seek();
            tries += 1;
            match pause(tries) {
                Patience::Wait => {}
                Patience::Insist => self.take_away(),
                Patience::End => return Verdict::Contended,
            }
        }
    }

    /// The same for more than can be asked for at a time. What has been admitted of it goes back if the rest is not.
    #[cold]
    fn reserve_in_parts(
        &self,
        me: Asker<'_>,
        word: &AtomicU64,
        amount: u64,
        limit: u64,
        mut pause: impl FnMut(u32) -> Patience,
    ) -> Verdict {
        if (0..CONFIRMATIONS).all(|_| self.is_full(amount, limit)) {
            return Verdict::Full;
        }
        let mut taken = 0;
        while taken < amount {
            let part = (amount - taken).min(ASKING / 2);
            let verdict = self.reserve_among(me, word, part, limit, &mut pause);
            if verdict != Verdict::Admitted {
                change(word, |now| Some(now.less(taken)));
                return verdict;
            }
            taken += part;
        }
        Verdict::Admitted
    }

    /// One try. `first`: this thread waits while nobody in a lower slot asks.
    fn ask(&self, slot: usize, word: &AtomicU64, amount: u64, limit: u64, first: bool) -> Verdict {
        let posted = match post(word, amount) {
            Ok(posted) => posted,
            Err(verdict) => return verdict,
        };
        let mut waited = 0;
        let sight = loop {
            match self.look(slot, amount, limit, first) {
                Sight::Contended { yields: false } if waited < PATIENCE => {
                    waited += 1;
                    spin();
                }
                sight => break sight,
            }
        };
        // From one field to the other in one step: nobody can miss it in both, or see it in both.
        let admitted = matches!(sight, Sight::Fits);
        let answered = change(word, |now| now.answered(posted, amount, admitted));
        match sight {
            Sight::Fits if answered => Verdict::Admitted,
            // Confirmed when it stands in nobody's way any more: who asks for too much again and again hinders others little.
            Sight::Full if (0..CONFIRMATIONS).all(|_| self.is_full(amount, limit)) => Verdict::Full,
            _ => Verdict::Contended,
        }
    }

    fn look(&self, slot: usize, amount: u64, limit: u64, first: bool) -> Sight {
        // SYNC POINT with `post`: summed after its fence.
        let (held, asking) = sum::sum(self.in_use());
        if asking < ASKING && held + asking <= limit {
            Sight::Fits
        } else if held + amount > limit {
            Sight::Full
        } else {
            if asking >= ASKING {
                self.disband(slot);
            }
            let ahead = self.words.iter().take(slot);
            let yields = !first || ahead.into_iter().any(is_asking);
            Sight::Contended { yields }
        }
    }

    fn is_full(&self, amount: u64, limit: u64) -> bool {
        self.usage() / UNIT + amount > limit
    }

    /// Takes their marks from all others who think that they are alone.
    fn disband(&self, slot: usize) {
        for (index, word) in self.in_use().iter().enumerate() {
            if index != slot {
                join(word);
            }
        }
    }

    /// Takes away what anybody asks for, stopped or not: also what this process's other threads do.
    #[cold]
    fn take_away(&self) {
        for word in self.in_use() {
            change(word, |now| (now.asking() > 0).then(|| now.taken_away()));
        }
    }

    /// The words of the slots in use. Read after one's own fence: a slot claimed later asks after its own fence as well,
    /// and sees us.
    #[inline]
    fn in_use(&self) -> &[AtomicU64] {
        let count = usize::try_from(self.high_water.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        self.words.get(..count).unwrap_or(self.words)
    }
}

/// Takes up a slot that its process has claimed and does not use yet, on every device: takes the marks of those who were
/// alone, and marks itself as alone if `others` tells of nobody.
pub fn take_up<'a>(
    ledgers: impl Iterator<Item = Ledger<'a>> + Clone,
    slot: usize,
    others: impl Fn() -> bool,
) {
    for word in ledgers.clone().filter_map(|ledger| ledger.words.get(slot)) {
        word.store(Word::ALONE.0, Ordering::Relaxed);
    }
    // SYNC POINT with itself in another process: claimed and marked before the fence, looked after it. Of two that come
    // at once, the later one sees the other's slot, and the earlier one's mark is taken by the later.
    full_fence();
    for ledger in ledgers.clone() {
        ledger.disband(slot);
    }
    if others() {
        for word in ledgers.filter_map(|ledger| ledger.words.get(slot)) {
            join(word);
        }
    }
}

/// Zeroes the word of a slot that a reaper has taken.
pub fn clear(word: &AtomicU64) {
    word.store(0, Ordering::Relaxed);
}

/// Gives a slot away whose words have been cleared.
pub fn release(owner: &AtomicU64) {
    // SYNC POINT with the claim of a slot: who finds it free finds its words zero.
    owner.store(0, Ordering::Release);
}

/// Takes what fits without asking, where the process is alone and nothing comes in between.
#[inline]
fn take_at_once(word: &AtomicU64, amount: u64, limit: u64) -> bool {
    let before = word.load(Ordering::Relaxed);
    let seen = Word(before);
    let after = before.wrapping_add(amount << 32);
    // As in `take_alone`.
    seen.is_alone()
        && seen.held() + amount <= limit.min(MOST_HELD)
        && word
            .compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

/// Takes what fits without asking. `None` if the process is not alone.
fn take_alone(word: &AtomicU64, amount: u64, limit: u64) -> Option<Verdict> {
    let mut before = word.load(Ordering::Relaxed);
    loop {
        let seen = Word(before);
        if !seen.is_alone() {
            return None;
        }
        if seen.held() + amount > limit.min(MOST_HELD) {
            return Some(Verdict::Full);
        }
        // Fails if the mark has gone meanwhile: who took it sums later, and sees what was taken before.
        let taken = word.compare_exchange_weak(
            before,
            before.wrapping_add(amount << 32),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        match taken {
            Ok(_) => return Some(Verdict::Admitted),
            Err(now) => before = now,
        }
    }
}

/// Adds to what the process asks for, past a full fence. What the word was then.
fn post(word: &AtomicU64, amount: u64) -> Result<Word, Verdict> {
    loop {
        let before = Word(word.load(Ordering::Relaxed));
        if before.held() + amount > MOST_HELD {
            return Err(Verdict::Full);
        }
        let Some(after) = before.asked(amount) else {
            return Err(Verdict::Contended);
        };
        // SYNC POINT with `look`: asked before the fence, summed after it.
        if exchange_then_fence(word, before.0, after.0) {
            return Ok(after);
        }
    }
}

/// Changes a word, if `how` tells to what. `false` if it does not.
#[inline]
fn change(word: &AtomicU64, how: impl Fn(Word) -> Option<Word>) -> bool {
    let mut before = word.load(Ordering::Relaxed);
    loop {
        let Some(after) = how(Word(before)) else {
            return false;
        };
        // Released: what was freed is free before anybody reads so.
        let changed =
            word.compare_exchange_weak(before, after.0, Ordering::Release, Ordering::Relaxed);
        match changed {
            Ok(_) => return true,
            Err(now) => before = now,
        }
    }
}

fn is_asking(word: &AtomicU64) -> bool {
    Word(word.load(Ordering::Relaxed)).asking() > 0
}

/// Takes the mark of one who is alone no longer.
fn join(word: &AtomicU64) {
    change(word, |now| now.is_alone().then(|| now.joined()));
}

/// A thread's turn among those of its process.
struct Turn<'a> {
    taken: &'a AtomicU32,
    ours: bool,
}

impl Turn<'_> {
    fn seek(&mut self) {
        self.ours = self.ours
            || self
                .taken
                .compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.ours {
            self.taken.store(0, Ordering::Relaxed);
        }
    }
}

fn spin() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod models;
