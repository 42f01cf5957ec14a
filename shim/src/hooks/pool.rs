//! Stream-ordered memory, and the pools that it comes from: where they lie, and what they give back.

use core::ffi::{c_ulonglong, c_void};

use cuda_headers::driver::{
    CUdeviceptr, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemPoolProps,
    CUmemoryPool, CUresult, CUstream,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::pool::Default::{Legacy, PerThread};
use crate::memory::{deferred, pool};

hooks! { DRIVER as fns;
    /// A pool in host memory is not charged.
    fn cuMemPoolCreate(pool: *mut CUmemoryPool, poolProps: *const CUmemPoolProps) -> CUresult =
        |call| pool::create(pool, poolProps, &call);

    /// What it has handed out stays charged until it is freed.
    fn cuMemPoolDestroy(pool: CUmemoryPool) -> CUresult = |call| pool::destroy(pool, &call);

    fn cuMemPoolTrimTo(pool: CUmemoryPool, minBytesToKeep: usize) -> CUresult =
        |call| pool::trim(pool, &call);

    /// Its memory is another process's: see `cuMemPoolImportPointer`.
    fn cuMemPoolImportFromShareableHandle(
        pool_out: *mut CUmemoryPool,
        handle: *mut c_void,
        handleType: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) -> CUresult = |call| pool::import(pool_out, &call);

    /// The pool may be the host's.
    fn cuMemGetDefaultMemPool(
        pool_out: *mut CUmemoryPool,
        location: *mut CUmemLocation,
        type_: CUmemAllocationType,
    ) -> CUresult = |call| pool::name(pool_out, location, type_, &call);

    /// As `cuMemGetDefaultMemPool`.
    fn cuMemGetMemPool(
        pool: *mut CUmemoryPool,
        location: *mut CUmemLocation,
        type_: CUmemAllocationType,
    ) -> CUresult = |call| pool::name(pool, location, type_, &call);

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
