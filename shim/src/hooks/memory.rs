//! Linear, pitched, managed and stream-ordered memory.

use core::ffi::c_uint;

use cuda_headers::driver::{CUdeviceptr, CUdeviceptr_v1, CUmemoryPool, CUresult, CUstream};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::pool::Default::{Legacy, PerThread};
use crate::memory::{deferred, linear, pool};

hooks! { DRIVER as fns;
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

    fn cuMemAllocAsync(dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream) -> CUresult =
        |call| pool::allocate(dptr, bytesize, None, (hStream, Legacy), &call);

    fn cuMemAllocAsync_ptsz(
        dptr: *mut CUdeviceptr,
        bytesize: usize,
        hStream: CUstream,
    ) -> CUresult = |call| pool::allocate(dptr, bytesize, None, (hStream, PerThread), &call);

    fn cuMemAllocFromPoolAsync(
        dptr: *mut CUdeviceptr,
        bytesize: usize,
        pool: CUmemoryPool,
        hStream: CUstream,
    ) -> CUresult = |call| pool::allocate(dptr, bytesize, Some(pool), (hStream, Legacy), &call);

    fn cuMemAllocFromPoolAsync_ptsz(
        dptr: *mut CUdeviceptr,
        bytesize: usize,
        pool: CUmemoryPool,
        hStream: CUstream,
    ) -> CUresult = |call| pool::allocate(dptr, bytesize, Some(pool), (hStream, PerThread), &call);

    /// Plain memory stays charged until the stream gets there.
    fn cuMemFreeAsync(dptr: CUdeviceptr, hStream: CUstream) -> CUresult =
        |call| deferred::free(dptr, (hStream, Legacy), &call);

    /// As `cuMemFreeAsync`.
    fn cuMemFreeAsync_ptsz(dptr: CUdeviceptr, hStream: CUstream) -> CUresult =
        |call| deferred::free(dptr, (hStream, PerThread), &call);
}
