//! What the driver tells of a device's memory.

use core::ffi::c_uint;

use cuda_headers::driver::{CUdevice, CUresult};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::view;

hooks! { DRIVER as fns, hot;
    fn cuMemGetInfo(free: *mut c_uint, total: *mut c_uint) -> CUresult =
        |call| view::info(free, total, &call);

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult =
        |call| view::info(free, total, &call);

    fn cuDeviceTotalMem(bytes: *mut c_uint, dev: CUdevice) -> CUresult =
        |call| view::total(bytes, dev, &call);

    fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice) -> CUresult =
        |call| view::total(bytes, dev, &call);
}
