//! Who is served when: near the limit one request at a time, and none beside slack that is in its way.

use quota_abi::sync::Ordering;

use super::account::Pools;
use crate::device::Device;

/// What the driver takes for a pool at a time, or more.
const STEP: u64 = 32 << 20;

/// A request that is being served.
pub(super) struct Served<'a>(&'a Pools);

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.0.served.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pools {
    /// Gives the pools' slack back if a request is larger than all the slack of its own pool, so that the driver takes a new
    /// segment for it, and that does not fit beside the slack.
    pub(super) fn clear_way(&self, device: &Device, id: u64, bytes: u64) {
        let Some(pool) = self.known.get(id) else {
            return;
        };
        let slack = pool.charged.saturating_sub(pool.handed);
        let segment = bytes.checked_next_multiple_of(STEP).unwrap_or(u64::MAX);
        if slack > 0 && bytes > slack && segment > left(device) {
            self.trim(device);
        }
    }

    /// Lets a request in: near the limit one at a time, since each may make the driver take more than it asks for. `None` while
    /// others are being served.
    pub(super) fn enter(&self, device: &Device, bytes: u64) -> Option<Served<'_>> {
        let left = left(device);
        let enter = |others: u32| {
            let all = bytes.max(STEP).saturating_mul(u64::from(others) + 1);
            (others == 0 || all <= left).then(|| others.saturating_add(1))
        };
        self.served
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter)
            .ok()
            .map(|_| Served(self))
    }

    /// Lets a request in that has waited long enough: whoever is being served may be stopped in the middle.
    pub(super) fn insist(&self) -> Served<'_> {
        self.served.fetch_add(1, Ordering::Relaxed);
        Served(self)
    }
}

/// Bytes that the group may still take.
fn left(device: &Device) -> u64 {
    let left = |limit: u64| limit.saturating_sub(device.usage());
    device.bound().map_or(u64::MAX, left)
}
