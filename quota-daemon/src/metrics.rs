//! What the daemon knows, as Prometheus reads it: text of version 0.0.4.
//!
//! Bytes, seconds, and shares between 0 and 1. Containers carry the label `container`; what is of a device carries `device`, its
//! UUID, and `gpu`, NVML's index.

mod containers;
mod counters;
mod daemon;
mod devices;
mod family;
mod text;
mod waits;

use std::collections::BTreeMap;

pub use counters::Counters;

use crate::model::Uuid;
use crate::report::Status;

/// What an answer is, by HTTP.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The whole text.
#[must_use]
pub fn render(status: &Status, counters: &Counters) -> String {
    let mut families = daemon::families(status, counters);
    families.extend(devices::families(status));
    families.extend(containers::families(status));
    families.extend(counters.waits.families(&indices(status)));
    text::write(families)
}

/// NVML's index of each device.
fn indices(status: &Status) -> BTreeMap<Uuid, u32> {
    let devices = status.devices.iter();
    devices
        .map(|device| (device.device.uuid, device.device.index))
        .collect()
}

/// A percentage as a share of 1.
fn ratio(percent: f64) -> f64 {
    percent / 100.0
}

/// Nanoseconds as seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact for the first 104 days, and to 1 µs after that for a lifetime"
)]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests;
