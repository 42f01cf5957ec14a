//! Accounting and everything else that needs an administrator: off, and not to be switched on. With the word
//! `nvml-accounting` somebody has switched accounting on; of processes that have ended nothing is remembered.

use std::ffi::c_uint;

use cuda_headers::nvml::{nvmlAccountingStats_t, nvmlDevice_t, nvmlEnableState_t, nvmlReturn_t};

use crate::entry::{NOT_SUPPORTED, entry, out};
use crate::processes::list;
use crate::{device, faults, processes};

/// Processes that accounting would remember.
const BUFFER: c_uint = 4000;
/// The word of `GPU_SIM_FAULTS` that switches accounting on.
const ON: &str = "nvml-accounting";

entry! {
    fn nvmlDeviceGetAccountingMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t) {
        device::get(device)?.whole()?;
        out(mode, if faults::asked(ON) {
            nvmlEnableState_t::NVML_FEATURE_ENABLED
        } else {
            nvmlEnableState_t::NVML_FEATURE_DISABLED
        })
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
        let device = device::get(device)?.whole()?;
        if !faults::asked(ON) {
            return Err(NOT_SUPPORTED);
        }
        list(count, pids, processes::pids(&device)?)
    }

    fn nvmlDeviceGetAccountingStats(
        device: nvmlDevice_t,
        pid: c_uint,
        stats: *mut nvmlAccountingStats_t,
    ) {
        let device = device::get(device)?.whole()?;
        if !faults::asked(ON) {
            return Err(NOT_SUPPORTED);
        }
        if !processes::pids(&device)?.contains(&pid) {
            return Err(nvmlReturn_t::NVML_ERROR_NOT_FOUND);
        }
        out(stats, nvmlAccountingStats_t {
            gpuUtilization: 50,
            memoryUtilization: 25,
            maxMemoryUsage: 0,
            time: 1000,
            startTime: 1,
            isRunning: 1,
            reserved: [0; 5],
        })
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
