//! What a handle of NVML's stands for: one device, or, for a GPU in MIG mode, each of its instances. CUDA knows the
//! instances alone, and so do quotas.

use core::ffi::{CStr, c_char, c_uint};

use cuda_headers::nvml::{nvmlDevice_t, nvmlReturn_t};
use quota_abi::spelling;

use super::ask;

/// Longest UUID that NVML writes, with its terminator.
const UUID_LENGTH: usize = 96;
/// What NVML says where no instance is meant.
const NO_INSTANCE: c_uint = c_uint::MAX;

/// A device as CUDA knows it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) uuid: [u8; 16],
    /// Its GPU instance and compute instance, as process lists name them.
    pub(super) instance: (c_uint, c_uint),
}

/// Every part of a device, none if NVML does not know the handle.
pub(super) fn each(device: nvmlDevice_t, mut visit: impl FnMut(Part)) {
    let mut any = false;
    each_instance(device, |instance| {
        if let Some(part) = Part::of(instance) {
            any = true;
            visit(part);
        }
    });
    if !any && let Some(part) = Part::of(device) {
        visit(part);
    }
}

/// The handles of a GPU's instances; none where it is not in MIG mode.
pub(super) fn each_instance(device: nvmlDevice_t, mut visit: impl FnMut(nvmlDevice_t)) {
    let mut most: c_uint = 0;
    // SAFETY: the caller's own handle and a live out-pointer.
    let answer = unsafe { ask!(nvmlDeviceGetMaxMigDeviceCount(device, &raw mut most)) };
    if answer != nvmlReturn_t::NVML_SUCCESS {
        return;
    }
    for place in 0..most {
        let mut instance = nvmlDevice_t(core::ptr::null_mut());
        // SAFETY: as above. Places without an instance are not found.
        let answer = unsafe {
            ask!(nvmlDeviceGetMigDeviceHandleByIndex(
                device,
                place,
                &raw mut instance
            ))
        };
        if answer == nvmlReturn_t::NVML_SUCCESS {
            visit(instance);
        }
    }
}

impl Part {
    fn of(device: nvmlDevice_t) -> Option<Self> {
        let mut buffer = [0; UUID_LENGTH];
        let text = uuid_text(device, &mut buffer)?;
        let (mut gpu, mut compute) = (NO_INSTANCE, NO_INSTANCE);
        if text.starts_with("MIG-") {
            // SAFETY: the caller's own handle and live out-pointers, which stay as they are on an error.
            unsafe {
                ask!(nvmlDeviceGetGpuInstanceId(device, &raw mut gpu));
                ask!(nvmlDeviceGetComputeInstanceId(device, &raw mut compute));
            }
        }
        Some(Self {
            uuid: spelling::uuid(text).ok()?,
            instance: (gpu, compute),
        })
    }
}

/// A device's UUID with its `GPU-` or `MIG-`.
pub(super) fn uuid(device: nvmlDevice_t) -> Option<String> {
    let mut buffer = [0; UUID_LENGTH];
    uuid_text(device, &mut buffer).map(String::from)
}

fn uuid_text(device: nvmlDevice_t, buffer: &mut [c_char; UUID_LENGTH]) -> Option<&str> {
    let length = c_uint::try_from(UUID_LENGTH).ok()?;
    // SAFETY: the caller's own handle, a buffer and its length.
    let answer = unsafe { ask!(nvmlDeviceGetUUID(device, buffer.as_mut_ptr(), length)) };
    if answer != nvmlReturn_t::NVML_SUCCESS {
        return None;
    }
    // SAFETY: NVML has written a terminated string.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_str().ok()
}
