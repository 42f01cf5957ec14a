//! The atomics of the whole project, and the one place that can swap them for loom's.
//!
//! Algorithms take `&[AtomicU64]` rather than a mapped structure, because loom's atomics cannot live in a mapping.
//! Loom treats `SeqCst` accesses as acquire-release, so an order that needs more is written as a fence here.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Adds, then is a full fence: no later load of this thread is taken before everybody can see the sum.
///
/// On x86-64 a locked add is that fence already and only the compiler has to be told; a separate `mfence` would cost
/// more than the rest of a reservation.
#[inline]
pub fn add_then_fence(word: &AtomicU64, amount: u64) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        word.fetch_add(amount, Ordering::SeqCst);
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
    #[cfg(all(not(target_arch = "x86_64"), not(loom)))]
    {
        word.fetch_add(amount, Ordering::SeqCst);
        core::sync::atomic::fence(Ordering::SeqCst);
    }
    #[cfg(loom)]
    {
        word.fetch_add(amount, Ordering::Relaxed);
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// A full fence.
#[inline]
pub fn full_fence() {
    #[cfg(not(loom))]
    core::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
