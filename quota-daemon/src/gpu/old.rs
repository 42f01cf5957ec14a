//! Memory as drivers before 510 tell it: they lack the second version of the query, which is the only one that the NVML crate
//! knows. Their *used* includes what the driver reserves for itself.

use std::ffi::{c_int, c_void};

use nvml_wrapper::Device;

/// `nvmlMemory_t` as NVIDIA documents it.
#[repr(C)]
#[derive(Default)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

type GetMemoryInfo = unsafe extern "C" fn(*mut c_void, *mut Memory) -> c_int;

/// Bytes of memory and bytes used; `None` where this fails as well.
pub(super) fn memory(device: &Device<'_>) -> Option<(u64, u64)> {
    // SAFETY: NUL-terminated names. The library is loaded, since there is a device: this finds the same one again, and the
    // reference that it adds is never given back, so that the function stays where it is.
    let found = unsafe {
        let library = libc::dlopen(
            c"libnvidia-ml.so.1".as_ptr(),
            libc::RTLD_LAZY | libc::RTLD_NOLOAD,
        );
        if library.is_null() {
            return None;
        }
        libc::dlsym(library, c"nvmlDeviceGetMemoryInfo".as_ptr())
    };
    if found.is_null() {
        return None;
    }
    // SAFETY: the function of this name has this signature in every version of NVML.
    let get = unsafe { std::mem::transmute::<*mut c_void, GetMemoryInfo>(found) };
    let mut memory = Memory::default();
    // SAFETY: a handle of the session that the device borrows, and room for the answer.
    let code = unsafe { get(device.handle().cast(), &raw mut memory) };
    (code == 0).then_some((memory.total, memory.used))
}
