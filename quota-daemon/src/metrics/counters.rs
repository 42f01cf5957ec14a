//! What the daemon counts about itself while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

use super::waits::Waits;

/// Counts since the daemon began. Raised by whoever sees it happen.
#[derive(Default)]
pub struct Counters {
    /// Processes that were registered.
    pub attaches: AtomicU64,
    /// Views that were given.
    pub views: AtomicU64,
    /// Questions that were answered with a refusal.
    pub refused_attaches: AtomicU64,
    /// Messages that were no questions.
    pub malformed: AtomicU64,
    /// Connections that were closed unheard: too many of one container, or too slow.
    pub refused_connections: AtomicU64,
    /// Registered processes whose end was seen.
    pub deaths: AtomicU64,
    /// Registered processes that were taken over from a predecessor.
    pub adopted: AtomicU64,
    /// Requests at the control socket.
    pub requests: AtomicU64,
    /// Unregistered processes that were killed.
    pub kills: AtomicU64,
    /// How long launches waited.
    pub waits: Waits,
}

impl Counters {
    /// Counts one more.
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}
