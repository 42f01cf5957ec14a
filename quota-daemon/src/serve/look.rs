//! A look at a container's usage region: what of it counts, and what of it cannot be.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use quota_abi::devices;
use quota_abi::layout::Region;
use quota_abi::region::Cause;
use quota_abi::region::snapshot::Snapshot;
use quota_abi::slots;
use quota_abi::sync::Ordering;

use crate::model::Uuid;

use super::account::Counters;
use super::clients::{Client, Key};
use super::container::Container;

/// Bytes that registered, living processes hold, by process and device.
pub(super) type Held = BTreeMap<(Key, Uuid), u64>;

/// The slots of a region that belong to registered processes that live.
#[must_use]
pub(super) fn living(container: &Container, clients: &HashMap<Key, Client>) -> HashMap<u64, Key> {
    let known = container.clients.iter().filter_map(|key| clients.get(key));
    known
        .map(|client| (client.record.owner, client.record.key()))
        .collect()
}

/// Reads all that a container's region tells, and takes note of its counters. `None` where it cannot be read.
pub(super) fn look<'a>(
    container: &mut Container,
    copy: &'a mut Snapshot,
    now: Instant,
) -> Option<&'a Region> {
    container.check_size();
    match copy.read_told(container.files.usage()) {
        Ok(region) => {
            count(container, region, now);
            Some(region)
        }
        Err(cause) => {
            container.damaged(format!("its usage region cannot be read: {}", text(&cause)));
            None
        }
    }
}

/// What is wrong with a region.
fn text(cause: &Cause) -> String {
    match cause {
        Cause::System(step, error) => format!("cannot {step} it: {error}"),
        Cause::Size(bytes) => {
            format!("its size is {bytes} bytes, by what it says or where it ends")
        }
        Cause::Magic => "it is no region".into(),
        Cause::Version(version) => format!("it says that it has version {version}"),
    }
}

/// Takes note of the counters; the part of a region before the ledger is enough.
pub(super) fn count(container: &mut Container, region: &Region, now: Instant) {
    let mut leapt = None;
    for (row, bucket) in region.devices.iter().zip(&region.buckets) {
        let Some(uuid) = devices::uuid_of(row).map(Uuid) else {
            continue;
        };
        if container.files.policy().row(&uuid.0).is_none() {
            // What a container writes about devices that it may not use is not kept: it could make up any number of them.
            continue;
        }
        let counters = Counters::new(&bucket.read(), row.denials.load(Ordering::Relaxed));
        let tally = container.tallies.entry(uuid).or_default();
        if let Err(what) = tally.look(now, counters) {
            leapt = Some(what);
        }
    }
    if let Some(what) = leapt {
        container.damaged(what.into());
    }
}

/// What living processes hold.
#[must_use]
pub(super) fn held(region: &Region, living: &HashMap<u64, Key>) -> Held {
    let mut held = Held::new();
    for (slot, owner) in slots::owners(region) {
        let Some(key) = living.get(&owner.word()) else {
            continue;
        };
        for (index, row) in region.devices.iter().enumerate() {
            let Some(uuid) = devices::uuid_of(row).map(Uuid) else {
                continue;
            };
            let bytes = devices::ledger(region, index).map_or(0, |ledger| ledger.held_by(slot));
            if bytes > 0 {
                let sum = held.entry((*key, uuid)).or_insert(0);
                *sum = sum.saturating_add(bytes);
            }
        }
    }
    held
}

/// The same for the container as a whole.
#[must_use]
pub(super) fn by_device(held: &Held) -> BTreeMap<Uuid, u64> {
    let mut sums = BTreeMap::new();
    for ((_, uuid), bytes) in held {
        let sum: &mut u64 = sums.entry(*uuid).or_insert(0);
        *sum = sum.saturating_add(*bytes);
    }
    sums
}
