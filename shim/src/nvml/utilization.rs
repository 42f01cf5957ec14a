//! Utilisation: the group's own work, relative to what its quota allows (`GPU_QUOTA_UTILIZATION=device`: NVML's figures as
//! they are).
//!
//! NVML tells the whole device's utilisation, and that of each process that it can name to this one. The group's is the
//! sum over its processes. Where the group has processes on the device and NVML names none of them (an older driver, in a
//! pid namespace of the container's own), nobody can tell, and the device's figure stands.

use core::ffi::{c_uint, c_ulonglong};

use cuda_headers::nvml::{
    nvmlDevice_t, nvmlProcessInfo_v1_t, nvmlProcessUtilizationInfo_v1_t,
    nvmlProcessUtilizationSample_t, nvmlProcessesUtilizationInfo_t, nvmlReturn_t,
    nvmlUtilization_t,
};
use quota_abi::settings::Utilization;
use quota_abi::spelling::{Ppm, WHOLE};

use super::ask;
use super::pages::List;
use super::processes::{Record, keep_own};
use super::viewer::Viewer;
use crate::guard::Aside;

/// Samples of the last second count, in microseconds.
const RECENT: u64 = 1_000_000;

/// A sample of one process.
pub(crate) trait Sample: Record {
    /// How busy it kept the multiprocessors and the memory, in percent.
    fn busy(&mut self) -> [&mut c_uint; 2];
}

/// `nvmlDeviceGetUtilizationRates`.
pub(crate) fn rates(
    device: nvmlDevice_t,
    rates: *mut nvmlUtilization_t,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if rates.is_null() {
        return Err(Aside::DriverDecides);
    }
    let viewer = Viewer::get()?;
    if viewer.utilization() == Utilization::Device {
        return Err(Aside::NotLimited);
    }
    let answer = call();
    if answer != nvmlReturn_t::NVML_SUCCESS {
        return Ok(answer);
    }
    if let Some([gpu, memory]) = own(viewer, device) {
        let share = viewer.share(device).and_then(|share| share.compute);
        // SAFETY: NVML has just written it for its caller.
        let rates = unsafe { &mut *rates };
        rates.gpu = relative(gpu.min(rates.gpu), share);
        rates.memory = relative(memory.min(rates.memory), share);
    }
    Ok(answer)
}

/// `nvmlDeviceGetProcessUtilization`: the group's own processes.
pub(crate) fn processes<S: Sample>(
    device: nvmlDevice_t,
    samples: *mut S,
    count: *mut c_uint,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if count.is_null() || samples.is_null() {
        return Err(Aside::DriverDecides);
    }
    let viewer = Viewer::get()?;
    let answer = call();
    if answer != nvmlReturn_t::NVML_SUCCESS {
        return Ok(answer);
    }
    // SAFETY: NVML has just filled so many samples of the caller's.
    let own = unsafe {
        keep_own(viewer.members(device).as_ref(), count, samples);
        count.read() as usize
    };
    if own == 0 {
        return Ok(nvmlReturn_t::NVML_ERROR_NOT_FOUND);
    }
    if viewer.utilization() == Utilization::Quota {
        let share = viewer.share(device).and_then(|share| share.compute);
        for place in 0..own {
            // SAFETY: as above.
            for busy in unsafe { &mut *samples.add(place) }.busy() {
                *busy = relative(*busy, share);
            }
        }
    }
    Ok(answer)
}

/// `nvmlDeviceGetProcessesUtilizationInfo`: the same in one record.
pub(crate) fn processes_info(
    device: nvmlDevice_t,
    info: *mut nvmlProcessesUtilizationInfo_t,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if info.is_null() {
        return Err(Aside::DriverDecides);
    }
    // SAFETY: not NULL, so the caller's own record.
    let (samples, count) = unsafe { ((*info).procUtilArray, &raw mut (*info).processSamplesCount) };
    processes(device, samples, count, call)
}

/// Percent of the device as percent of a share of it. A limit is kept over seconds, so a moment may be above it.
fn relative(percent: c_uint, share: Option<Ppm>) -> c_uint {
    let share = u64::from(share.unwrap_or(WHOLE)).clamp(1, u64::from(WHOLE));
    let relative = (u64::from(percent) * u64::from(WHOLE)).div_ceil(share);
    c_uint::try_from(relative.min(100)).unwrap_or(100)
}

/// What the group's processes did on the device, in percent of it; `None` if nobody can tell.
fn own(viewer: &Viewer, device: nvmlDevice_t) -> Option<[c_uint; 2]> {
    let members = viewer.members(device);
    let Some(members) = members.filter(|members| members.holding().next().is_some()) else {
        return Some([0, 0]);
    };
    let samples = List::read(|count, samples: *mut nvmlProcessUtilizationSample_t| {
        let since = since();
        // SAFETY: the caller's own handle, our own buffer and its length.
        unsafe {
            ask!(nvmlDeviceGetProcessUtilization(
                device, samples, count, since
            ))
        }
    });
    let is_own = |pid: c_uint| members.held(pid).is_some();
    let mut sum: Option<[c_uint; 2]> = None;
    for sample in samples.iter().flat_map(|samples| samples.iter()) {
        if is_own(sample.pid) {
            let [gpu, memory] = sum.unwrap_or([0, 0]);
            sum = Some([
                gpu.saturating_add(sample.smUtil),
                memory.saturating_add(sample.memUtil),
            ]);
        }
    }
    if sum.is_some() {
        return sum;
    }
    let named = List::read(|count, infos: *mut nvmlProcessInfo_v1_t| {
        // SAFETY: as above.
        unsafe { ask!(nvmlDeviceGetComputeRunningProcesses(device, count, infos)) }
    });
    // Named but without a sample is idle.
    let idle = named?.iter().any(|info| is_own(info.pid));
    idle.then_some([0, 0])
}

/// The beginning of the last second, on NVML's clock.
fn since() -> c_ulonglong {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    let micros = now.tv_sec.saturating_mul(1_000_000) + now.tv_nsec / 1000;
    u64::try_from(micros).unwrap_or(0).saturating_sub(RECENT)
}

macro_rules! samples {
    ($($sample:ty)*) => { $(
        impl Record for $sample {
            fn pid(&self) -> u32 {
                self.pid
            }

            fn show(&mut self, _held: u64) {}
        }

        impl Sample for $sample {
            fn busy(&mut self) -> [&mut c_uint; 2] {
                [&mut self.smUtil, &mut self.memUtil]
            }
        }
    )* };
}
samples! { nvmlProcessUtilizationSample_t nvmlProcessUtilizationInfo_v1_t }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_quota_is_a_hundred_percent() {
        assert_eq!(relative(30, Some(300_000)), 100);
        assert_eq!(relative(15, Some(300_000)), 50);
        assert_eq!(relative(1, Some(300_000)), 4);
        assert_eq!(relative(45, Some(300_000)), 100);
        assert_eq!(relative(45, None), 45);
        assert_eq!(relative(0, Some(1)), 0);
        assert_eq!(relative(c_uint::MAX, Some(0)), 100);
    }
}
