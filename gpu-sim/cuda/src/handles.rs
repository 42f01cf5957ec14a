//! Tables from the handles that C holds to what they stand for.
//!
//! A handle looks like an address, as the driver's do, but nothing lies there: a wrong one is found
//! out, not followed. A destroyed object's handle is used again for the next one of its kind,
//! because real drivers do that and it has broken clients that keep state by handle.

use std::sync::{Arc, PoisonError, RwLock};

/// Far from anything that is mapped in practice, and canonical on every architecture.
const BASE: usize = 0x2e00_0000_0000;
const KIND_SHIFT: u32 = 36;
/// Handles look 64-byte aligned.
const STEP_SHIFT: u32 = 6;

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kind {
    Context = 1,
    Stream,
    Event,
    Module,
    Function,
    Library,
    Kernel,
    Graph,
    GraphNode,
    GraphExec,
    Array,
    MipmappedArray,
    Pool,
    Allocation,
    Linker,
    UserObject,
    GreenContext,
    ExternalMemory,
}

/// Objects of one kind by handle.
pub(crate) struct Table<T> {
    kind: Kind,
    slots: RwLock<Slots<T>>,
}

struct Slots<T> {
    objects: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            slots: RwLock::new(Slots {
                objects: Vec::new(),
                free: Vec::new(),
            }),
        }
    }

    /// Stores an object that may want to know its own handle.
    pub(crate) fn insert_with(&self, make: impl FnOnce(usize) -> T) -> (usize, Arc<T>) {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let index = slots.free.pop().unwrap_or(slots.objects.len());
        let handle = self.handle(index);
        let object = Arc::new(make(handle));
        if index == slots.objects.len() {
            slots.objects.push(Some(Arc::clone(&object)));
        } else {
            slots.objects[index] = Some(Arc::clone(&object));
        }
        (handle, object)
    }

    pub(crate) fn insert(&self, object: T) -> usize {
        self.insert_with(|_| object).0
    }

    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.objects.get(self.index(handle)?)?.clone()
    }

    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        let index = self.index(handle)?;
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let removed = slots.objects.get_mut(index)?.take()?;
        slots.free.push(index);
        Some(removed)
    }

    /// All objects with their handles.
    pub(crate) fn all(&self) -> Vec<(usize, Arc<T>)> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let objects = slots.objects.iter().enumerate();
        objects
            .filter_map(|(index, object)| Some((self.handle(index), object.clone()?)))
            .collect()
    }

    fn handle(&self, index: usize) -> usize {
        BASE + ((self.kind as usize) << KIND_SHIFT) + (index << STEP_SHIFT)
    }

    fn index(&self, handle: usize) -> Option<usize> {
        let offset = handle.checked_sub(self.handle(0))?;
        let aligned = offset & ((1 << STEP_SHIFT) - 1) == 0;
        (aligned && offset < 1 << KIND_SHIFT).then_some(offset >> STEP_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_handles_are_found_out() {
        let table = Table::new(Kind::Event);
        let other = Table::new(Kind::Stream);
        let handle = table.insert("a");
        assert_eq!(table.get(handle).as_deref(), Some(&"a"));
        for wrong in [0, 1, handle + 1, handle + 64, other.insert("b"), usize::MAX] {
            assert!(table.get(wrong).is_none(), "{wrong:#x}");
        }
    }

    #[test]
    fn handles_are_used_again() {
        let table = Table::new(Kind::Event);
        let first = table.insert(1);
        assert!(table.remove(first).is_some());
        assert!(table.remove(first).is_none());
        assert_eq!(table.insert(2), first);
    }
}
