//! One part of a table, behind one lock.
//!
//! The entry that was put in last lies beside the lock, in the same cache line: a program that frees what it has just allocated
//! touches nothing else. The next one moves it into slots.

use core::mem::MaybeUninit;

use super::NoMemory;
use super::slots::{Key, Slots};

pub(super) struct Shard<V> {
    last: Cell<V>,
    slots: Slots,
}

#[repr(C)]
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

impl<V> Shard<V> {
    pub(super) const fn new() -> Self {
        Self {
            last: Cell {
                key: 0,
                value: MaybeUninit::uninit(),
            },
            slots: Slots::new(),
        }
    }
}

impl<V: Copy> Shard<V> {
    const SIZE: usize = {
        // Slots follow each other from the beginning of a page.
        assert!(align_of::<Cell<V>>() == align_of::<u64>());
        size_of::<Cell<V>>()
    };

    /// Whether a key has a value.
    #[inline]
    pub(super) fn has(&self, key: Key) -> bool {
        self.last.key == key.key
            || !self.slots.is_empty() && self.slots.search(key, Self::SIZE).is_some()
    }

    /// The value of a key.
    pub(super) fn find(&mut self, key: Key) -> Option<&mut V> {
        let cell = if self.last.key == key.key {
            &mut self.last
        } else {
            let at = self.slots.search(key, Self::SIZE)?;
            self.cell(at)
        };
        // SAFETY: its key is not 0, or its slot in use.
        Some(unsafe { cell.value.assume_init_mut() })
    }

    /// Puts a value for a key that has none.
    #[inline]
    pub(super) fn put(&mut self, key: Key, value: V) -> Result<(), NoMemory> {
        if self.last.key != 0 {
            // SAFETY: a cell.
            unsafe { self.slots.put((&raw const self.last).cast(), Self::SIZE)? };
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
        let at = self.slots.search(key, Self::SIZE)?;
        // SAFETY: a search finds slots in use.
        let value = unsafe { self.cell(at).value.assume_init() };
        self.slots.remove_at(at, Self::SIZE);
        Some(value)
    }

    /// Shows every entry, and removes those for which `goes` says so.
    pub(super) fn walk(&mut self, goes: &mut dyn FnMut(u64, &V) -> bool) {
        let Cell { key, value } = self.last;
        // SAFETY: the key is not 0.
        if key != 0 && goes(key, unsafe { value.assume_init_ref() }) {
            self.last.key = 0;
        }
        let mut at = 0;
        while at < self.slots.capacity() {
            let Cell { key, value } = *self.cell(at);
            // SAFETY: the slot is in use.
            if self.slots.is_used(at) && goes(key, unsafe { value.assume_init_ref() }) {
                // What follows may move here: look again.
                self.slots.remove_at(at, Self::SIZE);
            } else {
                at += 1;
            }
        }
    }

    fn cell(&mut self, at: u32) -> &mut Cell<V> {
        // SAFETY: a slot of this size, which is nobody else's; any bytes are a cell whose value is not looked at.
        unsafe { &mut *self.slots.slot(at, Self::SIZE).cast() }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> u32 {
        self.slots.capacity()
    }
}
