//! What a context's limits are charged beyond its constant; decided in `crate::context::limits`.

use super::Memory;
use crate::context::Context;
use crate::process::Process;

/// One limit of one context.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Limit {
    /// Bytes charged.
    pub(crate) charged: u64,
    /// Its value before it was first changed.
    pub(crate) first: usize,
}

/// The same, with whose it is.
#[derive(Copy, Clone)]
pub(super) struct Kept {
    limit: Limit,
    context: u32,
    device: u16,
}

impl Memory {
    /// What is known of a limit, whose value is `now`.
    pub(crate) fn limit(&self, key: u64, now: usize) -> Limit {
        let unknown = Limit {
            charged: 0,
            first: now,
        };
        self.limits.get(key).map_or(unknown, |kept| kept.limit)
    }

    pub(crate) fn set_limit(&self, key: u64, limit: Limit, context: &Context<'_>) {
        let kept = Kept {
            limit,
            context: context.id,
            device: super::number_of(context.device),
        };
        let _ = self.limits.insert(key, kept);
    }
}

/// A context is gone, and what its limits took.
pub(super) fn context_gone(process: &Process, context: u32) {
    process.memory.limits.sweep(
        |_, kept| kept.context == context,
        |_, kept| {
            if let Some(device) = process.devices.by_number(kept.device.into()) {
                device.refund(kept.limit.charged);
            }
        },
    );
}
