//! Signals wait while this process attaches: a handler that calls CUDA would wait for the very thread that it interrupts, and
//! one that leaves by `longjmp` would leave descriptors open and the process for ever about to attach.

use core::mem::MaybeUninit;

/// Those that a thread's own instructions raise; held back, they would kill.
const OWN: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Runs `body`, which takes a few seconds at most, with all other signals of this thread held back until it has ended.
pub(super) fn held_back<R>(body: impl FnOnce() -> R) -> R {
    let mut held = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: room for each answer, and a set is filled before it is read.
    let is_held = unsafe {
        libc::sigfillset(held.as_mut_ptr());
        for signal in OWN {
            libc::sigdelset(held.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, held.as_ptr(), before.as_mut_ptr()) == 0
    };
    let answer = body();
    if is_held {
        // SAFETY: the mask that the call above has told.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
        }
    }
    answer
}
