//! Process-local tables by address or handle: constant time at any number of entries.
//!
//! Open addressing in mappings of our own, so that the application's allocator is not entered from its calls to the
//! driver. A full shard is copied into one of twice the size; that is the only system call.
//!
//! # Safety
//! A shard's cells are read and written under its lock alone. Zeroed cells are free cells.

use core::ptr::NonNull;

use quota_abi::map;
use quota_abi::sync::{AtomicBool, Ordering};

use crate::lock::Lock;

const SHARDS: usize = 16;
const SMALLEST: usize = 128;

/// Values by key; 0 is not a key.
pub(crate) struct Table<V> {
    used: AtomicBool,
    shards: [Line<V>; SHARDS],
}

/// Shards do not share cache lines.
#[repr(align(64))]
struct Line<V>(Lock<Shard<V>>);

struct Shard<V> {
    cells: NonNull<Cell<V>>,
    /// A power of two, or 0.
    capacity: usize,
    used: usize,
}

#[derive(Copy, Clone)]
struct Cell<V> {
    key: u64,
    value: V,
}

// SAFETY: the cells belong to the shard.
unsafe impl<V: Send> Send for Shard<V> {}

/// The kernel has no memory for a larger table.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

impl<V: Copy> Table<V> {
    pub(crate) const fn new() -> Self {
        Self {
            used: AtomicBool::new(false),
            shards: [const { Line(Lock::new(Shard::new())) }; SHARDS],
        }
    }

    /// Puts a value, and gives back the one that it replaces.
    pub(crate) fn insert(&self, key: u64, value: V) -> Result<Option<V>, NoMemory> {
        let Some(Line(shard)) = self.shard(key) else {
            return Err(NoMemory);
        };
        if self.is_empty() {
            self.used.store(true, Ordering::Relaxed);
        }
        shard.lock().insert(key, value)
    }

    /// The value of a key, which is `fresh` if it had none.
    pub(crate) fn get_or_insert(&self, key: u64, fresh: V) -> Result<V, NoMemory> {
        let Some(Line(shard)) = self.shard(key) else {
            return Err(NoMemory);
        };
        if self.is_empty() {
            self.used.store(true, Ordering::Relaxed);
        }
        let mut shard = shard.lock();
        if let Some(at) = shard.find(key) {
            return shard.cell(at).map(|cell| cell.value).ok_or(NoMemory);
        }
        shard.insert(key, fresh)?;
        Ok(fresh)
    }

    pub(crate) fn get(&self, key: u64) -> Option<V> {
        self.with(key, |value| *value)
    }

    pub(crate) fn remove(&self, key: u64) -> Option<V> {
        self.shard(key)?.0.lock().remove(key)
    }

    /// Removes a key if its value is still the one meant: a handle may have been given to somebody else meanwhile.
    pub(crate) fn remove_if(&self, key: u64, meant: impl Fn(&V) -> bool) -> Option<V> {
        let mut shard = self.shard(key)?.0.lock();
        let at = shard.find(key)?;
        let value = shard.cell(at)?.value;
        if !meant(&value) {
            return None;
        }
        shard.remove_at(at);
        Some(value)
    }

    /// Whether nothing was ever put in.
    pub(crate) fn is_empty(&self) -> bool {
        !self.used.load(Ordering::Relaxed)
    }

    /// Shows every entry. Rare: walks the whole table.
    pub(crate) fn for_each(&self, mut show: impl FnMut(u64, &V)) {
        for Line(shard) in &self.shards {
            let mut shard = shard.lock();
            for at in 0..shard.capacity {
                if let Some(&mut Cell { key, ref value }) = shard.cell(at)
                    && key != 0
                {
                    show(key, value);
                }
            }
        }
    }

    /// Looks at or changes the value of a key.
    pub(crate) fn with<R>(&self, key: u64, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let mut shard = self.shard(key)?.0.lock();
        let at = shard.find(key)?;
        shard.cell(at).map(|cell| change(&mut cell.value))
    }

    /// Removes every entry that `goes` picks, and hands each to `gone`. Rare: walks the whole table.
    pub(crate) fn sweep(&self, goes: impl Fn(u64, &V) -> bool, mut gone: impl FnMut(u64, V)) {
        for Line(shard) in &self.shards {
            let mut shard = shard.lock();
            let mut at = 0;
            while at < shard.capacity {
                match shard.cell(at) {
                    Some(&mut Cell { key, value }) if key != 0 && goes(key, &value) => {
                        // What follows may move here: look again.
                        shard.remove_at(at);
                        gone(key, value);
                    }
                    _ => at += 1,
                }
            }
        }
    }

    fn shard(&self, key: u64) -> Option<&Line<V>> {
        if key == 0 {
            return None;
        }
        self.shards.get(mix(key) % SHARDS)
    }
}

impl<V> Shard<V> {
    const fn new() -> Self {
        Self {
            cells: NonNull::dangling(),
            capacity: 0,
            used: 0,
        }
    }
}

impl<V: Copy> Shard<V> {
    fn cell(&mut self, at: usize) -> Option<&mut Cell<V>> {
        if at >= self.capacity {
            return None;
        }
        // SAFETY: below the capacity of the mapping, which is this shard's own.
        Some(unsafe { self.cells.add(at).as_mut() })
    }

    fn home(&self, key: u64) -> usize {
        (mix(key) / SHARDS) & (self.capacity - 1)
    }

    /// The cell of a key.
    fn find(&mut self, key: u64) -> Option<usize> {
        let at = self.seek(key)?;
        (self.cell(at)?.key == key).then_some(at)
    }

    /// The cell of a key, or the free one where it would be.
    fn seek(&mut self, key: u64) -> Option<usize> {
        if self.capacity == 0 {
            return None;
        }
        let mask = self.capacity - 1;
        let mut at = self.home(key);
        loop {
            let found = self.cell(at)?.key;
            if found == 0 || found == key {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, key: u64, value: V) -> Result<Option<V>, NoMemory> {
        if (self.used + 1) * 2 > self.capacity {
            self.grow()?;
        }
        let at = self.seek(key).ok_or(NoMemory)?;
        let cell = self.cell(at).ok_or(NoMemory)?;
        let old = core::mem::replace(cell, Cell { key, value });
        if old.key == key {
            return Ok(Some(old.value));
        }
        self.used += 1;
        Ok(None)
    }

    fn remove(&mut self, key: u64) -> Option<V> {
        let at = self.find(key)?;
        let value = self.cell(at)?.value;
        self.remove_at(at);
        Some(value)
    }

    /// Frees a cell and moves up those behind it that were displaced past it, so that no search ends too early.
    fn remove_at(&mut self, at: usize) {
        let mask = self.capacity - 1;
        let mut hole = at;
        let mut next = at;
        loop {
            next = (next + 1) & mask;
            let Some(&mut Cell { key, value }) = self.cell(next) else {
                return;
            };
            if key == 0 {
                break;
            }
            let home = self.home(key);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                if let Some(cell) = self.cell(hole) {
                    *cell = Cell { key, value };
                }
                hole = next;
            }
        }
        if let Some(cell) = self.cell(hole) {
            cell.key = 0;
        }
        self.used -= 1;
    }

    #[cold]
    fn grow(&mut self) -> Result<(), NoMemory> {
        let capacity = (self.capacity * 2).max(SMALLEST);
        let bytes = capacity * size_of::<Cell<V>>();
        let cells = map::anonymous(bytes).ok_or(NoMemory)?.cast();
        let mut old = core::mem::replace(
            self,
            Self {
                cells,
                capacity,
                used: 0,
            },
        );
        for at in 0..old.capacity {
            if let Some(&mut Cell { key, value }) = old.cell(at)
                && key != 0
            {
                self.insert(key, value)?;
            }
        }
        if old.capacity > 0 {
            // SAFETY: the old mapping, which nothing refers to any more.
            unsafe { map::release(old.cells.cast(), old.capacity * size_of::<Cell<V>>()) };
        }
        Ok(())
    }
}

/// Spreads keys that differ in few bits, as addresses do.
fn mix(key: u64) -> usize {
    usize::try_from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn agrees_with_a_map() {
        let table = Table::<u64>::new();
        let mut model = HashMap::new();
        let mut random = 7_u64;
        for _ in 0..200_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = (random >> 33) % 5_000 + 1;
            let key = key << 9;
            if random >> 62 == 0 {
                assert_eq!(table.remove(key), model.remove(&key));
            } else {
                assert_eq!(table.insert(key, random), Ok(model.insert(key, random)));
            }
        }
        for (key, value) in &model {
            assert_eq!(table.with(*key, |value| *value), Some(*value));
        }
        let mut swept = 0;
        table.sweep(
            |_, value| value % 2 == 0,
            |key, value| {
                assert_eq!(model.remove(&key), Some(value));
                swept += 1;
            },
        );
        assert!(swept > 100);
        assert!(model.values().all(|value| value % 2 == 1));
        for (key, value) in &model {
            assert_eq!(table.remove(*key), Some(*value));
        }
        table.sweep(|_, _| true, |_, _| panic!("something is left"));
    }

    #[test]
    fn zero_is_no_key() {
        let table = Table::<u64>::new();
        assert_eq!(table.insert(0, 1), Err(NoMemory));
        assert_eq!(table.remove(0), None);
        assert_eq!(table.with(0, |_| ()), None);
    }
}
