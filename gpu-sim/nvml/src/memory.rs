//! Memory of devices.

use cuda_headers::nvml::{
    nvmlBAR1Memory_t, nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlReturn_t,
};

use gpu_sim_core::MEMORY_BUS_BITS;

use crate::device::{self, Device};
use crate::entry::{INVALID, entry, out};
use crate::session;

const BAR1: u64 = 256 << 20;

/// (total, used): a GPU in MIG mode counts what its instances hold.
fn memory(device: &Device) -> (u64, u64) {
    let Some(simulation) = session::simulation() else {
        return (device.info.total, 0);
    };
    let used = device
        .parts()
        .into_iter()
        .map(|part| simulation.memory(part).1.used)
        .sum();
    (device.info.total, used)
}

/// What NVML asks of the version word of a struct.
pub(crate) fn version<T>(number: u32) -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(0) | number << 24
}

entry! {
    fn nvmlDeviceGetMemoryInfo(device: nvmlDevice_t, memory_out: *mut nvmlMemory_t) {
        let (total, used) = memory(&device::get(device)?);
        out(memory_out, nvmlMemory_t { total, free: total.saturating_sub(used), used })
    }

    /// Nothing is reserved by the system here, so that used and free make up the total.
    fn nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, memory_out: *mut nvmlMemory_v2_t) {
        let (total, used) = memory(&device::get(device)?);
        let asked = memory_out.as_ref().ok_or(INVALID)?.version;
        if asked != version::<nvmlMemory_v2_t>(2) {
            return Err(nvmlReturn_t::NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
        }
        out(memory_out, nvmlMemory_v2_t {
            version: asked,
            total,
            reserved: 0,
            free: total.saturating_sub(used),
            used,
        })
    }

    fn nvmlDeviceGetBAR1MemoryInfo(device: nvmlDevice_t, bar1Memory: *mut nvmlBAR1Memory_t) {
        device::get(device)?;
        let used = 2 << 20;
        out(bar1Memory, nvmlBAR1Memory_t {
            bar1Total: BAR1,
            bar1Free: BAR1 - used,
            bar1Used: used,
        })
    }

    fn nvmlDeviceGetMemoryBusWidth(device: nvmlDevice_t, busWidth: *mut std::ffi::c_uint) {
        device::get(device)?;
        out(busWidth, MEMORY_BUS_BITS)
    }
}
