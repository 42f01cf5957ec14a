//! Functions that an older driver's NVML does not have yet (`GPU_SIM_DRIVER`). An ELF file cannot
//! hide what it exports, so they answer that they were not found.

use std::sync::atomic::{AtomicI32, Ordering};

use cuda_headers::nvml::nvmlReturn_t;

use crate::entry::Outcome;

static DRIVER: AtomicI32 = AtomicI32::new(i32::MAX);

/// With which CUDA version's driver they came: for 12.3 and later as seen in NVIDIA's libraries
/// 535.261.03 (12.2) and 550.163.01 (12.4), before that as documented.
const SINCE: &[(&str, i32)] = &[
    ("nvmlDeviceGetComputeRunningProcesses_v2", 11020),
    ("nvmlDeviceGetComputeRunningProcesses_v3", 11060),
    ("nvmlDeviceGetCurrentClocksEventReasons", 12020),
    ("nvmlDeviceGetDriverModel_v2", 12050),
    ("nvmlDeviceGetGpuFabricInfo", 12000),
    ("nvmlDeviceGetGpuFabricInfoV", 12030),
    ("nvmlDeviceGetGraphicsRunningProcesses_v2", 11020),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", 11060),
    ("nvmlDeviceGetHandleByUUIDV", 12050),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v2", 11020),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3", 11060),
    ("nvmlDeviceGetMemoryInfo_v2", 11060),
    ("nvmlDeviceGetNumaNodeId", 12030),
    ("nvmlDeviceGetPciInfoExt", 12030),
    ("nvmlDeviceGetProcessesUtilizationInfo", 12030),
    ("nvmlDeviceGetRunningProcessDetailList", 12020),
    ("nvmlDeviceGetTemperatureV", 12050),
];

/// The driver of a new session.
pub(crate) fn set(driver: i32) {
    DRIVER.store(driver, Ordering::Relaxed);
}

/// Refuses what the driver is too old for.
pub(crate) fn check(name: &str) -> Outcome {
    let driver = DRIVER.load(Ordering::Relaxed);
    let found = SINCE.binary_search_by(|(known, _)| (*known).cmp(name));
    match found.ok().and_then(|index| SINCE.get(index)) {
        Some((_, since)) if *since > driver => Err(nvmlReturn_t::NVML_ERROR_FUNCTION_NOT_FOUND),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::SINCE;

    #[test]
    fn the_list_is_sorted_and_names_real_functions() {
        assert!(SINCE.is_sorted());
        for (name, _) in SINCE {
            assert!(cuda_headers::nvml::NAMES.contains(name), "{name}");
        }
    }
}
