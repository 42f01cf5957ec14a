//! Metrics of containers, and of what they have of devices.

use std::collections::BTreeMap;

use super::family::{Family, Labels, Value};
use super::{indices, ratio, seconds};
use crate::model::Uuid;
use crate::report::{Share, Status};

/// A metric of a container's part of a device: what it is called, and how it is read off.
type Column = (
    fn(&'static str, &'static str) -> Family,
    &'static str,
    &'static str,
    fn(&Share) -> Option<Value>,
);

const COLUMNS: &[Column] = &[
    (
        Family::gauge,
        "gpu_quota_memory_limit_bytes",
        "The container's memory limit; absent where it has none",
        |share| share.memory_limit_bytes.map(Into::into),
    ),
    (
        Family::gauge,
        "gpu_quota_memory_used_bytes",
        "Memory that the container's processes hold, by its ledger",
        |share| Some(share.memory_used_bytes.into()),
    ),
    (
        Family::gauge,
        "gpu_quota_memory_overhead_bytes",
        "Memory that they hold beyond that, by NVML; it counts as used",
        |share| Some(share.memory_overhead_bytes.into()),
    ),
    (
        Family::gauge,
        "gpu_quota_memory_dead_bytes",
        "Memory that the container's dead processes still hold, by NVML",
        |share| Some(share.memory_dead_bytes.into()),
    ),
    (
        Family::gauge,
        "gpu_quota_memory_peak_bytes",
        "The most memory that the daemon has seen the container's processes hold, by its ledger",
        |share| Some(share.memory_peak_bytes.into()),
    ),
    (
        Family::counter,
        "gpu_quota_memory_refusals",
        "Requests for memory that were refused",
        |share| Some(share.refusals.into()),
    ),
    (
        Family::counter,
        "gpu_quota_compute_seconds",
        "GPU time that was used",
        |share| Some(seconds(share.gpu_time_ns).into()),
    ),
    (
        Family::counter,
        "gpu_quota_wait_seconds",
        "Time that launches waited, summed over threads",
        |share| Some(seconds(share.waited_ns).into()),
    ),
    (
        Family::counter,
        "gpu_quota_waits",
        "Launches that waited",
        |share| Some(share.waits.into()),
    ),
    (Family::counter, "gpu_quota_launches", "Launches", |share| {
        Some(share.launches.into())
    }),
    (
        Family::gauge,
        "gpu_quota_compute_own_ratio",
        "The container's limit of GPU time, or what its weight guarantees; absent where GPU time is free",
        |share| share.own_percent.map(|percent| ratio(percent).into()),
    ),
    (
        Family::gauge,
        "gpu_quota_compute_allowed_ratio",
        "What it may use of the device at the moment, loans included",
        |share| share.now_percent.map(|percent| ratio(percent).into()),
    ),
    (
        Family::gauge,
        "gpu_quota_compute_used_ratio",
        "What it used of the device lately",
        |share| share.got_percent.map(|percent| ratio(percent).into()),
    ),
    (
        Family::gauge,
        "gpu_quota_active",
        "1 if the container has work on the device, else 0",
        |share| Some(share.active.into()),
    ),
    (
        Family::gauge,
        "gpu_quota_observed_only",
        "1 if nothing is refused or delayed, and only counted, else 0",
        |share| Some(share.observe.into()),
    ),
];

pub(super) fn families(status: &Status) -> Vec<Family> {
    let indices = indices(status);
    let mut processes = Family::gauge(
        "gpu_quota_processes",
        "Registered processes of the container",
    );
    let mut damaged = Family::gauge(
        "gpu_quota_damaged",
        "1 if what the container wrote about itself is damaged, which only it can have done, else 0",
    );
    for container in &status.containers {
        let labels = vec![("container", container.name.clone())];
        processes.add(&labels, Some(container.processes.into()));
        damaged.add(&labels, Some(container.damage.is_some().into()));
    }
    let column = |(kind, name, help, read): &Column| {
        let mut family = kind(name, help);
        for container in &status.containers {
            for share in &container.devices {
                family.add(&labels(&container.name, share, &indices), read(share));
            }
        }
        family
    };
    let columns = COLUMNS.iter().map(column);
    [processes, damaged].into_iter().chain(columns).collect()
}

fn labels(container: &str, share: &Share, indices: &BTreeMap<Uuid, u32>) -> Labels {
    let index = indices
        .get(&share.uuid)
        .map_or_else(String::new, u32::to_string);
    vec![
        ("container", container.to_owned()),
        ("device", share.uuid.to_string()),
        ("gpu", index),
    ]
}
