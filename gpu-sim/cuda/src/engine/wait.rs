//! Sleeping until something happens: the application's synchronising calls and the executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use gpu_sim_core::{now_ns, own_ns};

use super::drive::drive;
use super::lock;
use super::mark::Mark;

/// Changes whenever something has happened that a waiting thread may wait for.
static PROGRESS: Futex = Futex::new();

/// Below this a sleep takes longer than what is slept for.
const SPIN_NS: u64 = 4_000;

/// A counter that threads sleep on.
pub(super) struct Futex {
    value: AtomicU32,
    sleepers: AtomicU32,
}

impl Futex {
    pub(super) const fn new() -> Self {
        Self {
            value: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
        }
    }

    pub(super) fn value(&self) -> u32 {
        self.value.load(SeqCst)
    }

    pub(super) fn wake(&self) {
        self.value.fetch_add(1, SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            // SAFETY: the word lives for ever; waking has no other precondition.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.value.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    i32::MAX,
                );
            }
        }
    }

    /// Sleeps until the value differs from `seen` or the monotonic clock says `deadline`.
    pub(super) fn wait(&self, seen: u32, deadline: u64) {
        let now = now_ns();
        if deadline <= now {
            return;
        }
        if deadline - now < SPIN_NS {
            while now_ns() < deadline && self.value() == seen {
                std::hint::spin_loop();
            }
            return;
        }
        let own = own_ns(deadline);
        let until = libc::timespec {
            tv_sec: libc::time_t::try_from(own / 1_000_000_000).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::try_from(own % 1_000_000_000).unwrap_or(0),
        };
        let timeout = if deadline == u64::MAX {
            std::ptr::null()
        } else {
            &raw const until
        };
        let _slack = PreciseSleep::new();
        self.sleepers.fetch_add(1, SeqCst);
        // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock.
        // SAFETY: the word lives for ever, the timeout for the call.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.value.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                seen,
                timeout,
                std::ptr::null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            );
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }
}

/// Timers of this thread fire on time rather than up to 50 us late, for as long as this lives.
struct PreciseSleep(libc::c_ulong);

impl PreciseSleep {
    fn new() -> Self {
        // SAFETY: reads and sets a number of this thread.
        unsafe {
            let slack = libc::prctl(libc::PR_GET_TIMERSLACK);
            let slack = libc::c_ulong::try_from(slack).unwrap_or(50_000);
            if slack != 1 {
                libc::prctl(libc::PR_SET_TIMERSLACK, 1);
            }
            Self(slack)
        }
    }
}

impl Drop for PreciseSleep {
    fn drop(&mut self) {
        if self.0 != 1 {
            // SAFETY: sets a number of this thread back.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, self.0) };
        }
    }
}

pub(super) fn notify_progress() {
    PROGRESS.wake();
}

/// A moment to sleep from: take it before looking at what is waited for.
pub(super) fn progress() -> u32 {
    PROGRESS.value()
}

pub(super) fn wait_for_progress(seen: u32, deadline: u64) {
    PROGRESS.wait(seen, deadline);
}

/// Sleeps until `mark` is reached.
pub(crate) fn synchronize(mark: &Arc<Mark>) {
    while !mark.done() {
        let seen = progress();
        drive();
        if mark.done() {
            return;
        }
        let deadline = {
            let mut engine = lock();
            let now = now_ns();
            let next = engine.next_wake(now);
            match mark.tau() {
                Some(tau) => next.min(engine.device(mark.device).timeline.earliest(tau)),
                None => next,
            }
        };
        wait_for_progress(seen, deadline);
    }
}
