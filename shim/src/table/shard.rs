//! One part of a table, behind one lock.
//!
//! The entry that was put in last lies beside the lock, in the same cache line: a program that frees what it has just allocated
//! touches nothing else. The next one moves it into slots, by open addressing. Before the slots themselves one byte of each is
//! searched, eight at a time: those of a thousand entries fit into a processor's nearest cache, where the entries would not.
//!
//! # Safety
//! Slots and tags are one mapping, read and written under the shard's lock alone. A tag that is not 0, and a key that is not 0
//! beside the lock, say that the entry has been written.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use quota_abi::map;

use super::NoMemory;

/// Slots of the smallest shard that has any; a power of two.
const SMALLEST: u32 = 128;
/// Slots for each entry, at least.
const ROOM: u32 = 2;
/// Tags that are looked at in one go.
const GROUP: u32 = 8;
const LOWEST: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = 0x8080_8080_8080_8080;

pub(super) struct Shard<V> {
    last: Cell<V>,
    slots: *mut Cell<V>,
    /// One for each slot, 0 where that is free; behind them the first [`GROUP`] again, so that a group may reach over the end.
    tags: *mut u8,
    /// How many slots, a power of two, or 0.
    capacity: u32,
    /// What a hash is shifted by to be the number of a slot.
    shift: u32,
    /// Slots in use.
    used: u32,
}

struct Cell<V> {
    /// 0 if there is no entry.
    key: u64,
    value: MaybeUninit<V>,
}

impl<V: Copy> Copy for Cell<V> {}
impl<V: Copy> Clone for Cell<V> {
    fn clone(&self) -> Self {
        *self
    }
}

/// A key and its hash.
#[derive(Copy, Clone)]
pub(super) struct Key {
    key: u64,
    hash: u32,
}

// SAFETY: the mapping belongs to the shard.
unsafe impl<V: Send> Send for Shard<V> {}

impl Key {
    /// Number of the shard, and the key: the upper bits of the product, which keys that differ in few bits, as addresses do, spread
    /// over.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "these bits are meant")]
    pub(super) const fn spread(key: u64) -> (usize, Self) {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (mixed >> 28) as u32;
        ((mixed >> 60) as usize, Self { key, hash })
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "these bits are meant")]
    const fn tag(self) -> u8 {
        self.hash as u8 | 1
    }
}

impl<V> Shard<V> {
    pub(super) const fn new() -> Self {
        Self {
            last: Cell {
                key: 0,
                value: MaybeUninit::uninit(),
            },
            slots: core::ptr::null_mut(),
            tags: core::ptr::null_mut(),
            capacity: 0,
            shift: 0,
            used: 0,
        }
    }
}

impl<V: Copy> Shard<V> {
    /// Whether a key has a value.
    #[inline]
    pub(super) fn has(&mut self, key: Key) -> bool {
        self.last.key == key.key || self.used != 0 && self.search(key).is_some()
    }

    /// The value of a key.
    #[inline(never)]
    pub(super) fn find(&mut self, key: Key) -> Option<&mut V> {
        let cell = if self.last.key == key.key {
            &mut self.last
        } else {
            let at = self.search(key)?;
            self.slot(at)
        };
        // SAFETY: its key is not 0, or its tag.
        Some(unsafe { cell.value.assume_init_mut() })
    }

    /// Puts a value for a key that has none.
    #[inline]
    pub(super) fn put(&mut self, key: Key, value: V) -> Result<(), NoMemory> {
        if self.last.key != 0 {
            self.settle()?;
        }
        self.last = Cell {
            key: key.key,
            value: MaybeUninit::new(value),
        };
        Ok(())
    }

    /// Removes a key.
    #[inline]
    pub(super) fn take(&mut self, key: Key) -> Option<V> {
        if self.last.key == key.key {
            self.last.key = 0;
            // SAFETY: the key was not 0.
            return Some(unsafe { self.last.value.assume_init() });
        }
        self.take_slot(key)
    }

    #[inline(never)]
    fn take_slot(&mut self, key: Key) -> Option<V> {
        let at = self.search(key)?;
        // SAFETY: a search finds slots in use.
        let value = unsafe { self.slot(at).value.assume_init() };
        self.remove_at(at);
        Some(value)
    }

    /// Shows every entry, and removes those for which `goes` says so.
    pub(super) fn walk(&mut self, mut goes: impl FnMut(u64, &V) -> bool) {
        let Cell { key, value } = self.last;
        // SAFETY: the key is not 0.
        if key != 0 && goes(key, unsafe { value.assume_init_ref() }) {
            self.last.key = 0;
        }
        let mut at = 0;
        while at < self.capacity {
            let Cell { key, value } = *self.slot(at);
            // SAFETY: the tag is not 0.
            if self.tag(at) != 0 && goes(key, unsafe { value.assume_init_ref() }) {
                // What follows may move here: look again.
                self.remove_at(at);
            } else {
                at += 1;
            }
        }
    }

    /// The slot of a key.
    #[inline(never)]
    fn search(&mut self, key: Key) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        let mut at = key.hash >> self.shift;
        loop {
            let group = self.group(at);
            let free = zeros(group);
            // Only the lowest free one is sure to be one; what lies behind it is not the key's.
            let before = (free & free.wrapping_neg()).wrapping_sub(1);
            let mut alike = zeros(group ^ LOWEST.wrapping_mul(key.tag().into())) & before;
            while alike != 0 {
                let slot = self.within(at + alike.trailing_zeros() / 8);
                if self.slot(slot).key == key.key {
                    return Some(slot);
                }
                alike &= alike - 1;
            }
            if free != 0 {
                return None;
            }
            at = self.within(at + GROUP);
        }
    }

    /// Moves the entry beside the lock into a slot.
    #[inline(never)]
    fn settle(&mut self) -> Result<(), NoMemory> {
        if self.used >= self.capacity / ROOM {
            self.grow()?;
        }
        let last = self.last;
        self.enter(last);
        self.last.key = 0;
        Ok(())
    }

    /// Puts an entry into the first free slot from its own on; there is one.
    fn enter(&mut self, cell: Cell<V>) {
        let (_, key) = Key::spread(cell.key);
        let mut at = key.hash >> self.shift;
        loop {
            match zeros(self.group(at)) {
                0 => at = self.within(at + GROUP),
                free => {
                    at = self.within(at + free.trailing_zeros() / 8);
                    break;
                }
            }
        }
        *self.slot(at) = cell;
        self.set_tag(at, key.tag());
        self.used += 1;
    }

    /// Frees a slot, and moves up the entries behind it that were displaced past it, so that no search ends too early.
    fn remove_at(&mut self, at: u32) {
        let mut hole = at;
        let mut next = at;
        loop {
            next = self.within(next + 1);
            let tag = self.tag(next);
            if tag == 0 {
                break;
            }
            let cell = *self.slot(next);
            let home = Key::spread(cell.key).1.hash >> self.shift;
            if self.within(next.wrapping_sub(home)) >= self.within(next.wrapping_sub(hole)) {
                *self.slot(hole) = cell;
                self.set_tag(hole, tag);
                hole = next;
            }
        }
        self.set_tag(hole, 0);
        self.used -= 1;
    }

    /// Moves all into twice as many slots.
    #[cold]
    fn grow(&mut self) -> Result<(), NoMemory> {
        let capacity = match self.capacity {
            0 => SMALLEST,
            old => old.checked_mul(2).ok_or(NoMemory)?,
        };
        let slots = map::anonymous(Self::bytes(capacity))
            .ok_or(NoMemory)?
            .cast()
            .as_ptr();
        let fresh = Self {
            last: self.last,
            slots,
            // SAFETY: within the mapping, behind the slots.
            tags: unsafe { slots.add(widen(capacity)).cast() },
            capacity,
            shift: capacity.leading_zeros() + 1,
            used: 0,
        };
        let mut old = core::mem::replace(self, fresh);
        for at in 0..old.capacity {
            if old.tag(at) != 0 {
                self.enter(*old.slot(at));
            }
        }
        if old.capacity > 0 {
            // SAFETY: the old mapping, which nothing refers to any more.
            unsafe {
                map::release(
                    NonNull::new_unchecked(old.slots.cast()),
                    Self::bytes(old.capacity),
                )
            };
        }
        Ok(())
    }

    /// Of the mapping for so many slots and their tags.
    fn bytes(capacity: u32) -> usize {
        widen(capacity) * size_of::<Cell<V>>() + widen(capacity + GROUP)
    }

    #[inline]
    fn within(&self, at: u32) -> u32 {
        at & (self.capacity - 1)
    }

    /// The tags from a slot's own on, the first one lowest.
    #[inline]
    fn group(&self, at: u32) -> u64 {
        debug_assert!(at < self.capacity);
        // SAFETY: callers bound by the capacity, and as many tags follow.
        u64::from_le(unsafe { self.tags.add(widen(at)).cast::<u64>().read_unaligned() })
    }

    fn tag(&self, at: u32) -> u8 {
        debug_assert!(at < self.capacity);
        // SAFETY: callers bound by the capacity of the mapping, which is this shard's own.
        unsafe { self.tags.add(widen(at)).read() }
    }

    fn set_tag(&mut self, at: u32, tag: u8) {
        debug_assert!(at < self.capacity);
        // SAFETY: as above; the first few are there twice.
        unsafe {
            self.tags.add(widen(at)).write(tag);
            if at < GROUP {
                self.tags.add(widen(self.capacity + at)).write(tag);
            }
        }
    }

    #[inline]
    fn slot(&mut self, at: u32) -> &mut Cell<V> {
        debug_assert!(at < self.capacity);
        // SAFETY: as above; any bytes are a cell whose value is not looked at.
        unsafe { &mut *self.slots.add(widen(at)) }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }
}

/// The highest bit of each byte that is 0. Above the lowest of them also of some others.
#[inline]
const fn zeros(bytes: u64) -> u64 {
    bytes.wrapping_sub(LOWEST) & !bytes & HIGHEST
}

const fn widen(number: u32) -> usize {
    number as usize
}
