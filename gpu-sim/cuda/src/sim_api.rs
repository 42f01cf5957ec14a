//! The simulator's own functions, for tests: what the device really holds, and which calls reached
//! the driver. Their names cannot be confused with the driver's.

use std::ffi::{CStr, c_char, c_int};
use std::sync::{Arc, OnceLock};

use gpu_sim_core::Simulation;

use crate::{entry, state, symbols, vmm};

/// The simulation that the environment names, whether or not this process has called `cuInit`.
fn simulation() -> Option<Arc<Simulation>> {
    static OWN: OnceLock<Option<Arc<Simulation>>> = OnceLock::new();
    if let Ok(shared) = state::simulation() {
        return Some(Arc::clone(shared));
    }
    let open = || match Simulation::from_env() {
        Ok(simulation) => Some(Arc::new(simulation)),
        Err(error) => {
            eprintln!("{error}");
            None
        }
    };
    OWN.get_or_init(open).clone()
}

/// Writes the account of the simulation as JSON, as much of it as fits, always terminated.
/// Answers how many bytes all of it needs, or -1 where there is no simulation (null mode included).
///
/// # Safety
/// `json` is NULL or valid for `capacity` bytes.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "exported to C")]
pub unsafe extern "C" fn gpuSimSnapshot(json: *mut c_char, capacity: usize) -> c_int {
    if entry::null_mode() {
        return -1;
    }
    let Some(simulation) = simulation() else {
        return -1;
    };
    vmm::collect();
    let text = simulation.snapshot().to_json();
    if !json.is_null() && capacity > 0 {
        let kept = text.len().min(capacity - 1);
        // SAFETY: kept + 1 <= capacity bytes, which the caller vouches for.
        unsafe {
            json.cast::<u8>()
                .copy_from_nonoverlapping(text.as_ptr(), kept);
            json.add(kept).write(0);
        }
    }
    c_int::try_from(text.len() + 1).unwrap_or(c_int::MAX)
}

/// How often the entry point `symbol` was called in this process; `UINT64_MAX` for a name that is
/// not exported.
///
/// # Safety
/// `symbol` is NULL or a C string.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "exported to C")]
pub unsafe extern "C" fn gpuSimCalls(symbol: *const c_char) -> u64 {
    if symbol.is_null() {
        return u64::MAX;
    }
    // SAFETY: not NULL, so a C string, says the caller.
    let name = unsafe { CStr::from_ptr(symbol) };
    name.to_str()
        .ok()
        .and_then(symbols::calls)
        .unwrap_or(u64::MAX)
}

/// Zeroes peaks and busy times of the whole simulation. Answers 0, or -1 where there is none.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "exported to C")]
pub extern "C" fn gpuSimReset() -> c_int {
    match simulation() {
        Some(simulation) if !entry::null_mode() => {
            simulation.reset_account();
            0
        }
        _ => -1,
    }
}
