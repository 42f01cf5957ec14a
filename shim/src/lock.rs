//! A lock for a few instructions on process-local tables.
//!
//! Never held over a call that could wait for the application, and never in memory that another process sees. A child of
//! `fork` makes new tables with new locks, so one that was held at the fork hangs nobody.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use quota_abi::sync::{AtomicU32, Ordering};

/// Looks this often before it gives its processor to whoever holds the lock.
const SPINS: u32 = 64;
/// Gives it away this often before it sleeps: a thread of real-time priority gives nothing to an ordinary one.
const YIELDS: u64 = 8;
const NAP_NS: libc::c_long = 50_000;

/// A value behind a lock.
pub(crate) struct Lock<T> {
    held: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            held: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        take(&self.held);
        Held { lock: self }
    }
}

/// Takes a lock by its word: 0 becomes 1.
#[inline]
pub(crate) fn take(held: &AtomicU32) {
    let free = held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
    if free.is_err() {
        wait_until(&|| held.load(Ordering::Relaxed) == 0 && held.swap(1, Ordering::Acquire) == 0);
    }
}

/// Waits until a lock is free, which nobody takes any more.
#[inline]
pub(crate) fn wait_for(held: &AtomicU32) {
    if held.load(Ordering::Acquire) != 0 {
        wait_until(&|| held.load(Ordering::Acquire) == 0);
    }
}

#[cold]
fn wait_until(free: &dyn Fn() -> bool) {
    for round in 0_u64.. {
        for _ in 0..SPINS {
            core::hint::spin_loop();
            if free() {
                return;
            }
        }
        if round < YIELDS {
            // SAFETY: gives the processor away.
            unsafe { libc::sched_yield() };
        } else {
            nap(NAP_NS);
        }
    }
}

/// Sleeps so many nanoseconds, less than a second of them. Not by the C library's function, which is a place where threads are
/// cancelled.
pub(crate) fn nap(nanoseconds: libc::c_long) {
    let short = libc::timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    };
    let no_answer = core::ptr::null_mut::<libc::timespec>();
    // SAFETY: a live timespec; no answer wanted.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const short, no_answer) };
}

/// The value while it is locked.
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.held.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let lock = Lock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *lock.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }
}
