//! Process lists. All of the simulator's processes compute; none draws, unless that is asked for.

use std::ffi::c_uint;

use cuda_headers::nvml::{
    nvmlDevice_t, nvmlProcessDetail_v1_t, nvmlProcessDetailList_t, nvmlProcessInfo_t,
    nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t, nvmlReturn_t,
};

use crate::device::{self, Device};
use crate::entry::{INVALID, NOT_SUPPORTED, Outcome, entry, out};
use crate::memory::version;
use crate::{faults, mig, session};

/// What is said where no instance is meant.
const NO_INSTANCE: c_uint = c_uint::MAX;

struct Process {
    pid: c_uint,
    used: u64,
    instance: c_uint,
}

/// Processes with a context on the device.
fn running(device: &Device) -> Result<Vec<Process>, nvmlReturn_t> {
    if faults::asked("nvml-processes-unsupported") {
        return Err(NOT_SUPPORTED);
    }
    let (Some(simulation), false) = (session::simulation(), faults::asked("nvml-no-processes"))
    else {
        return Ok(Vec::new());
    };
    let all = device::all();
    let mut found = Vec::new();
    for part in device.parts() {
        let instance = all.get(part).filter(|info| info.parent.is_some());
        let instance = instance.map_or(NO_INSTANCE, |info| mig::instance_id(info, &all));
        found.extend(
            simulation
                .processes(part)
                .into_iter()
                .filter(|p| p.contexts > 0)
                .map(|p| Process {
                    pid: p.pid,
                    used: p.usage.used,
                    instance,
                }),
        );
    }
    Ok(found)
}

/// The protocol of two calls: how many there are, then all of them.
///
/// # Safety
/// `count` is NULL or valid; `target` is NULL or valid for `*count` elements.
pub(crate) unsafe fn list<T>(count: *mut c_uint, target: *mut T, items: Vec<T>) -> Outcome {
    if count.is_null() {
        return Err(INVALID);
    }
    // SAFETY: not NULL, so valid, says the caller.
    let room = unsafe { count.read() } as usize;
    let there = c_uint::try_from(items.len()).unwrap_or(c_uint::MAX);
    // SAFETY: as above.
    unsafe { count.write(there) };
    if items.is_empty() {
        return Ok(());
    }
    if room < items.len() {
        return Err(nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE);
    }
    if target.is_null() {
        return Err(INVALID);
    }
    for (index, item) in items.into_iter().enumerate() {
        // SAFETY: there is room for all of them.
        unsafe { target.add(index).write(item) };
    }
    Ok(())
}

fn first(processes: Vec<Process>) -> Vec<nvmlProcessInfo_v1_t> {
    let old = |p: Process| nvmlProcessInfo_v1_t {
        pid: p.pid,
        usedGpuMemory: p.used,
    };
    processes.into_iter().map(old).collect()
}

fn second(processes: Vec<Process>) -> Vec<nvmlProcessInfo_v2_t> {
    let new = |p: Process| nvmlProcessInfo_v2_t {
        pid: p.pid,
        usedGpuMemory: p.used,
        gpuInstanceId: p.instance,
        computeInstanceId: if p.instance == NO_INSTANCE {
            NO_INSTANCE
        } else {
            0
        },
    };
    processes.into_iter().map(new).collect()
}

/// Graphics and MPS lists exist, and are empty; or all processes are in them as well, as of programs that draw and compute.
fn others(device: nvmlDevice_t) -> Result<Vec<Process>, nvmlReturn_t> {
    let found = running(&device::get(device)?)?;
    if faults::asked("nvml-all-lists") {
        Ok(found)
    } else {
        Ok(Vec::new())
    }
}

/// The pids that accounting would remember.
pub(crate) fn pids(device: &Device) -> Result<Vec<c_uint>, nvmlReturn_t> {
    Ok(running(device)?.iter().map(|process| process.pid).collect())
}

entry! {
    fn nvmlDeviceGetComputeRunningProcesses(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v1_t,
    ) {
        list(infoCount, infos, first(running(&device::get(device)?)?))
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v2_t,
    ) {
        list(infoCount, infos, second(running(&device::get(device)?)?))
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_t,
    ) {
        list(infoCount, infos, second(running(&device::get(device)?)?))
    }

    fn nvmlDeviceGetGraphicsRunningProcesses(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v1_t,
    ) {
        list(infoCount, infos, first(others(device)?))
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v2_t,
    ) {
        list(infoCount, infos, second(others(device)?))
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_t,
    ) {
        list(infoCount, infos, second(others(device)?))
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v1_t,
    ) {
        list(infoCount, infos, first(others(device)?))
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_v2_t,
    ) {
        list(infoCount, infos, second(others(device)?))
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        device: nvmlDevice_t,
        infoCount: *mut c_uint,
        infos: *mut nvmlProcessInfo_t,
    ) {
        list(infoCount, infos, second(others(device)?))
    }

    /// Mode 0 is computing, 1 and 2 are graphics and MPS, 3 all of them.
    fn nvmlDeviceGetRunningProcessDetailList(
        device: nvmlDevice_t,
        plist: *mut nvmlProcessDetailList_t,
    ) {
        let asked = plist.as_ref().ok_or(INVALID)?;
        if asked.version != version::<nvmlProcessDetailList_t>(1) {
            return Err(nvmlReturn_t::NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
        }
        let found = match asked.mode {
            0 | 3 => running(&device::get(device)?)?,
            1 | 2 => others(device)?,
            _ => return Err(INVALID),
        };
        let detail = |p: Process| nvmlProcessDetail_v1_t {
            pid: p.pid,
            usedGpuMemory: p.used,
            gpuInstanceId: p.instance,
            computeInstanceId: if p.instance == NO_INSTANCE { NO_INSTANCE } else { 0 },
            usedGpuCcProtectedMemory: 0,
        };
        let details: Vec<nvmlProcessDetail_v1_t> = found.into_iter().map(detail).collect();
        let target = asked.procArray;
        list(&raw mut (*plist).numProcArrayEntries, target, details)
    }

    fn nvmlDeviceGetSupportedEventTypes(
        device: nvmlDevice_t,
        eventTypes: *mut std::ffi::c_ulonglong,
    ) {
        device::get(device)?;
        out(eventTypes, 0)
    }
}
