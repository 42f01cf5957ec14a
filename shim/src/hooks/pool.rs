//! Memory pools: where their memory lies, and what they give back.

use core::ffi::{c_ulonglong, c_void};

use cuda_headers::driver::{
    CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemPoolProps, CUmemoryPool,
    CUresult,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::pool;

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
}
