//! NVML's functions that we call ourselves, past our own hooks.

#![expect(non_upper_case_globals, reason = "NVML's identifiers")]

use cuda_headers::nvml::fns;

crate::hook::uses! { NVML as fns;
    nvmlDeviceGetUUID
    nvmlDeviceGetIndex
}
