//! Entries by open addressing. Before the slots themselves one byte of each is searched, eight at a time: those of a thousand entries
//! fit into a processor's nearest cache, where the entries would not.
//!
//! # Safety
//! Entries are bytes here, of one size for all calls, so that there is one copy of this code for all kinds of tables. Each begins with its
//! key. Slots and tags are one mapping of their owner's own; a tag that is not 0 says that the slot has been written.

use core::ptr::NonNull;

use quota_abi::map;

use super::NoMemory;

/// The smallest number of slots, where there are any; a power of two.
const SMALLEST: u32 = 128;
/// Slots for each entry, at least.
const ROOM: u32 = 2;
/// Tags that are looked at in one go.
const GROUP: u32 = 8;
const LOWEST: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = 0x8080_8080_8080_8080;

pub(super) struct Slots {
    first: *mut u8,
    /// One for each slot, 0 where that is free; behind them the first [`GROUP`] again, so that a group may reach over the end.
    tags: *mut u8,
    /// How many slots, a power of two, or 0.
    capacity: u32,
    /// What a hash is shifted by to be the number of a slot.
    shift: u32,
    /// Slots in use.
    used: u32,
}

/// A key and its hash.
#[derive(Copy, Clone)]
pub(super) struct Key {
    pub(super) key: u64,
    hash: u32,
}

// SAFETY: the mapping belongs to the slots.
unsafe impl Send for Slots {}

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

    #[expect(clippy::cast_possible_truncation, reason = "these bits are meant")]
    const fn tag(self) -> u8 {
        self.hash as u8 | 1
    }
}

impl Slots {
    pub(super) const fn new() -> Self {
        Self {
            first: core::ptr::null_mut(),
            tags: core::ptr::null_mut(),
            capacity: 0,
            shift: 0,
            used: 0,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Where a slot is.
    pub(super) fn slot(&self, at: u32, size: usize) -> *mut u8 {
        debug_assert!(at < self.capacity);
        // SAFETY: callers bound by the capacity of the mapping.
        unsafe { self.first.add(widen(at) * size) }
    }

    pub(super) fn is_used(&self, at: u32) -> bool {
        self.tag(at) != 0
    }

    /// The slot of a key.
    #[inline(never)]
    pub(super) fn search(&self, key: Key, size: usize) -> Option<u32> {
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
                if self.key(slot, size) == key.key {
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

    /// Puts an entry whose key has none.
    ///
    /// # Safety
    /// `entry` are `size` bytes.
    #[inline(never)]
    pub(super) unsafe fn put(&mut self, entry: *const u8, size: usize) -> Result<(), NoMemory> {
        if self.used >= self.capacity / ROOM {
            self.grow(size)?;
        }
        // SAFETY: the caller's promise.
        unsafe { self.enter(entry, size) };
        Ok(())
    }

    /// Frees a slot, and moves up the entries behind it that were displaced past it, so that no search ends too early.
    #[inline(never)]
    pub(super) fn remove_at(&mut self, at: u32, size: usize) {
        let mut hole = at;
        let mut next = at;
        loop {
            next = self.within(next + 1);
            let tag = self.tag(next);
            if tag == 0 {
                break;
            }
            let home = Key::spread(self.key(next, size)).1.hash >> self.shift;
            if self.within(next.wrapping_sub(home)) >= self.within(next.wrapping_sub(hole)) {
                // SAFETY: two slots.
                unsafe {
                    let from = self.slot(next, size);
                    from.copy_to_nonoverlapping(self.slot(hole, size), size);
                }
                self.set_tag(hole, tag);
                hole = next;
            }
        }
        self.set_tag(hole, 0);
        self.used -= 1;
    }

    /// Puts an entry into the first free slot from its own on; there is one.
    ///
    /// # Safety
    /// As [`Self::put`].
    unsafe fn enter(&mut self, entry: *const u8, size: usize) {
        // SAFETY: an entry begins with its key.
        let (_, key) = Key::spread(unsafe { entry.cast::<u64>().read() });
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
        // SAFETY: an entry and a slot.
        unsafe { entry.copy_to_nonoverlapping(self.slot(at, size), size) };
        self.set_tag(at, key.tag());
        self.used += 1;
    }

    /// Moves all into twice as many slots.
    #[cold]
    fn grow(&mut self, size: usize) -> Result<(), NoMemory> {
        let capacity = match self.capacity {
            0 => SMALLEST,
            old => old.checked_mul(2).ok_or(NoMemory)?,
        };
        let pages = map::anonymous(bytes(capacity, size)).ok_or(NoMemory)?;
        let fresh = Self {
            first: pages.as_ptr(),
            // SAFETY: within the mapping, behind the slots.
            tags: unsafe { pages.add(widen(capacity) * size) }.as_ptr(),
            capacity,
            shift: capacity.leading_zeros() + 1,
            used: 0,
        };
        let old = core::mem::replace(self, fresh);
        for at in 0..old.capacity {
            if old.is_used(at) {
                // SAFETY: an entry.
                unsafe { self.enter(old.slot(at, size), size) };
            }
        }
        if let Some(pages) = NonNull::new(old.first) {
            // SAFETY: the old mapping, which nothing refers to any more.
            unsafe { map::release(pages, bytes(old.capacity, size)) };
        }
        Ok(())
    }

    fn key(&self, at: u32, size: usize) -> u64 {
        // SAFETY: a slot begins with the key, if it was ever written, and with a 0 otherwise.
        unsafe { self.slot(at, size).cast::<u64>().read() }
    }

    fn within(&self, at: u32) -> u32 {
        at & (self.capacity - 1)
    }

    /// The tags from a slot's own on, the first one lowest.
    fn group(&self, at: u32) -> u64 {
        debug_assert!(at < self.capacity);
        // SAFETY: callers bound by the capacity, and as many tags follow.
        u64::from_le(unsafe { self.tags.add(widen(at)).cast::<u64>().read_unaligned() })
    }

    fn tag(&self, at: u32) -> u8 {
        debug_assert!(at < self.capacity);
        // SAFETY: callers bound by the capacity of the mapping.
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
}

/// Of the mapping for so many slots and their tags.
fn bytes(capacity: u32, size: usize) -> usize {
    widen(capacity) * size + widen(capacity + GROUP)
}

/// The highest bit of each byte that is 0. Above the lowest of them also of some others.
const fn zeros(bytes: u64) -> u64 {
    bytes.wrapping_sub(LOWEST) & !bytes & HIGHEST
}

const fn widen(number: u32) -> usize {
    number as usize
}
