//! Numbers from 1 on, each given out once. Zero to begin with, like all of a process's tables, so that what they are copied from
//! takes no room in the library's file.

use quota_abi::sync::{AtomicU64, Ordering};

/// Who gives them out.
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}
