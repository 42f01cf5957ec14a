//! Clocks, which never change and are never throttled.

use std::ffi::{c_uint, c_ulonglong};

use cuda_headers::nvml::{
    nvmlClockId_t, nvmlClockType_t, nvmlDevice_t, nvmlPerfPolicyType_t, nvmlPstates_t,
    nvmlReturn_t, nvmlViolationTime_t,
};
use gpu_sim_core::{Bandwidth, now_ns};

use crate::device;
use crate::entry::{INVALID, Outcome, entry, out};
use crate::processes::list;
use crate::sensors::constant;
use crate::utilization;

const GRAPHICS_MHZ: c_uint = 1980;

fn memory_mhz() -> c_uint {
    Bandwidth::from_env().clock_khz() / 1000
}

unsafe fn clock(handle: nvmlDevice_t, kind: nvmlClockType_t, target: *mut c_uint) -> Outcome {
    let mhz = match kind {
        nvmlClockType_t::NVML_CLOCK_GRAPHICS | nvmlClockType_t::NVML_CLOCK_SM => GRAPHICS_MHZ,
        nvmlClockType_t::NVML_CLOCK_MEM => memory_mhz(),
        nvmlClockType_t::NVML_CLOCK_VIDEO => GRAPHICS_MHZ - 400,
        _ => return Err(INVALID),
    };
    // SAFETY: the application's pointer.
    unsafe { constant(handle, target, mhz) }
}

entry! {
    fn nvmlDeviceGetClockInfo(device: nvmlDevice_t, type_: nvmlClockType_t, clock_out: *mut c_uint) {
        clock(device, type_, clock_out)
    }

    fn nvmlDeviceGetMaxClockInfo(
        device: nvmlDevice_t,
        type_: nvmlClockType_t,
        clock_out: *mut c_uint,
    ) {
        clock(device, type_, clock_out)
    }

    fn nvmlDeviceGetClock(
        device: nvmlDevice_t,
        clockType: nvmlClockType_t,
        clockId: nvmlClockId_t,
        clockMHz: *mut c_uint,
    ) {
        if clockId.0 >= nvmlClockId_t::NVML_CLOCK_ID_COUNT.0 {
            return Err(INVALID);
        }
        clock(device, clockType, clockMHz)
    }

    fn nvmlDeviceGetApplicationsClock(
        device: nvmlDevice_t,
        clockType: nvmlClockType_t,
        clockMHz: *mut c_uint,
    ) {
        clock(device, clockType, clockMHz)
    }

    fn nvmlDeviceGetDefaultApplicationsClock(
        device: nvmlDevice_t,
        clockType: nvmlClockType_t,
        clockMHz: *mut c_uint,
    ) {
        clock(device, clockType, clockMHz)
    }

    fn nvmlDeviceGetSupportedMemoryClocks(
        device: nvmlDevice_t,
        count: *mut c_uint,
        clocksMHz: *mut c_uint,
    ) {
        device::get(device)?.whole()?;
        list(count, clocksMHz, vec![memory_mhz()])
    }

    fn nvmlDeviceGetSupportedGraphicsClocks(
        device: nvmlDevice_t,
        memoryClockMHz: c_uint,
        count: *mut c_uint,
        clocksMHz: *mut c_uint,
    ) {
        device::get(device)?.whole()?;
        if memoryClockMHz != memory_mhz() {
            return Err(nvmlReturn_t::NVML_ERROR_NOT_FOUND);
        }
        list(count, clocksMHz, vec![GRAPHICS_MHZ])
    }

    /// Bit 0: idle; nothing ever throttles.
    fn nvmlDeviceGetCurrentClocksThrottleReasons(
        device: nvmlDevice_t,
        clocksThrottleReasons: *mut c_ulonglong,
    ) {
        let idle = utilization::rate(&device::get(device)?.whole()?) == 0;
        out(clocksThrottleReasons, c_ulonglong::from(idle))
    }

    fn nvmlDeviceGetCurrentClocksEventReasons(
        device: nvmlDevice_t,
        clocksEventReasons: *mut c_ulonglong,
    ) {
        let idle = utilization::rate(&device::get(device)?.whole()?) == 0;
        out(clocksEventReasons, c_ulonglong::from(idle))
    }

    fn nvmlDeviceGetSupportedClocksThrottleReasons(
        device: nvmlDevice_t,
        supportedClocksThrottleReasons: *mut c_ulonglong,
    ) {
        constant(device, supportedClocksThrottleReasons, 1)
    }

    fn nvmlDeviceGetViolationStatus(
        device: nvmlDevice_t,
        perfPolicyType: nvmlPerfPolicyType_t,
        violTime: *mut nvmlViolationTime_t,
    ) {
        if perfPolicyType.0 >= nvmlPerfPolicyType_t::NVML_PERF_POLICY_COUNT.0 {
            return Err(INVALID);
        }
        constant(device, violTime, nvmlViolationTime_t {
            referenceTime: now_ns() / 1000,
            violationTime: 0,
        })
    }

    fn nvmlDeviceGetPowerState(device: nvmlDevice_t, pState: *mut nvmlPstates_t) {
        constant(device, pState, nvmlPstates_t::NVML_PSTATE_0)
    }

    fn nvmlDeviceGetPerformanceState(device: nvmlDevice_t, pState: *mut nvmlPstates_t) {
        constant(device, pState, nvmlPstates_t::NVML_PSTATE_0)
    }
}
