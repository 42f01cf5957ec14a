//! Signals that end or stop a process: the terminal is put in order before they do.

use anyhow::Context;
use rustix::process::{Signal, getpid, kill_process};

/// From here on these are told instead of ending the process. To be called before other threads are made.
///
/// # Errors
/// The kernel refuses.
pub(super) fn catch(tell: impl Fn(i32) -> bool + Send + 'static) -> anyhow::Result<()> {
    let set = signals()?;
    // SAFETY: `set` is a set of signals that lives throughout the call; the old mask is not asked for.
    let failed =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if failed != 0 {
        return Err(std::io::Error::from_raw_os_error(failed)).context("cannot block signals");
    }
    std::thread::spawn(move || {
        loop {
            let mut signal = 0;
            // SAFETY: both point to what lives throughout the call, and the signals of the set are blocked.
            let failed = unsafe { libc::sigwait(&raw const set, &raw mut signal) };
            if failed != 0 || !tell(signal) {
                return;
            }
        }
    });
    Ok(())
}

/// SIGINT is among them for who sends it: the key is read as a key.
fn signals() -> anyhow::Result<libc::sigset_t> {
    // SAFETY: a set of signals is bytes, of which any value is one.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: `set` is a set of signals, empty as zeroes are.
        let failed = unsafe { libc::sigaddset(&raw mut set, signal) };
        anyhow::ensure!(failed == 0, "signal {signal} is unknown here");
    }
    Ok(set)
}

/// Stops this process as the terminal would by ctrl-z; returns when it goes on.
///
/// # Errors
/// The kernel refuses.
pub(super) fn suspend() -> anyhow::Result<()> {
    kill_process(getpid(), Signal::TSTP).context("cannot stop")
}
