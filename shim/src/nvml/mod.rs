//! What NVML shows: the quota as the device, and of processes only the group's own. In a process that need not use CUDA.
//!
//! NVML is asked first and its errors stay its own; what it answers is then cut to what this group may see. Nothing of
//! anybody else's processes is left in a caller's buffer.

#![expect(non_upper_case_globals, reason = "NVML's identifiers")]

use cuda_headers::nvml::fns;

pub(crate) mod memory;
mod pages;
mod parts;
pub(crate) mod processes;
pub(crate) mod utilization;
mod viewer;
mod visible;

crate::hook::uses! { NVML as fns;
    nvmlDeviceGetCount_v2
    nvmlDeviceGetHandleByIndex_v2
    nvmlDeviceGetUUID
    nvmlDeviceGetMaxMigDeviceCount
    nvmlDeviceGetMigDeviceHandleByIndex
    nvmlDeviceGetGpuInstanceId
    nvmlDeviceGetComputeInstanceId
    nvmlDeviceGetComputeRunningProcesses
    nvmlDeviceGetProcessUtilization
}

/// Calls a function of NVML's that is named above: an error where the library lacks it.
macro_rules! ask {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match $crate::nvml::real::$name.get() {
            Some(function) => function($($argument),*),
            None => cuda_headers::nvml::nvmlReturn_t::NVML_ERROR_FUNCTION_NOT_FOUND,
        }
    };
}
use ask;
