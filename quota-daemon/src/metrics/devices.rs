//! Metrics of devices.

use super::family::{Family, Labels};
use super::ratio;
use crate::report::{DeviceStatus, Status};

pub(super) fn families(status: &Status) -> Vec<Family> {
    let mut memory = Family::gauge("gpu_quota_device_memory_bytes", "Memory of the device");
    let mut used = Family::gauge(
        "gpu_quota_device_memory_used_bytes",
        "Memory in use on the device, by NVML; absent where it does not tell",
    );
    let mut promised = Family::gauge(
        "gpu_quota_device_memory_promised_bytes",
        "Memory of the device that is promised to containers",
    );
    let mut utilization = Family::gauge(
        "gpu_quota_device_utilization_ratio",
        "Utilisation of the device, by NVML; absent where it does not tell",
    );
    let mut readable = Family::gauge(
        "gpu_quota_device_readable",
        "1 if NVML says of the device all that it is asked, else 0",
    );
    let mut active = Family::gauge(
        "gpu_quota_active_containers",
        "Containers that have work on the device",
    );
    let mut processes = Family::gauge(
        "gpu_quota_unregistered_processes",
        "Processes that use the device past the library, by NVML",
    );
    let mut bytes = Family::gauge(
        "gpu_quota_unregistered_bytes",
        "Memory of the device that such processes hold, by NVML",
    );
    for device in &status.devices {
        let labels = labels(device);
        let percent = device
            .utilization_percent
            .map(|percent| ratio(f64::from(percent)));
        let held = device
            .unregistered
            .iter()
            .filter_map(|process| process.bytes);
        let held = held.fold(0, u64::saturating_add);
        let strangers = u64::try_from(device.unregistered.len()).unwrap_or(u64::MAX);
        memory.add(&labels, Some(device.device.memory_bytes.into()));
        used.add(&labels, device.used_bytes.map(Into::into));
        promised.add(&labels, Some(device.promised_bytes.into()));
        utilization.add(&labels, percent.map(Into::into));
        readable.add(&labels, Some(device.trouble.is_none().into()));
        active.add(&labels, Some(device.active.into()));
        processes.add(&labels, Some(strangers.into()));
        bytes.add(&labels, Some(held.into()));
    }
    vec![
        memory,
        used,
        promised,
        utilization,
        readable,
        active,
        processes,
        bytes,
    ]
}

fn labels(device: &DeviceStatus) -> Labels {
    vec![
        ("device", device.device.uuid.to_string()),
        ("gpu", device.device.index.to_string()),
    ]
}
