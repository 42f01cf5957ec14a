//! The contexts that were current lately, found without a lock: every allocation asks.
//!
//! A cell is two words. A writer empties the first, writes the second, fills the first; a reader who finds the same handle
//! in the first word before and after the second has read facts of that handle.

use quota_abi::sync::{AtomicU64, Ordering};

use crate::lock::Lock;

/// A power of two; a program works on one context for each device, or a few.
const CELLS: usize = 16;

/// Facts by handle; forgets whatever it likes.
pub(crate) struct Recent {
    cells: [Cell; CELLS],
    writing: Lock<()>,
}

struct Cell {
    handle: AtomicU64,
    facts: AtomicU64,
}

impl Recent {
    pub(crate) const fn new() -> Self {
        Self {
            cells: [const {
                Cell {
                    handle: AtomicU64::new(0),
                    facts: AtomicU64::new(0),
                }
            }; CELLS],
            writing: Lock::new(()),
        }
    }

    #[inline]
    pub(crate) fn get(&self, handle: u64) -> Option<u64> {
        let cell = self.cell(handle)?;
        if cell.handle.load(Ordering::Acquire) != handle {
            return None;
        }
        // SYNC POINT with `put`: facts of another handle come with an emptied first word.
        let facts = cell.facts.load(Ordering::Acquire);
        (cell.handle.load(Ordering::Relaxed) == handle).then_some(facts)
    }

    pub(crate) fn put(&self, handle: u64, facts: u64) {
        let Some(cell) = self.cell(handle) else {
            return;
        };
        let _alone = self.writing.lock();
        cell.handle.store(0, Ordering::Relaxed);
        cell.facts.store(facts, Ordering::Release);
        cell.handle.store(handle, Ordering::Release);
    }

    pub(crate) fn forget(&self, handle: u64) {
        if let Some(cell) = self.cell(handle) {
            let _alone = self.writing.lock();
            cell.handle.store(0, Ordering::Release);
        }
    }

    fn cell(&self, handle: u64) -> Option<&Cell> {
        let mixed = handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
        self.cells.get(usize::try_from(mixed).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_those_of_the_handle() {
        let recent = Recent::new();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let recent = &recent;
                scope.spawn(move || {
                    for round in 0..50_000_u64 {
                        let handle = (round * 7 + thread) % 64 + 1;
                        match round % 3 {
                            0 => recent.put(handle, handle * 1000),
                            1 => recent.forget(handle),
                            _ => {
                                if let Some(facts) = recent.get(handle) {
                                    assert_eq!(facts, handle * 1000);
                                }
                            }
                        }
                    }
                });
            }
        });
    }
}
