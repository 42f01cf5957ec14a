//! Who holds how much of a device: reserve, then allocate.
//!
//! Each process has two words, `held` and `asking`. The sum over all processes is the only truth, so a process killed at
//! any instruction leaves nothing to repair: its words are zeroed when it is reaped.
//!
//! No over-admission: a process first says in `asking` what it wants, then, past a full fence, sums everybody's words. Of two
//! that ask at the same time at least one sees the other. Of the threads of one process one asks at a time. No refusal of what fits: only `held` refuses; where others' `asking`
//! alone stands in the way, the one in the lowest slot waits and the rest step back and try again.

use crate::sync::{AtomicU64, Ordering, exchange_then_fence, post_then_fence};

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
        if self.is_alone(slot) && self.take_alone(held, amount, limit) {
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

    /// Whether no other process has ever had a slot.
    fn is_alone(&self, slot: usize) -> bool {
        slot == 0 && self.high_water.load(Ordering::Relaxed) <= 1
    }

    /// A group of one need not ask anybody: `held` is the sum. `false` if it does not fit, or another process has come.
    fn take_alone(&self, held: &AtomicU64, amount: u64, limit: u64) -> bool {
        let before = held.load(Ordering::Relaxed);
        let Some(after) = before.checked_add(amount).filter(|sum| *sum <= limit) else {
            return false;
        };
        // SYNC POINT with `look`: a process whose slot is not seen here sums after this, and sees it.
        if !exchange_then_fence(held, before, after) {
            return false;
        }
        if self.is_alone(0) {
            return true;
        }
        self.refund(0, amount);
        false
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
mod tests;

#[cfg(all(test, loom))]
mod models;
