//! Process-local tables by address or handle: constant time at any number of entries.
//!
//! Open addressing in mappings of our own, so that the application's allocator is not entered from its calls to the
//! driver. What is searched is an index of one word for each entry, which stays in a processor's cache where the
//! entries themselves would not; these lie in places that are used again last in, first out. A full shard is copied into one of twice
//! the size; that is the only system call.
//!
//! # Safety
//! A shard's index and places are read and written under its lock alone. A word of the index that is not 0 names a place that
//! has been written.

use core::ptr::NonNull;

use quota_abi::map;
use quota_abi::sync::{AtomicBool, Ordering};

use crate::lock::Lock;

const SHARDS: usize = 16;
/// Words of the smallest index; a power of two.
const SMALLEST: usize = 128;
/// Words of the index for each place: most searches then end at the first word, which a processor foresees.
const ROOM: u32 = 4;

/// Values by key; 0 is not a key.
pub(crate) struct Table<V> {
    used: AtomicBool,
    shards: [Line<V>; SHARDS],
}

/// Shards do not share cache lines.
#[repr(align(64))]
struct Line<V>(Lock<Shard<V>>);

struct Shard<V> {
    /// By hash: the hash in the upper half, one more than the place in the lower one. 0 is free.
    index: NonNull<u64>,
    places: NonNull<Cell<V>>,
    /// Words of the index, a power of two, or 0; [`ROOM`] times as many as places.
    capacity: u32,
    /// What a hash is shifted by to be a word of the index.
    shift: u32,
    used: u32,
    /// Places that have ever been used.
    touched: u32,
    /// One more than the place that was left last, whose key is the same for the one before; 0 if there is none.
    left: u32,
}

#[derive(Copy, Clone)]
struct Cell<V> {
    key: u64,
    value: V,
}

// SAFETY: index and places belong to the shard.
unsafe impl<V: Send> Send for Shard<V> {}

/// The kernel has no memory for a larger table.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct NoMemory;

/// A key and its hash.
#[derive(Copy, Clone)]
struct Key {
    key: u64,
    hash: u32,
}

/// Shard and hash of a key: the upper bits of the product, which keys that differ in few bits, as addresses do, spread over.
#[expect(clippy::cast_possible_truncation, reason = "these bits are meant")]
const fn spread(key: u64) -> (usize, Key) {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (mixed >> 28) as u32;
    ((mixed >> 60) as usize, Key { key, hash })
}

impl<V: Copy> Table<V> {
    pub(crate) const fn new() -> Self {
        Self {
            used: AtomicBool::new(false),
            shards: [const { Line(Lock::new(Shard::new())) }; SHARDS],
        }
    }

    /// Puts a value, and gives back the one that it replaces.
    #[inline]
    pub(crate) fn insert(&self, key: u64, value: V) -> Result<Option<V>, NoMemory> {
        let (Line(shard), key) = self.shard(key).ok_or(NoMemory)?;
        self.note_use();
        let mut shard = shard.lock();
        let there = shard.enter_new(key, value)?;
        Ok(there.map(|cell| core::mem::replace(&mut cell.value, value)))
    }

    /// The value of a key, which is `fresh` if it had none.
    pub(crate) fn get_or_insert(&self, key: u64, fresh: V) -> Result<V, NoMemory> {
        let (Line(shard), key) = self.shard(key).ok_or(NoMemory)?;
        self.note_use();
        let mut shard = shard.lock();
        let there = shard.enter_new(key, fresh)?;
        Ok(there.map_or(fresh, |cell| cell.value))
    }

    /// Puts a value; one that is there is replaced, and given back, if `replaces` says so under the table's lock. `Some(None)`
    /// if it says no: then that one stays.
    #[inline]
    pub(crate) fn insert_if(
        &self,
        key: u64,
        value: V,
        replaces: impl FnOnce() -> bool,
    ) -> Result<Option<Option<V>>, NoMemory> {
        let (Line(shard), key) = self.shard(key).ok_or(NoMemory)?;
        self.note_use();
        let mut shard = shard.lock();
        let there = shard.enter_new(key, value)?;
        Ok(there.map(|cell| replaces().then(|| core::mem::replace(&mut cell.value, value))))
    }

    pub(crate) fn get(&self, key: u64) -> Option<V> {
        self.with(key, |value| *value)
    }

    #[inline]
    pub(crate) fn remove(&self, key: u64) -> Option<V> {
        self.remove_if(key, |_| true)
    }

    /// Removes a key if its value is still the one meant: a handle may have been given to somebody else meanwhile.
    #[inline]
    pub(crate) fn remove_if(&self, key: u64, meant: impl Fn(&V) -> bool) -> Option<V> {
        let (Line(shard), key) = self.shard(key)?;
        let mut shard = shard.lock();
        let (at, cell) = shard.find(key)?;
        let value = cell.value;
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

    fn note_use(&self) {
        if self.is_empty() {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Shows every entry. Rare: walks the whole table.
    pub(crate) fn for_each(&self, mut show: impl FnMut(u64, &V)) {
        for Line(shard) in &self.shards {
            let mut shard = shard.lock();
            for at in 0..shard.capacity {
                if let Some(cell) = shard.entry(at) {
                    show(cell.key, &cell.value);
                }
            }
        }
    }

    /// Looks at or changes the value of a key.
    pub(crate) fn with<R>(&self, key: u64, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let (Line(shard), key) = self.shard(key)?;
        let mut shard = shard.lock();
        let (_, cell) = shard.find(key)?;
        Some(change(&mut cell.value))
    }

    /// Removes every entry that `goes` picks, and hands each to `gone`. Rare: walks the whole table.
    pub(crate) fn sweep(&self, goes: impl Fn(u64, &V) -> bool, mut gone: impl FnMut(u64, V)) {
        for Line(shard) in &self.shards {
            let mut shard = shard.lock();
            let mut at = 0;
            while at < shard.capacity {
                match shard.entry(at) {
                    Some(&mut Cell { key, value }) if goes(key, &value) => {
                        // What follows may move here: look again.
                        shard.remove_at(at);
                        gone(key, value);
                    }
                    _ => at += 1,
                }
            }
        }
    }

    #[inline]
    fn shard(&self, key: u64) -> Option<(&Line<V>, Key)> {
        let (shard, spread) = spread(key);
        Some((self.shards.get(shard).filter(|_| key != 0)?, spread))
    }
}

impl<V> Shard<V> {
    const fn new() -> Self {
        Self {
            index: NonNull::dangling(),
            places: NonNull::dangling(),
            capacity: 0,
            shift: 0,
            used: 0,
            touched: 0,
            left: 0,
        }
    }
}

impl<V: Copy> Shard<V> {
    /// A word of the index.
    #[inline]
    fn word(&mut self, at: u32) -> &mut u64 {
        debug_assert!(at < self.capacity);
        // SAFETY: callers mask or bound by the capacity of the mapping, which is this shard's own.
        unsafe { self.index.add(widen(at)).as_mut() }
    }

    /// A place, by one more than its number.
    #[inline]
    fn place(&mut self, number: u32) -> &mut Cell<V> {
        debug_assert!(number != 0 && number <= self.capacity / ROOM);
        // SAFETY: numbers come from the index and the list of places left, both of which hold those handed out.
        unsafe { self.places.add(widen(number.wrapping_sub(1))).as_mut() }
    }

    fn entry(&mut self, at: u32) -> Option<&mut Cell<V>> {
        match *self.word(at) {
            0 => None,
            word => Some(self.place(number_of(word))),
        }
    }

    /// The word of a key's entry, and the entry.
    #[inline]
    fn find(&mut self, key: Key) -> Option<(u32, &mut Cell<V>)> {
        if self.capacity == 0 {
            return None;
        }
        let mask = self.capacity - 1;
        let mut at = key.hash >> self.shift;
        loop {
            let word = *self.word(at);
            if word == 0 {
                return None;
            }
            if hash_of(word) == key.hash && self.place(number_of(word)).key == key.key {
                return Some((at, self.place(number_of(word))));
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts a value if the key has none; the entry that it has otherwise.
    #[inline]
    fn enter_new(&mut self, key: Key, value: V) -> Result<Option<&mut Cell<V>>, NoMemory> {
        if self.used >= self.capacity / ROOM {
            self.grow()?;
        }
        if let Some((at, _)) = self.find(key) {
            return Ok(self.entry(at));
        }
        let number = self.take_place();
        *self.place(number) = Cell {
            key: key.key,
            value,
        };
        self.enter(u64::from(key.hash) << 32 | u64::from(number));
        self.used += 1;
        Ok(None)
    }

    /// Puts a word into the index, where there is room.
    #[inline]
    fn enter(&mut self, word: u64) {
        let mask = self.capacity - 1;
        let mut at = hash_of(word) >> self.shift;
        while *self.word(at) != 0 {
            at = (at + 1) & mask;
        }
        *self.word(at) = word;
    }

    #[inline]
    fn take_place(&mut self) -> u32 {
        if self.left == 0 {
            self.touched += 1;
            return self.touched;
        }
        let number = self.left;
        self.left = number_of(self.place(number).key);
        number
    }

    /// Frees an entry, and moves up the words behind its own that were displaced past it, so that no search ends too early.
    #[inline]
    fn remove_at(&mut self, at: u32) {
        let number = number_of(*self.word(at));
        self.place(number).key = self.left.into();
        self.left = number;
        self.used -= 1;
        let mask = self.capacity - 1;
        let mut hole = at;
        let mut next = at;
        loop {
            next = (next + 1) & mask;
            let word = *self.word(next);
            if word == 0 {
                break;
            }
            let home = hash_of(word) >> self.shift;
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                *self.word(hole) = word;
                hole = next;
            }
        }
        *self.word(hole) = 0;
    }

    #[cold]
    fn grow(&mut self) -> Result<(), NoMemory> {
        let smallest = u32::try_from(SMALLEST).unwrap_or(0);
        let capacity = match self.capacity {
            0 => smallest,
            old => old.checked_mul(2).ok_or(NoMemory)?,
        };
        let index = map::anonymous(Self::bytes(capacity))
            .ok_or(NoMemory)?
            .cast();
        let fresh = Self {
            index,
            // SAFETY: within the mapping, behind the index, whose size is a multiple of any alignment of a cell.
            places: unsafe { index.add(widen(capacity)).cast() },
            capacity,
            shift: capacity.leading_zeros() + 1,
            used: self.used,
            touched: self.touched,
            left: self.left,
        };
        let mut old = core::mem::replace(self, fresh);
        // SAFETY: two mappings, and no more places than the smaller one has.
        unsafe {
            self.places
                .copy_from_nonoverlapping(old.places, widen(old.touched));
        }
        for at in 0..old.capacity {
            match *old.word(at) {
                0 => {}
                word => self.enter(word),
            }
        }
        if old.capacity > 0 {
            // SAFETY: the old mapping, which nothing refers to any more.
            unsafe { map::release(old.index.cast(), Self::bytes(old.capacity)) };
        }
        Ok(())
    }

    /// Of the mapping for an index of so many words and its places.
    fn bytes(capacity: u32) -> usize {
        const { assert!(align_of::<Cell<V>>() <= SMALLEST * size_of::<u64>()) };
        let words = widen(capacity) * size_of::<u64>();
        words + widen(capacity / ROOM) * size_of::<Cell<V>>()
    }
}

const fn hash_of(word: u64) -> u32 {
    (word >> 32) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "these bits are meant")]
const fn number_of(word: u64) -> u32 {
    word as u32
}

const fn widen(number: u32) -> usize {
    number as usize
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

    /// The places of what was removed are used again: a table does not grow by use.
    #[test]
    fn places_are_used_again() {
        let table = Table::<u64>::new();
        for key in 1..=100_000_u64 {
            assert_eq!(table.insert(key << 20, key), Ok(None));
            assert_eq!(table.remove(key << 20), Some(key));
        }
        for Line(shard) in &table.shards {
            let shard = shard.lock();
            assert!(shard.touched <= 1 && shard.capacity <= 128);
        }
    }

    #[test]
    fn the_value_of_a_key_may_be_replaced_and_removed_on_a_condition() {
        let table = Table::<u64>::new();
        assert_eq!(table.get_or_insert(7, 1), Ok(1));
        assert_eq!(table.get_or_insert(7, 2), Ok(1));
        assert_eq!(table.remove_if(7, |value| *value == 2), None);
        assert_eq!(table.remove_if(7, |value| *value == 1), Some(1));
        assert_eq!(table.get(7), None);
    }

    #[test]
    fn a_value_is_replaced_only_on_a_condition() {
        let table = Table::<u64>::new();
        assert_eq!(
            table.insert_if(7, 1, || panic!("nothing is there")),
            Ok(None)
        );
        assert_eq!(table.insert_if(7, 2, || false), Ok(Some(None)));
        assert_eq!(table.get(7), Some(1));
        assert_eq!(table.insert_if(7, 3, || true), Ok(Some(Some(1))));
        assert_eq!(table.get(7), Some(3));
    }

    #[test]
    fn zero_is_no_key() {
        let table = Table::<u64>::new();
        assert_eq!(table.insert(0, 1), Err(NoMemory));
        assert_eq!(table.remove(0), None);
        assert_eq!(table.with(0, |_| ()), None);
    }
}
