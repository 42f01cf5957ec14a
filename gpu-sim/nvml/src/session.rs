//! The session: counted by `nvmlInit` and `nvmlShutdown`.

use std::ffi::{c_char, c_uint};
use std::sync::{Mutex, OnceLock, PoisonError};

use cuda_headers::nvml::nvmlReturn_t;
use gpu_sim_core::Simulation;

use crate::entry::{INVALID, Outcome, early};
use crate::{faults, since};

/// How often `nvmlInit` was called more than `nvmlShutdown`, and by which process.
static COUNT: Mutex<(u32, u32)> = Mutex::new((0, 0));
/// Kept after the last `nvmlShutdown`: a mapping costs nothing.
static SIMULATION: OnceLock<Option<Simulation>> = OnceLock::new();

/// `NO_GPUS`, `NO_ATTACH`.
const KNOWN_FLAGS: c_uint = 0x3;

fn start() -> Outcome {
    let config = gpu_sim_core::Config::from_env().map_err(|error| {
        eprintln!("{error}");
        INVALID
    })?;
    let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    if *count == (0, count.1) {
        faults::set(&config.faults);
        since::set(config.driver);
    }
    faults::at_init()?;
    let null = std::env::var("GPU_SIM_MODE").is_ok_and(|mode| mode == "null");
    if !null && SIMULATION.get().is_none() {
        let simulation = Simulation::open(config).map_err(|error| {
            eprintln!("{error}");
            nvmlReturn_t::NVML_ERROR_DRIVER_NOT_LOADED
        })?;
        // Another thread may have been faster: then its mapping serves.
        let _ = SIMULATION.set(Some(simulation));
    }
    *count = (count.0 + 1, std::process::id());
    Ok(())
}

/// Whether a session is open.
pub(crate) fn check() -> Outcome {
    match COUNT.lock().unwrap_or_else(PoisonError::into_inner).0 {
        0 => Err(nvmlReturn_t::NVML_ERROR_UNINITIALIZED),
        _ => Ok(()),
    }
}

/// The simulation; none in null mode.
pub(crate) fn simulation() -> Option<&'static Simulation> {
    SIMULATION.get().and_then(Option::as_ref)
}

early! {
    fn nvmlInit_v2() {
        start()
    }

    fn nvmlInit() {
        start()
    }

    fn nvmlInitWithFlags(flags: c_uint) {
        if flags & !KNOWN_FLAGS != 0 { Err(INVALID) } else { start() }
    }

    fn nvmlShutdown() {
        let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
        if count.0 == 0 {
            return Err(nvmlReturn_t::NVML_ERROR_UNINITIALIZED);
        }
        count.0 -= 1;
        Ok(())
    }
}

/// A description of a code; never NULL.
///
/// # Safety
/// None: any number may be asked for.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "exported to C")]
pub unsafe extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    let text = match result {
        nvmlReturn_t::NVML_SUCCESS => c"Success",
        nvmlReturn_t::NVML_ERROR_UNINITIALIZED => c"Uninitialized",
        nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT => c"Invalid Argument",
        nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED => c"Not Supported",
        nvmlReturn_t::NVML_ERROR_NO_PERMISSION => c"Insufficient Permissions",
        nvmlReturn_t::NVML_ERROR_ALREADY_INITIALIZED => c"Already Initialized",
        nvmlReturn_t::NVML_ERROR_NOT_FOUND => c"Not Found",
        nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE => c"Insufficient Size",
        nvmlReturn_t::NVML_ERROR_INSUFFICIENT_POWER => c"Insufficient External Power",
        nvmlReturn_t::NVML_ERROR_DRIVER_NOT_LOADED => c"Driver Not Loaded",
        nvmlReturn_t::NVML_ERROR_TIMEOUT => c"Timeout",
        nvmlReturn_t::NVML_ERROR_LIBRARY_NOT_FOUND => c"NVML Shared Library Not Found",
        nvmlReturn_t::NVML_ERROR_FUNCTION_NOT_FOUND => c"Function Not Found",
        nvmlReturn_t::NVML_ERROR_GPU_IS_LOST => c"GPU is lost",
        nvmlReturn_t::NVML_ERROR_LIB_RM_VERSION_MISMATCH => c"Driver/library version mismatch",
        nvmlReturn_t::NVML_ERROR_IN_USE => c"In use by another client",
        nvmlReturn_t::NVML_ERROR_MEMORY => c"Insufficient Memory",
        nvmlReturn_t::NVML_ERROR_NO_DATA => c"No data",
        nvmlReturn_t::NVML_ERROR_ARGUMENT_VERSION_MISMATCH => c"Argument version mismatch",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}
const _: cuda_headers::nvml::fns::nvmlErrorString = nvmlErrorString;
