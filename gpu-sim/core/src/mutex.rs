//! A mutex in shared memory that survives the death of its owner, and a lock that says whether a
//! process lives.
//!
//! # Safety
//! Both are `pthread_mutex_t`s with the process-shared and robust attributes, initialised once by
//! the creator of the region before anybody else may see it. They are never moved.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// A robust, process-shared mutex.
#[repr(C)]
pub(crate) struct RobustMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex is made to be used from several threads.
unsafe impl Sync for RobustMutex {}

/// How a lock was obtained.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    /// The last owner let go of it.
    Clean,
    /// The last owner died while it held the lock: what it guards may be half written.
    OwnerDied,
}

impl RobustMutex {
    /// Makes the mutex ready for use, whatever bytes it consisted of.
    ///
    /// # Safety
    /// Nobody holds or waits for it.
    pub(crate) unsafe fn init(&self) {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attr = attributes.as_mut_ptr();
        // SAFETY: `attr` is initialised by the first call and destroyed by the last; the mutex is
        // not in use, says the caller.
        unsafe {
            libc::pthread_mutexattr_init(attr);
            libc::pthread_mutexattr_setpshared(attr, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(attr, libc::PTHREAD_MUTEX_ROBUST);
            std::ptr::write_bytes(self.0.get(), 0, 1);
            libc::pthread_mutex_init(self.0.get(), attr);
            libc::pthread_mutexattr_destroy(attr);
        }
    }

    /// Waits for the lock.
    pub(crate) fn lock(&self) -> Locked {
        // SAFETY: the mutex was initialised when the region was created.
        match unsafe { libc::pthread_mutex_lock(self.0.get()) } {
            0 => Locked::Clean,
            libc::EOWNERDEAD => {
                // SAFETY: this thread has just become the owner.
                unsafe { libc::pthread_mutex_consistent(self.0.get()) };
                Locked::OwnerDied
            }
            error => {
                eprintln!("gpu-sim: the shared state cannot be locked (error {error})");
                std::process::abort();
            }
        }
    }

    /// Lets go of the lock.
    ///
    /// # Safety
    /// This thread holds it.
    pub(crate) unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// Held by one thread of a process from its registration to its end. The kernel marks it when that
/// thread dies, on `execve` too, at once and whatever the pid namespace: no pid that was reused and
/// no zombie can be taken for a living process.
#[repr(C)]
pub(crate) struct AliveLock(RobustMutex);

impl AliveLock {
    /// Takes the lock for the calling thread, for good.
    ///
    /// # Safety
    /// The slot's last owner is dead and nobody else claims the slot (the shared mutex is held).
    pub(crate) unsafe fn claim(&self) {
        // SAFETY: as promised by the caller.
        unsafe { self.0.init() };
        self.0.lock();
    }

    /// Whether the thread that claimed it lives.
    pub(crate) fn alive(&self) -> bool {
        // The first word of a glibc mutex is the futex: the owner's thread id in the low 30 bits,
        // which the kernel replaces by FUTEX_OWNER_DIED when the owner ends.
        const TID_MASK: u32 = 0x3fff_ffff;
        // SAFETY: the word is aligned, lives as long as the mapping and is only accessed atomically.
        let word = unsafe { &*self.0.0.get().cast::<AtomicU32>() };
        word.load(Ordering::Acquire) & TID_MASK != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed() -> RobustMutex {
        // SAFETY: all zero bytes are a valid pthread_mutex_t.
        RobustMutex(UnsafeCell::new(unsafe { std::mem::zeroed() }))
    }

    #[test]
    fn the_lock_of_a_dead_thread_is_handed_on() {
        let mutex = zeroed();
        // SAFETY: nobody else knows the mutex yet.
        unsafe { mutex.init() };
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(mutex.lock(), Locked::Clean));
        });
        assert_eq!(mutex.lock(), Locked::OwnerDied);
        // SAFETY: locked above.
        unsafe { mutex.unlock() };
        assert_eq!(mutex.lock(), Locked::Clean);
        // SAFETY: locked above.
        unsafe { mutex.unlock() };
    }

    #[test]
    fn a_claim_ends_with_its_thread() {
        let alive = AliveLock(zeroed());
        assert!(!alive.alive());
        let (claimed, seen) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let owner = scope.spawn(|| {
                // SAFETY: the lock was never claimed.
                unsafe { alive.claim() };
                claimed.wait();
                seen.wait();
            });
            claimed.wait();
            assert!(alive.alive());
            seen.wait();
            owner.join().unwrap();
        });
        // The kernel marks the lock while the thread exits, which join has waited for.
        assert!(!alive.alive());
    }
}
