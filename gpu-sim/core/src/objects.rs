//! Memory that several processes hold: it counts for the one that allocated it, and passes to another holder when that one
//! ends, because the device keeps it until the last of them lets go.

use crate::layout::{MAX_PROCESSES, Shared};
use crate::member::{Member, exact};

/// Most pieces of memory that are shared at one time.
pub(crate) const MAX_OBJECTS: usize = 1024;
const WORDS: usize = MAX_PROCESSES / 64;

/// What tells a piece of memory from any other.
pub(crate) type Key = (u64, u64);

/// One piece of memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Object {
    /// Zero bytes: this entry is free.
    bytes: u64,
    key: [u64; 2],
    device: u32,
    /// The process that it counts for.
    owner: u32,
    holders: [u64; WORDS],
}

impl Object {
    fn set(&mut self, slot: usize, holds: bool) {
        let (word, bit) = (&mut self.holders[slot / 64], 1 << (slot % 64));
        *word = if holds { *word | bit } else { *word & !bit };
    }

    fn first(&self) -> Option<usize> {
        let (word, bits) = self
            .holders
            .iter()
            .enumerate()
            .find(|(_, bits)| **bits != 0)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

impl Shared {
    fn object(&mut self, key: Key) -> Option<&mut Object> {
        self.objects
            .iter_mut()
            .find(|object| object.bytes != 0 && object.key == [key.0, key.1])
    }

    /// `slot` holds one of them no more. Whom it counted for, if it was this one, is the next holder or nobody.
    fn let_go(&mut self, slot: usize, index: usize) {
        self.objects[index].set(slot, false);
        let object = self.objects[index];
        if object.owner as usize != slot {
            return;
        }
        let (device, amount) = (object.device as usize, exact(object.bytes, object.bytes));
        self.refund(slot, device, amount);
        let next = object.first();
        if let Some(next) = next
            && self.charge(next, device, amount).is_ok()
        {
            #[expect(clippy::cast_possible_truncation, reason = "a small table's index")]
            {
                self.objects[index].owner = next as u32;
            }
        } else {
            self.objects[index].bytes = 0;
        }
    }

    /// `slot` has freed one of them and given back what it was charged: others that hold it are charged in its place.
    fn pass_on(&mut self, slot: usize, index: usize) {
        self.objects[index].set(slot, false);
        let object = self.objects[index];
        if object.owner as usize != slot {
            return;
        }
        let (device, amount) = (object.device as usize, exact(object.bytes, object.bytes));
        if let Some(next) = object.first() {
            self.hand_over(next, device, amount);
            #[expect(clippy::cast_possible_truncation, reason = "a small table's index")]
            {
                self.objects[index].owner = next as u32;
            }
        } else {
            self.objects[index].bytes = 0;
        }
    }

    /// The same for all that a process held which has ended.
    pub(crate) fn let_go_of_all(&mut self, slot: usize) {
        for index in 0..MAX_OBJECTS {
            if self.objects[index].bytes != 0 {
                self.let_go(slot, index);
            }
        }
    }
}

impl Member {
    /// Lets others hold memory that this process was charged for. `false` if there is no room to note it.
    #[must_use]
    pub fn share(&self, key: Key, device: usize, bytes: u64) -> bool {
        let mut locked = self.simulation().lock();
        let shared = locked.shared_mut();
        if shared.object(key).is_some() {
            return true;
        }
        let free = shared.objects.iter_mut().find(|object| object.bytes == 0);
        let Some(object) = free else { return false };
        #[expect(clippy::cast_possible_truncation, reason = "small table indices")]
        {
            *object = Object {
                bytes,
                key: [key.0, key.1],
                device: device as u32,
                owner: self.slot as u32,
                holders: [0; WORDS],
            };
        }
        object.set(self.slot, true);
        true
    }

    /// Holds shared memory. `false` if nobody is charged for it any more; then this process is, from now on.
    #[must_use]
    pub fn hold(&self, key: Key) -> bool {
        let mut locked = self.simulation().lock();
        locked.reap();
        let slot = self.slot;
        let found = locked.shared_mut().object(key);
        found.map(|object| object.set(slot, true)).is_some()
    }

    /// Gives back `held` and `requested` bytes of memory that others may hold: one of those is charged for it in the same
    /// step, so that nobody sees it counted twice or not at all.
    pub fn refund_shared(&self, key: Key, device: usize, held: u64, requested: u64) {
        let mut locked = self.simulation().lock();
        let shared = locked.shared_mut();
        shared.refund(self.slot, device, exact(held, requested));
        let index = shared
            .objects
            .iter()
            .position(|object| object.bytes != 0 && object.key == [key.0, key.1]);
        if let Some(index) = index {
            shared.pass_on(self.slot, index);
        }
    }

    /// Holds it no more; what was charged for it passes on. `false` if it was not shared.
    pub fn let_go(&self, key: Key) -> bool {
        let mut locked = self.simulation().lock();
        let shared = locked.shared_mut();
        let index = shared
            .objects
            .iter()
            .position(|object| object.bytes != 0 && object.key == [key.0, key.1]);
        index.map(|index| shared.let_go(self.slot, index)).is_some()
    }
}
