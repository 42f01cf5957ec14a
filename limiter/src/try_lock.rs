//! A lock that nobody waits for on the way of a launch.
//!
//! # Safety
//! The flag is taken by compare-and-swap with acquire order and given back with release order by the one
//! who took it, so that at most one thread has the value at a time.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use quota_abi::sync::{AtomicU64, Ordering};

/// A value for whoever comes first; the others go on without it.
#[derive(Debug)]
pub(crate) struct TryLock<T> {
    /// Which thread has it; 0 if none.
    taken: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            taken: AtomicU64::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, unless another thread has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        // SYNC POINT: pairs with the store in `Guard::drop`.
        self.taken
            .compare_exchange(0, this_thread(), Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard(self))
    }

    /// Breaks the lock if this thread has it: only once it has left the lock's holder by `longjmp`.
    pub(crate) fn release_if_left(&self) {
        let _ = self
            .taken
            .compare_exchange(this_thread(), 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Breaks the lock in a forked child: the thread that had it does not exist there.
    pub(crate) fn release_in_child(&self) {
        self.taken.store(0, Ordering::Release);
    }
}

/// A number that no other living thread has.
fn this_thread() -> u64 {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    // A thread that has no thread-locals any more: its lock cannot be told from another such thread's, and is not broken.
    HERE.try_with(|here| u64::try_from(core::ptr::from_ref(here).addr()).unwrap_or(1))
        .unwrap_or(1)
}

/// Has the value until dropped.
pub(crate) struct Guard<'a, T>(&'a TryLock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SYNC POINT: pairs with the exchange in `try_lock`.
        self.0.taken.store(0, Ordering::Release);
    }
}
