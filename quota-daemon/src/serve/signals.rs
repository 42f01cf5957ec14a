//! Signals, waited for by the main thread and by nobody else.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// What somebody wants of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// End: SIGTERM, SIGINT.
    Stop,
    /// Read the configuration again: SIGHUP.
    Reload,
}

/// The signals, blocked in this thread and in those that it starts.
pub(super) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks them. To be called before any other thread is started.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::zeroed();
        // SAFETY: room for a set of signals, which the first call fills.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        };
        // SAFETY: a set of signals; nobody wants to know the one before.
        let refused =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if refused == 0 {
            Ok(Self(set))
        } else {
            Err(io::Error::from_raw_os_error(refused))
        }
    }

    /// Waits for one of them, for so long at most.
    #[must_use]
    pub(super) fn wait(&self, most: Duration) -> Option<Wish> {
        let most = libc::timespec {
            tv_sec: libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: most.subsec_nanos().into(),
        };
        // SAFETY: our own set, a time, and nobody wants to know who sent it.
        match unsafe {
            libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), &raw const most)
        } {
            libc::SIGTERM | libc::SIGINT => Some(Wish::Stop),
            libc::SIGHUP => Some(Wish::Reload),
            _ => None,
        }
    }
}
