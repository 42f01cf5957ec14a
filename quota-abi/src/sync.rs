//! The atomics of the whole project, and the one place that can swap them for loom's.
//!
//! Algorithms take `&[AtomicU64]` rather than a mapped structure, because loom's atomics cannot live in a mapping.
//! Loom treats `SeqCst` accesses as acquire-release, so an order that needs more is written as a fence here.

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

/// Replaces `old` by `new`, then is a full fence; see [`post_then_fence`]. `false`, and no fence, if the word was not `old`.
#[inline]
pub fn exchange_then_fence(word: &AtomicU64, old: u64, new: u64) -> bool {
    #[cfg(not(loom))]
    let order = Ordering::SeqCst;
    #[cfg(loom)]
    let order = Ordering::Acquire;
    let exchanged = word
        .compare_exchange(old, new, order, Ordering::Relaxed)
        .is_ok();
    if exchanged {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        #[cfg(not(all(target_arch = "x86_64", not(loom))))]
        full_fence();
    }
    exchanged
}

/// Stores `amount` in a word that is zero, then is a full fence: no later load of this thread is taken before everybody can
/// see the store. `false`, and no fence, if the word was not zero.
///
/// On x86-64 a locked exchange is that fence already and only the compiler has to be told; a separate `mfence` would cost
/// as much as the rest of a reservation.
#[inline]
pub fn post_then_fence(word: &AtomicU64, amount: u64) -> bool {
    exchange_then_fence(word, 0, amount)
}

/// A full fence.
#[inline]
pub fn full_fence() {
    #[cfg(not(loom))]
    core::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
