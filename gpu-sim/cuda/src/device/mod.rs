//! Devices as the application sees them. PLACEHOLDER of simtime's until simmem's arrives.

use std::sync::Arc;

use cuda_headers::driver::{CUdevice, CUresult};
use gpu_sim_core::Simulation;

/// Called by cuInit once: reads CUDA_VISIBLE_DEVICES; CUDA_ERROR_NO_DEVICE when none is visible.
pub(crate) fn initialise(_simulation: &Arc<Simulation>) -> Result<(), CUresult> {
    Ok(())
}

/// The simulation's index of a visible device; CUDA_ERROR_INVALID_DEVICE.
pub(crate) fn core_index(device: CUdevice) -> Result<usize, CUresult> {
    usize::try_from(device).map_err(|_| CUresult::CUDA_ERROR_INVALID_DEVICE)
}
