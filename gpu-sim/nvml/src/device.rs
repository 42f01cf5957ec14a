//! Device handles: whole GPUs and MIG instances of the simulation.

use cuda_headers::nvml::{nvmlDevice_t, nvmlReturn_t};
use gpu_sim_core::{Card, DeviceInfo};

use crate::entry::{INVALID, NOT_SUPPORTED};
use crate::{faults, session};

/// Handles look like addresses, of places that nobody maps.
const BASE: usize = 0x2d00_0000_0000;
const STEP: usize = 0x1000;

/// A device as NVML shows it.
pub(crate) struct Device {
    pub(crate) info: DeviceInfo,
    pub(crate) card: Card,
    /// Indices (in the simulation) of its instances.
    pub(crate) instances: Vec<usize>,
}

impl Device {
    pub(crate) fn is_instance(&self) -> bool {
        self.info.parent.is_some()
    }

    /// Refuses what only whole GPUs have.
    pub(crate) fn whole(self) -> Result<Self, nvmlReturn_t> {
        if self.is_instance() {
            Err(NOT_SUPPORTED)
        } else {
            Ok(self)
        }
    }

    /// Refuses what neither instances nor GPUs in MIG mode have.
    pub(crate) fn undivided(self) -> Result<Self, nvmlReturn_t> {
        if self.instances.is_empty() {
            self.whole()
        } else {
            Err(NOT_SUPPORTED)
        }
    }

    /// The simulation's devices whose memory and processes count here.
    pub(crate) fn parts(&self) -> Vec<usize> {
        if self.instances.is_empty() {
            vec![self.info.index]
        } else {
            self.instances.clone()
        }
    }
}

/// All devices of the simulation, instances included.
pub(crate) fn all() -> Vec<DeviceInfo> {
    let null = || {
        vec![DeviceInfo {
            index: 0,
            uuid: *b"gpu-sim null dev",
            total: 24 << 30,
            parent: None,
        }]
    };
    session::simulation().map_or_else(null, gpu_sim_core::Simulation::devices)
}

pub(crate) fn describe(info: DeviceInfo, all: &[DeviceInfo]) -> Device {
    let instances = all
        .iter()
        .filter(|d| d.parent == Some(info.index))
        .map(|d| d.index)
        .collect();
    Device {
        card: Card::of(&info, all),
        info,
        instances,
    }
}

/// The device that a handle stands for.
pub(crate) fn get(handle: nvmlDevice_t) -> Result<Device, nvmlReturn_t> {
    let offset = handle.0.addr().checked_sub(BASE).ok_or(INVALID)?;
    let all = all();
    let found = all
        .get(offset / STEP)
        .filter(|_| offset.is_multiple_of(STEP));
    let found = describe(*found.ok_or(INVALID)?, &all);
    let whole = found.info.parent.unwrap_or(found.info.index);
    if faults::lost(order(whole, &all)) {
        return Err(nvmlReturn_t::NVML_ERROR_GPU_IS_LOST);
    }
    Ok(found)
}

/// NVML's index of a whole GPU, which counts no instances.
fn order(whole: usize, all: &[DeviceInfo]) -> usize {
    all.iter()
        .filter(|device| device.parent.is_none() && device.index < whole)
        .count()
}

/// The handle of a device of the simulation.
pub(crate) fn handle(index: usize) -> nvmlDevice_t {
    nvmlDevice_t(std::ptr::without_provenance_mut(BASE + index * STEP))
}

/// Whole GPUs in NVML's order.
pub(crate) fn gpus() -> Vec<DeviceInfo> {
    all()
        .into_iter()
        .filter(|device| device.parent.is_none())
        .collect()
}
