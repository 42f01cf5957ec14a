//! Whether this machine stood still: a thread that wants to run every few milliseconds, and notes how much later it did.
//!
//! A simulated GPU runs by the clock whatever happens, while those who work on it, and the gate that holds them back, need the
//! machine's cores. Where other load keeps them waiting, what a tenant got says nothing about its quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(2);

/// Later than this is more than a busy moment.
const LATE: Duration = Duration::from_millis(2);

/// A stall of a hundredth of the time shows in a share.
const VISIBLE: f64 = 0.01;

/// The thread. Dropping it ends it.
pub(crate) struct Pulse {
    lost_us: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    begin: Instant,
}

impl Pulse {
    pub(crate) fn begin() -> Self {
        let (lost_us, ends) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (lost, over) = (Arc::clone(&lost_us), Arc::clone(&ends));
        let thread = thread::spawn(move || {
            while !over.load(Relaxed) {
                let slept = Instant::now();
                thread::sleep(BEAT);
                let late = slept.elapsed().saturating_sub(BEAT);
                if late > LATE {
                    let late = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
                    lost.fetch_add(late, Relaxed);
                }
            }
        });
        Self {
            lost_us,
            ends,
            thread: Some(thread),
            begin: Instant::now(),
        }
    }

    /// How long it stood still so far, if that is enough to be seen.
    pub(crate) fn stalled(&self) -> Option<Duration> {
        let lost = Duration::from_micros(self.lost_us.load(Relaxed));
        is_visible(lost, self.begin.elapsed()).then_some(lost)
    }
}

fn is_visible(lost: Duration, of: Duration) -> bool {
    lost.as_secs_f64() > of.as_secs_f64() * VISIBLE
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot have failed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_is_visible() {
        assert!(!is_visible(
            Duration::from_millis(59),
            Duration::from_secs(6)
        ));
        assert!(is_visible(
            Duration::from_millis(61),
            Duration::from_secs(6)
        ));
    }
}
