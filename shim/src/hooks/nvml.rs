//! What NVML tells of a device's memory.

use cuda_headers::nvml::{fns, nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlReturn_t};

use crate::hook::hooks;
use crate::nvml_view;

hooks! { NVML as fns;
    fn nvmlDeviceGetMemoryInfo(device: nvmlDevice_t, memory: *mut nvmlMemory_t) -> nvmlReturn_t =
        |call| nvml_view::memory(device, memory, &call);

    fn nvmlDeviceGetMemoryInfo_v2(
        device: nvmlDevice_t,
        memory: *mut nvmlMemory_v2_t,
    ) -> nvmlReturn_t = |call| nvml_view::memory(device, memory, &call);
}
