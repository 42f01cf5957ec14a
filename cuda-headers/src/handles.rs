//! Handles and devices that name no object: the header's casts, which no generator translates.

use core::ptr;

use crate::driver::{CUdevice, CUstream};

/// The default stream that waits for the context's other streams and is waited for; 0 stands for it in plain entry points.
pub const CU_STREAM_LEGACY: CUstream = CUstream(ptr::without_provenance_mut(0x1));

/// The calling thread's default stream; 0 stands for it in the `_ptsz` and `_ptds` entry points.
pub const CU_STREAM_PER_THREAD: CUstream = CUstream(ptr::without_provenance_mut(0x2));

/// The host as a place for managed memory.
pub const CU_DEVICE_CPU: CUdevice = -1;

/// No device.
pub const CU_DEVICE_INVALID: CUdevice = -2;
