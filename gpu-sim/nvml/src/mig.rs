//! MIG: GPUs with instances are in MIG mode; the instances have handles of their own.

use std::ffi::c_uint;

use cuda_headers::nvml::{nvmlDevice_t, nvmlDeviceAttributes_t, nvmlReturn_t};
use gpu_sim_core::DeviceInfo;

use crate::device::{self, Device};
use crate::entry::{NOT_SUPPORTED, entry, out};

const MOST: c_uint = 7;

/// Instances are numbered from 1 on their GPU; each has one compute instance, 0.
pub(crate) fn instance_id(info: &DeviceInfo, all: &[DeviceInfo]) -> c_uint {
    let before = all
        .iter()
        .filter(|d| d.parent == info.parent && d.index < info.index)
        .count();
    c_uint::try_from(before + 1).unwrap_or(c_uint::MAX)
}

fn instance(handle: nvmlDevice_t) -> Result<Device, nvmlReturn_t> {
    let device = device::get(handle)?;
    if device.is_instance() {
        Ok(device)
    } else {
        Err(NOT_SUPPORTED)
    }
}

fn attributes(device: &Device) -> nvmlDeviceAttributes_t {
    let slices = if device.is_instance() { 1 } else { 0 };
    nvmlDeviceAttributes_t {
        multiprocessorCount: device.card.multiprocessors,
        sharedCopyEngineCount: 1,
        sharedDecoderCount: 1,
        sharedEncoderCount: 0,
        sharedJpegCount: 0,
        sharedOfaCount: 0,
        gpuInstanceSliceCount: slices,
        computeInstanceSliceCount: slices,
        memorySizeMB: device.info.total >> 20,
    }
}

entry! {
    fn nvmlDeviceIsMigDeviceHandle(device: nvmlDevice_t, isMigDevice: *mut c_uint) {
        out(isMigDevice, c_uint::from(device::get(device)?.is_instance()))
    }

    fn nvmlDeviceGetMigMode(
        device: nvmlDevice_t,
        currentMode: *mut c_uint,
        pendingMode: *mut c_uint,
    ) {
        let mode = c_uint::from(!device::get(device)?.whole()?.instances.is_empty());
        out(currentMode, mode)?;
        out(pendingMode, mode)
    }

    fn nvmlDeviceGetMaxMigDeviceCount(device: nvmlDevice_t, count: *mut c_uint) {
        let enabled = !device::get(device)?.whole()?.instances.is_empty();
        out(count, if enabled { MOST } else { 0 })
    }

    /// Places without an instance are not found.
    fn nvmlDeviceGetMigDeviceHandleByIndex(
        device: nvmlDevice_t,
        index: c_uint,
        migDevice: *mut nvmlDevice_t,
    ) {
        let gpu = device::get(device)?.whole()?;
        if index >= MOST {
            return Err(nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT);
        }
        let found = gpu.instances.get(index as usize);
        out(migDevice, device::handle(*found.ok_or(nvmlReturn_t::NVML_ERROR_NOT_FOUND)?))
    }

    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
        migDevice: nvmlDevice_t,
        device: *mut nvmlDevice_t,
    ) {
        let parent = instance(migDevice)?.info.parent.ok_or(NOT_SUPPORTED)?;
        out(device, device::handle(parent))
    }

    fn nvmlDeviceGetGpuInstanceId(device: nvmlDevice_t, id: *mut c_uint) {
        out(id, instance_id(&instance(device)?.info, &device::all()))
    }

    fn nvmlDeviceGetComputeInstanceId(device: nvmlDevice_t, id: *mut c_uint) {
        instance(device)?;
        out(id, 0)
    }

    fn nvmlDeviceGetAttributes_v2(
        device: nvmlDevice_t,
        attributes_out: *mut nvmlDeviceAttributes_t,
    ) {
        out(attributes_out, attributes(&instance(device)?))
    }

    fn nvmlDeviceGetAttributes(
        device: nvmlDevice_t,
        attributes_out: *mut nvmlDeviceAttributes_t,
    ) {
        out(attributes_out, attributes(&instance(device)?))
    }
}
