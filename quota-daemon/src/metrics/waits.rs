//! How long launches waited, as a distribution.
//!
//! A container notes its last waits in a ring of 32; how many it had, and how long they took together, it counts exactly. So the
//! distribution is that of the waits that were still in the ring when the daemon looked, which under load is a sample, and
//! it is a tenant's word. Its name says so.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::family::{Family, Labels};
use crate::model::Uuid;

/// Upper bounds of the buckets in ns: 0.1 ms to a little over 100 ms, which the gate does not exceed but for debt.
const BOUNDS: [u64; 11] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    105_000_000,
    1_000_000_000,
];
/// Containers and devices that are told apart, at most.
const MOST: usize = 64 * 32;

#[derive(Clone, Default)]
struct Seen {
    sum: u64,
    count: u64,
    buckets: [u64; BOUNDS.len() + 1],
}

#[derive(Default)]
struct Inner {
    seen: BTreeMap<(String, Uuid), Seen>,
    /// The last event of each container that was taken.
    taken: BTreeMap<String, u64>,
}

/// The waits that were seen.
#[derive(Default)]
pub struct Waits(Mutex<Inner>);

impl Waits {
    /// Takes those waits of a container that are newer than what was taken last: `newest` is the number of the newest that it
    /// ever noted, and `events` its last ones, the newest first: their device, and how long it was in ns.
    pub fn take(&self, container: &str, newest: u64, events: impl Iterator<Item = (Uuid, u64)>) {
        let mut inner = self.0.lock();
        let taken = inner.taken.insert(container.to_owned(), newest);
        // The first look finds what a predecessor has counted already.
        let Some(fresh) = taken.and_then(|taken| newest.checked_sub(taken)) else {
            return;
        };
        for (uuid, ns) in events.take(usize::try_from(fresh).unwrap_or(usize::MAX)) {
            let key = (container.to_owned(), uuid);
            if inner.seen.len() >= MOST && !inner.seen.contains_key(&key) {
                continue;
            }
            let seen = inner.seen.entry(key).or_default();
            seen.count += 1;
            seen.sum = seen.sum.saturating_add(ns);
            let bucket = BOUNDS.iter().take_while(|bound| ns > **bound).count();
            if let Some(bucket) = seen.buckets.get_mut(bucket) {
                *bucket += 1;
            }
        }
    }

    /// Forgets a container that is gone.
    pub fn forget(&self, container: &str) {
        let mut inner = self.0.lock();
        inner.taken.remove(container);
        inner.seen.retain(|(name, _), _| name != container);
    }

    pub(super) fn families(&self, indices: &BTreeMap<Uuid, u32>) -> Vec<Family> {
        let mut family = Family::histogram(
            "gpu_quota_sampled_wait_seconds",
            "How long launches waited, of those that were among the last 32 of their container when the daemon looked",
        );
        for ((container, uuid), seen) in &self.0.lock().seen {
            let labels: Labels = vec![
                ("container", container.clone()),
                ("device", uuid.to_string()),
                (
                    "gpu",
                    indices.get(uuid).map_or_else(String::new, u32::to_string),
                ),
            ];
            let bounds = BOUNDS.iter().map(|bound| super::seconds(*bound));
            let bounds = bounds.chain([f64::INFINITY]);
            let buckets = bounds.zip(seen.buckets).collect();
            let value =
                super::family::Value::Histogram(super::seconds(seen.sum), seen.count, buckets);
            family.add(&labels, value);
        }
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Uuid = Uuid([1; 16]);

    fn seen(waits: &Waits) -> Seen {
        waits
            .0
            .lock()
            .seen
            .values()
            .next()
            .cloned()
            .unwrap_or_default()
    }

    #[test]
    fn each_wait_is_taken_once() {
        let waits = Waits::default();
        let take = |newest, times: &[u64]| {
            waits.take("a", newest, times.iter().map(|ns| (DEVICE, *ns)));
        };
        take(2, &[1, 1]);
        assert_eq!(seen(&waits).count, 0, "before this daemon's time");
        take(3, &[200_000, 1, 1]);
        take(3, &[200_000, 1, 1]);
        assert_eq!((seen(&waits).count, seen(&waits).sum), (1, 200_000));
        assert_eq!(seen(&waits).buckets[1], 1);
        take(1000, &[u64::MAX; 32]);
        assert_eq!(seen(&waits).count, 33);
        assert_eq!(seen(&waits).buckets[BOUNDS.len()], 32);
        // A count that goes back is of a region that was made anew.
        take(1, &[5]);
        assert_eq!(seen(&waits).count, 33);
        take(2, &[5, 5]);
        assert_eq!(seen(&waits).count, 34);
        waits.forget("a");
        assert_eq!(seen(&waits).count, 0);
    }
}
