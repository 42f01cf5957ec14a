//! Linear, pitched and managed memory. That of streams is in [`super::pool`].

use core::ffi::c_uint;

use cuda_headers::driver::{CUdeviceptr, CUdeviceptr_v1, CUresult};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::linear;

hooks! { DRIVER as fns, hot;
    fn cuMemAlloc(dptr: *mut CUdeviceptr_v1, bytesize: c_uint) -> CUresult =
        |call| linear::allocate(dptr, bytesize, &call);

    fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize) -> CUresult =
        |call| linear::allocate(dptr, bytesize, &call);

    fn cuMemAllocPitch(
        dptr: *mut CUdeviceptr_v1,
        pPitch: *mut c_uint,
        WidthInBytes: c_uint,
        Height: c_uint,
        ElementSizeBytes: c_uint,
    ) -> CUresult = |call| linear::allocate_pitch(dptr, pPitch, WidthInBytes, Height, &call);

    fn cuMemAllocPitch_v2(
        dptr: *mut CUdeviceptr,
        pPitch: *mut usize,
        WidthInBytes: usize,
        Height: usize,
        ElementSizeBytes: c_uint,
    ) -> CUresult = |call| linear::allocate_pitch(dptr, pPitch, WidthInBytes, Height, &call);

    /// Charged in full, whatever is resident.
    fn cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint) -> CUresult =
        |call| linear::allocate(dptr, bytesize, &call);

    fn cuMemFree(dptr: CUdeviceptr_v1) -> CUresult = |call| linear::free(dptr.into(), &call);

    fn cuMemFree_v2(dptr: CUdeviceptr) -> CUresult = |call| linear::free(dptr, &call);
}
