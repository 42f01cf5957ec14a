//! What belongs to no device.

use std::ffi::{c_char, c_int, c_uint};

use cuda_headers::nvml::nvmlReturn_t;
use gpu_sim_core::driver_release;

use crate::entry::{INVALID, Outcome, early, entry, out};
use crate::{session, text};

/// NVML's own version begins with its API version, then names the driver.
const API: &str = "13";

fn cuda_version() -> i32 {
    let config = session::simulation().map(|simulation| simulation.config().driver);
    config.unwrap_or_else(|| gpu_sim_core::Config::from_env().map_or(0, |config| config.driver))
}

/// The command line's first word, as NVML shows it.
fn process_name(pid: c_uint) -> Result<String, nvmlReturn_t> {
    let path = format!("/proc/{pid}/cmdline");
    let line = std::fs::read(path).map_err(|_| nvmlReturn_t::NVML_ERROR_NOT_FOUND)?;
    let word = line.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(word).into_owned())
}

unsafe fn cuda(version: *mut c_int) -> Outcome {
    // SAFETY: the application's pointer.
    unsafe { out(version, cuda_version()) }
}

entry! {
    fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) {
        text::copy(version, length, &driver_release(cuda_version()))
    }

    fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) {
        text::copy(version, length, &format!("{API}.{}", driver_release(cuda_version())))
    }

    /// Too small a buffer gets what fits, here.
    fn nvmlSystemGetProcessName(pid: c_uint, name: *mut c_char, length: c_uint) {
        if name.is_null() || length == 0 {
            return Err(INVALID);
        }
        let mut known = process_name(pid)?;
        while known.len() >= length as usize {
            known.pop();
        }
        text::copy(name, length, &known)
    }

    fn nvmlUnitGetCount(unitCount: *mut c_uint) {
        out(unitCount, 0)
    }

    fn nvmlGetExcludedDeviceCount(deviceCount: *mut c_uint) {
        out(deviceCount, 0)
    }

    fn nvmlGetBlacklistDeviceCount(deviceCount: *mut c_uint) {
        out(deviceCount, 0)
    }
}

early! {
    fn nvmlSystemGetCudaDriverVersion(cudaDriverVersion: *mut c_int) {
        cuda(cudaDriverVersion)
    }

    fn nvmlSystemGetCudaDriverVersion_v2(cudaDriverVersion: *mut c_int) {
        cuda(cudaDriverVersion)
    }
}
