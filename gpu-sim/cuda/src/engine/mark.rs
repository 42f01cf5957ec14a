//! A point in a stream's work: what events record and what waits wait for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::queue::StreamKey;

const UNKNOWN: u64 = u64::MAX;

/// A point in a stream. Its `tau` becomes known first, then, when it has passed, its real time.
pub(crate) struct Mark {
    pub(super) device: usize,
    tau: AtomicU64,
    real: AtomicU64,
    /// Streams whose first item waits for this.
    waiters: Mutex<Vec<StreamKey>>,
}

impl Mark {
    pub(super) fn new(device: usize) -> Self {
        Self {
            device,
            tau: AtomicU64::new(UNKNOWN),
            real: AtomicU64::new(UNKNOWN),
            waiters: Mutex::new(Vec::new()),
        }
    }

    /// When it was reached, in real nanoseconds.
    pub(crate) fn real(&self) -> Option<u64> {
        Some(self.real.load(Ordering::Acquire)).filter(|real| *real != UNKNOWN)
    }

    /// Whether it has been reached.
    pub(crate) fn done(&self) -> bool {
        self.real().is_some()
    }

    /// Its place on its device's axis of GPU time, once that is known.
    pub(super) fn tau(&self) -> Option<u64> {
        Some(self.tau.load(Ordering::Acquire)).filter(|tau| *tau != UNKNOWN)
    }

    pub(super) fn resolve(&self, tau: u64) {
        self.tau.store(tau, Ordering::Release);
    }

    pub(super) fn reach(&self, real: u64) {
        self.real.store(real, Ordering::Release);
    }

    pub(super) fn add_waiter(&self, stream: StreamKey) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.push(stream);
    }

    pub(super) fn take_waiters(&self) -> Vec<StreamKey> {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiters)
    }
}
