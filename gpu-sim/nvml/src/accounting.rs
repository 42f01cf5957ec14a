//! Accounting and everything else that needs an administrator: off, and not to be switched on.

use std::ffi::c_uint;

use cuda_headers::nvml::{nvmlAccountingStats_t, nvmlDevice_t, nvmlEnableState_t, nvmlReturn_t};

use crate::device;
use crate::entry::{NOT_SUPPORTED, entry, out};
use crate::processes::list;

/// Processes that accounting would remember.
const BUFFER: c_uint = 4000;

entry! {
    fn nvmlDeviceGetAccountingMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t) {
        device::get(device)?.whole()?;
        out(mode, nvmlEnableState_t::NVML_FEATURE_DISABLED)
    }

    fn nvmlDeviceGetAccountingBufferSize(device: nvmlDevice_t, bufferSize: *mut c_uint) {
        device::get(device)?.whole()?;
        out(bufferSize, BUFFER)
    }

    fn nvmlDeviceGetAccountingPids(
        device: nvmlDevice_t,
        count: *mut c_uint,
        pids: *mut c_uint,
    ) {
        device::get(device)?.whole()?;
        list(count, pids, Vec::new())
    }

    fn nvmlDeviceGetAccountingStats(
        device: nvmlDevice_t,
        pid: c_uint,
        stats: *mut nvmlAccountingStats_t,
    ) {
        let _ = (pid, stats);
        device::get(device)?.whole()?;
        Err(NOT_SUPPORTED)
    }

    fn nvmlDeviceSetAccountingMode(device: nvmlDevice_t, mode: nvmlEnableState_t) {
        let _ = mode;
        device::get(device)?.whole()?;
        Err(nvmlReturn_t::NVML_ERROR_NO_PERMISSION)
    }

    fn nvmlDeviceSetPersistenceMode(device: nvmlDevice_t, mode: nvmlEnableState_t) {
        let _ = mode;
        device::get(device)?.whole()?;
        Err(nvmlReturn_t::NVML_ERROR_NO_PERMISSION)
    }

    fn nvmlDeviceSetPowerManagementLimit(device: nvmlDevice_t, limit: c_uint) {
        let _ = limit;
        device::get(device)?.whole()?;
        Err(nvmlReturn_t::NVML_ERROR_NO_PERMISSION)
    }
}
