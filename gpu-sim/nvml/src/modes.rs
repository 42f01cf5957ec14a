//! Modes, and counters of errors that never happen.

use std::ffi::{c_uint, c_ulonglong};

use cuda_headers::nvml::{
    nvmlComputeMode_t, nvmlDevice_t, nvmlDriverModel_t, nvmlEccCounterType_t, nvmlEnableState_t,
    nvmlMemoryErrorType_t, nvmlMemoryLocation_t, nvmlPageRetirementCause_t,
};

use crate::device;
use crate::entry::{NOT_SUPPORTED, entry, out};
use crate::processes::list;
use crate::sensors::constant;

entry! {
    fn nvmlDeviceGetPersistenceMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t) {
        device::get(device)?;
        out(mode, nvmlEnableState_t::NVML_FEATURE_ENABLED)
    }

    fn nvmlDeviceGetComputeMode(device: nvmlDevice_t, mode: *mut nvmlComputeMode_t) {
        device::get(device)?;
        out(mode, nvmlComputeMode_t::NVML_COMPUTEMODE_DEFAULT)
    }

    fn nvmlDeviceGetDisplayMode(device: nvmlDevice_t, display: *mut nvmlEnableState_t) {
        constant(device, display, nvmlEnableState_t::NVML_FEATURE_DISABLED)
    }

    fn nvmlDeviceGetDisplayActive(device: nvmlDevice_t, isActive: *mut nvmlEnableState_t) {
        constant(device, isActive, nvmlEnableState_t::NVML_FEATURE_DISABLED)
    }

    /// Driver models are a matter of Windows.
    fn nvmlDeviceGetDriverModel(
        device: nvmlDevice_t,
        current: *mut nvmlDriverModel_t,
        pending: *mut nvmlDriverModel_t,
    ) {
        let _ = (current, pending);
        device::get(device)?;
        Err(NOT_SUPPORTED)
    }

    fn nvmlDeviceGetDriverModel_v2(
        device: nvmlDevice_t,
        current: *mut nvmlDriverModel_t,
        pending: *mut nvmlDriverModel_t,
    ) {
        let _ = (current, pending);
        device::get(device)?;
        Err(NOT_SUPPORTED)
    }

    fn nvmlDeviceGetEccMode(
        device: nvmlDevice_t,
        current: *mut nvmlEnableState_t,
        pending: *mut nvmlEnableState_t,
    ) {
        constant(device, current, nvmlEnableState_t::NVML_FEATURE_ENABLED)?;
        out(pending, nvmlEnableState_t::NVML_FEATURE_ENABLED)
    }

    fn nvmlDeviceGetDefaultEccMode(
        device: nvmlDevice_t,
        defaultMode: *mut nvmlEnableState_t,
    ) {
        constant(device, defaultMode, nvmlEnableState_t::NVML_FEATURE_ENABLED)
    }

    fn nvmlDeviceGetTotalEccErrors(
        device: nvmlDevice_t,
        errorType: nvmlMemoryErrorType_t,
        counterType: nvmlEccCounterType_t,
        eccCounts: *mut c_ulonglong,
    ) {
        let _ = (errorType, counterType);
        constant(device, eccCounts, 0)
    }

    fn nvmlDeviceGetMemoryErrorCounter(
        device: nvmlDevice_t,
        errorType: nvmlMemoryErrorType_t,
        counterType: nvmlEccCounterType_t,
        locationType: nvmlMemoryLocation_t,
        count: *mut c_ulonglong,
    ) {
        let _ = (errorType, counterType, locationType);
        constant(device, count, 0)
    }

    fn nvmlDeviceGetRetiredPages(
        device: nvmlDevice_t,
        cause: nvmlPageRetirementCause_t,
        pageCount: *mut c_uint,
        addresses: *mut c_ulonglong,
    ) {
        let _ = cause;
        device::get(device)?.whole()?;
        list(pageCount, addresses, Vec::new())
    }

    fn nvmlDeviceGetRetiredPagesPendingStatus(
        device: nvmlDevice_t,
        isPending: *mut nvmlEnableState_t,
    ) {
        constant(device, isPending, nvmlEnableState_t::NVML_FEATURE_DISABLED)
    }

    fn nvmlDeviceGetRemappedRows(
        device: nvmlDevice_t,
        corrRows: *mut c_uint,
        uncRows: *mut c_uint,
        isPending: *mut c_uint,
        failureOccurred: *mut c_uint,
    ) {
        constant(device, corrRows, 0)?;
        out(uncRows, 0)?;
        out(isPending, 0)?;
        out(failureOccurred, 0)
    }
}
