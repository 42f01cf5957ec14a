//! A lock that one thread takes without a locked instruction: the first that has put something into the table.
//!
//! Most programs allocate on one thread, and a locked instruction costs as much as all else that is done under the lock: it waits for
//! every store before it, and no later load passes it. The favoured thread says that it is inside by a plain store, and looks whether it
//! is favoured still. Whoever else comes ends the favour, for good, has the kernel run a barrier on every processor that runs a thread of
//! this process (`membarrier`), and then takes the lock as anybody does. After that barrier the favoured thread has been seen inside, or
//! it sees that it is favoured no longer.
//!
//! A thread is known by its thread pointer. Two that run at the same time have two, but for a child of a bare `clone` that shares
//! its parent's: such a child cannot use the C library beside its parent, and `vfork` stops the parent.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::compiler_fence;

use quota_abi::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::lock::{nap, take, wait_for};

/// Whether the kernel runs barriers for us. Kept by a child of `fork`, as the kernel keeps it.
static BARRIERS: AtomicBool = AtomicBool::new(false);

/// Much longer than a processor keeps a store to itself.
const LONG_NS: libc::c_long = 10_000_000;

/// Asks the kernel for its barriers; in a sandbox that has none nobody is favoured. Takes as long as a few calls of the kernel, and
/// some milliseconds where there are threads already.
pub(crate) fn prepare() {
    let registered = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    BARRIERS.store(registered, Ordering::Relaxed);
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: reads and writes no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Which thread is favoured by a table's locks: its thread pointer, or one of these.
pub(super) struct Favour(AtomicUsize);

/// Nothing was ever put in.
const NOBODY: usize = 0;
/// Nobody any more, but the thread that was may not have seen it.
const ENDING: usize = 1;
/// Nobody any more.
const ENDED: usize = 2;

impl Favour {
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(NOBODY))
    }

    /// Whether nothing was ever put in.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.0.load(Ordering::Relaxed) == NOBODY
    }

    #[inline]
    fn is(&self, thread: usize) -> bool {
        self.0.load(Ordering::Relaxed) == thread
    }

    /// Says that the favoured thread is inside. `false` if the caller is not, or not any more.
    #[inline]
    fn enter(&self, inside: &AtomicU32) -> bool {
        let me = thread_pointer();
        if !self.is(me) {
            return false;
        }
        inside.store(1, Ordering::Relaxed);
        // SYNC POINT with `end`: stored before it is looked again, as seen by whoever has called for a barrier.
        compiler_fence(Ordering::SeqCst);
        if self.is(me) {
            return true;
        }
        inside.store(0, Ordering::Release);
        false
    }

    /// Favours the calling thread, if it is the first.
    fn begin(&self) {
        let thread = if BARRIERS.load(Ordering::Relaxed) {
            thread_pointer()
        } else {
            ENDED
        };
        let _ = self
            .0
            .compare_exchange(NOBODY, thread, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Favours nobody. More than one thread may do so at a time.
    #[cold]
    fn end(&self) {
        self.0.store(ENDING, Ordering::Relaxed);
        // SYNC POINT with `enter`.
        if !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            // A sandbox that came later than `prepare`.
            nap(LONG_NS);
        }
        self.0.store(ENDED, Ordering::Release);
    }
}

/// A value behind such a lock.
pub(super) struct Favoured<T> {
    /// Taken by those who are not favoured.
    held: AtomicU32,
    /// The favoured thread is inside.
    inside: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time.
unsafe impl<T: Send> Sync for Favoured<T> {}

impl<T> Favoured<T> {
    pub(super) const fn new(value: T) -> Self {
        Self {
            held: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// `None` if nothing was ever put into the table, unless the caller is about to: then the thread may be the favoured one.
    #[inline]
    pub(super) fn enter(&self, favour: &Favour, puts: bool) -> Option<Inside<'_, T>> {
        let word = if favour.enter(&self.inside) {
            &self.inside
        } else {
            enter_as_anybody(&self.held, &self.inside, favour, puts)?
        };
        Some(Inside {
            value: &self.value,
            word,
        })
    }
}

#[inline(never)]
fn enter_as_anybody<'a>(
    held: &'a AtomicU32,
    inside: &'a AtomicU32,
    favour: &Favour,
    puts: bool,
) -> Option<&'a AtomicU32> {
    if favour.is_fresh() {
        if !puts {
            return None;
        }
        favour.begin();
        if favour.enter(inside) {
            return Some(inside);
        }
    }
    // SYNC POINT with `Favour::end`: who finds it ended has what the barrier has shown.
    if favour.0.load(Ordering::Acquire) != ENDED {
        favour.end();
    }
    take(held);
    wait_for(inside);
    Some(held)
}

/// The value while it is locked.
pub(super) struct Inside<'a, T> {
    value: &'a UnsafeCell<T>,
    /// What says so.
    word: &'a AtomicU32,
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread is inside, and nobody else.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Inside<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread is inside, and nobody else.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for Inside<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.word.store(0, Ordering::Release);
    }
}

/// An address that no other thread has; not 0, and no small number.
#[inline]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register, or the word that it points at, where the ABI keeps the same address.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            "mov {}, fs:[0]",
            out(reg) pointer,
            options(pure, readonly, nostack, preserves_flags)
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            "mrs {}, tpidr_el0",
            out(reg) pointer,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds one without an instruction that could do so for two threads at a time.
    fn count(value: &Favoured<u64>, favour: &Favour) {
        let mut inside = value.enter(favour, true).unwrap();
        let before = *inside;
        core::hint::black_box(&mut inside);
        *inside = before + 1;
    }

    #[test]
    fn one_at_a_time_while_the_favour_ends() {
        prepare();
        for round in 0..300_u64 {
            let (value, favour) = (Favoured::new(0), Favour::new());
            assert!(value.enter(&favour, false).is_none());
            count(&value, &favour);
            assert_eq!(
                favour.is(thread_pointer()),
                BARRIERS.load(Ordering::Relaxed)
            );
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..round * 10 {
                            core::hint::spin_loop();
                        }
                        (0..1_000).for_each(|_| count(&value, &favour));
                    });
                }
                (0..5_000).for_each(|_| count(&value, &favour));
            });
            assert_eq!(*value.enter(&favour, false).unwrap(), 7_001);
            assert!(favour.is(ENDED));
        }
    }

    #[test]
    fn threads_have_pointers_of_their_own() {
        let mine = thread_pointer();
        assert_eq!(thread_pointer(), mine);
        let theirs = std::thread::spawn(thread_pointer).join().unwrap();
        assert_ne!(theirs, mine);
        assert!(mine > ENDED && theirs > ENDED);
    }
}
