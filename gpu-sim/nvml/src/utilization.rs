//! Utilisation, sampled as the real one is: over windows of a sixth of a second, of which the last
//! complete ones can be asked for, and nothing in between.

use std::ffi::{c_uint, c_ulonglong};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use cuda_headers::nvml::{
    nvmlDevice_t, nvmlProcessUtilizationInfo_v1_t, nvmlProcessUtilizationSample_t,
    nvmlProcessesUtilizationInfo_t, nvmlReturn_t, nvmlSample_t, nvmlSamplingType_t,
    nvmlUtilization_t, nvmlValue_t, nvmlValueType_t,
};
use gpu_sim_core::{Simulation, WINDOW_NS, now_ns};

use crate::device::{self, Device};
use crate::entry::{INVALID, Outcome, entry, out};
use crate::memory::version;
use crate::processes::list;
use crate::{faults, session};

/// Complete windows that are remembered.
const KEPT: u64 = 60;
/// Utilisation rates cover this many windows: a second.
const RATES: u64 = 6;

fn percent(busy_ns: u64, windows: u64) -> c_uint {
    let percent = busy_ns.saturating_mul(100) / (WINDOW_NS * windows.max(1));
    c_uint::try_from(percent.min(100)).unwrap_or(100)
}

/// Index of the newest complete window.
fn newest() -> u64 {
    (now_ns() / WINDOW_NS).saturating_sub(1)
}

/// When a window ended, on NVML's clock: microseconds since 1970. The clocks are compared once, so
/// that a window always ends at the same time.
fn end_us(window: u64) -> u64 {
    static OFFSET_US: OnceLock<u64> = OnceLock::new();
    let offset = OFFSET_US.get_or_init(|| {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(wall.as_micros())
            .unwrap_or(0)
            .saturating_sub(now_ns() / 1000)
    });
    offset + (window + 1) * WINDOW_NS / 1000
}

/// How busy the device was over the last second of complete windows.
pub(crate) fn rate(device: &Device) -> c_uint {
    let Some(simulation) = session::simulation() else {
        return 0;
    };
    let parts = device.parts();
    let newest = newest();
    let busy = |part: &usize| -> u64 {
        let windows = newest.saturating_sub(RATES - 1)..=newest;
        windows
            .map(|window| simulation.busy_in_window(*part, None, window))
            .sum()
    };
    let all: u64 = parts.iter().map(busy).sum();
    percent(all / parts.len().max(1) as u64, RATES)
}

struct Sample {
    pid: u32,
    time: u64,
    busy: c_uint,
}

/// The newest sample of each process that was busy after `since` (microseconds).
fn per_process(simulation: &Simulation, device: &Device, since: u64) -> Vec<Sample> {
    let newest = newest();
    let mut found = Vec::new();
    for part in device.parts() {
        for process in simulation.processes(part) {
            let windows = (newest.saturating_sub(KEPT)..=newest).rev();
            let sample = windows
                .map(|window| (window, end_us(window)))
                .take_while(|(_, time)| *time > since)
                .find_map(|(window, time)| {
                    let busy = simulation.busy_in_window(part, Some(process.slot), window);
                    (busy > 0).then_some(Sample {
                        pid: process.pid,
                        time,
                        busy: percent(busy, 1).max(1),
                    })
                });
            found.extend(sample);
        }
    }
    found
}

/// Of a GPU that is not divided alone, as documented.
fn samples(device: nvmlDevice_t, since: u64) -> Result<Vec<Sample>, nvmlReturn_t> {
    let device = device::get(device)?.undivided()?;
    let simulation = session::simulation();
    let found = match simulation.filter(|_| !faults::asked("nvml-no-utilization")) {
        Some(simulation) => per_process(simulation, &device, since),
        None => Vec::new(),
    };
    if found.is_empty() {
        Err(nvmlReturn_t::NVML_ERROR_NOT_FOUND)
    } else {
        Ok(found)
    }
}

/// Encoder, decoder and the like: idle.
unsafe fn idle(device: nvmlDevice_t, value: *mut c_uint, period: *mut c_uint) -> Outcome {
    device::get(device)?;
    let period_us = c_uint::try_from(WINDOW_NS / 1000).unwrap_or(0);
    // SAFETY: the application's pointers.
    unsafe {
        out(value, 0)?;
        out(period, period_us)
    }
}

entry! {
    /// Not with MIG, as documented.
    fn nvmlDeviceGetUtilizationRates(device: nvmlDevice_t, utilization: *mut nvmlUtilization_t) {
        let device = device::get(device)?.undivided()?;
        let gpu = rate(&device);
        out(utilization, nvmlUtilization_t { gpu, memory: gpu / 2 })
    }

    /// One sample per process that was busy since, the newest; none at all is not found.
    fn nvmlDeviceGetProcessUtilization(
        device: nvmlDevice_t,
        utilization: *mut nvmlProcessUtilizationSample_t,
        processSamplesCount: *mut c_uint,
        lastSeenTimeStamp: c_ulonglong,
    ) {
        let found = samples(device, lastSeenTimeStamp)?;
        let sample = |s: Sample| nvmlProcessUtilizationSample_t {
            pid: s.pid,
            timeStamp: s.time,
            smUtil: s.busy,
            memUtil: s.busy / 2,
            encUtil: 0,
            decUtil: 0,
        };
        list(processSamplesCount, utilization, found.into_iter().map(sample).collect())
    }

    fn nvmlDeviceGetProcessesUtilizationInfo(
        device: nvmlDevice_t,
        procesesUtilInfo: *mut nvmlProcessesUtilizationInfo_t,
    ) {
        let asked = procesesUtilInfo.as_ref().ok_or(INVALID)?;
        if asked.version != version::<nvmlProcessesUtilizationInfo_t>(1) {
            return Err(nvmlReturn_t::NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
        }
        let found = samples(device, asked.lastSeenTimeStamp)?;
        let sample = |s: Sample| nvmlProcessUtilizationInfo_v1_t {
            timeStamp: s.time,
            pid: s.pid,
            smUtil: s.busy,
            memUtil: s.busy / 2,
            encUtil: 0,
            decUtil: 0,
            jpgUtil: 0,
            ofaUtil: 0,
        };
        let target = asked.procUtilArray;
        let count = &raw mut (*procesesUtilInfo).processSamplesCount;
        list(count, target, found.into_iter().map(sample).collect())
    }

    /// GPU utilisation, one sample per window; other kinds of sample are not taken.
    fn nvmlDeviceGetSamples(
        device: nvmlDevice_t,
        type_: nvmlSamplingType_t,
        lastSeenTimeStamp: c_ulonglong,
        sampleValType: *mut nvmlValueType_t,
        sampleCount: *mut c_uint,
        samples: *mut nvmlSample_t,
    ) {
        let device = device::get(device)?.undivided()?;
        if type_ != nvmlSamplingType_t::NVML_GPU_UTILIZATION_SAMPLES {
            return Err(nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED);
        }
        out(sampleValType, nvmlValueType_t::NVML_VALUE_TYPE_UNSIGNED_INT)?;
        let newest = newest();
        let busy = |window: u64| -> u64 {
            let Some(simulation) = session::simulation() else { return 0 };
            let parts = device.parts();
            let sum: u64 = parts.iter().map(|p| simulation.busy_in_window(*p, None, window)).sum();
            sum / parts.len().max(1) as u64
        };
        let found: Vec<nvmlSample_t> = (newest.saturating_sub(KEPT)..=newest)
            .map(|window| (end_us(window), window))
            .filter(|(time, _)| *time > lastSeenTimeStamp)
            .map(|(time, window)| nvmlSample_t {
                timeStamp: time,
                sampleValue: nvmlValue_t { uiVal: percent(busy(window), 1) },
            })
            .collect();
        // Asking for the number alone is no error here.
        if samples.is_null() {
            return out(sampleCount, c_uint::try_from(found.len()).unwrap_or(0));
        }
        if found.is_empty() {
            return Err(nvmlReturn_t::NVML_ERROR_NOT_FOUND);
        }
        list(sampleCount, samples, found)
    }

    fn nvmlDeviceGetEncoderUtilization(
        device: nvmlDevice_t,
        utilization: *mut c_uint,
        samplingPeriodUs: *mut c_uint,
    ) {
        idle(device, utilization, samplingPeriodUs)
    }

    fn nvmlDeviceGetDecoderUtilization(
        device: nvmlDevice_t,
        utilization: *mut c_uint,
        samplingPeriodUs: *mut c_uint,
    ) {
        idle(device, utilization, samplingPeriodUs)
    }

    fn nvmlDeviceGetJpgUtilization(
        device: nvmlDevice_t,
        utilization: *mut c_uint,
        samplingPeriodUs: *mut c_uint,
    ) {
        idle(device, utilization, samplingPeriodUs)
    }

    fn nvmlDeviceGetOfaUtilization(
        device: nvmlDevice_t,
        utilization: *mut c_uint,
        samplingPeriodUs: *mut c_uint,
    ) {
        idle(device, utilization, samplingPeriodUs)
    }
}
