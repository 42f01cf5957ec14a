//! What the driver is asked about streams and pools.

use cuda_headers::driver::{
    CUdeviceptr, CUmemPool_attribute, CUmemoryPool, CUresult, CUstream, CUstreamCaptureStatus,
};

use super::Default;
use crate::device::Device;
use crate::driver::{call, relaxed};

/// Whether a stream is being captured. One that may not be asked now is not: the driver will refuse the call itself.
pub(super) fn is_capturing((stream, default): (CUstream, Default)) -> bool {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a live out-pointer and the caller's own stream.
    let answer = relaxed(|| unsafe {
        match default {
            Default::Legacy => call!(cuStreamIsCapturing(stream, &raw mut status)),
            Default::PerThread => call!(cuStreamIsCapturing_ptsz(stream, &raw mut status)),
        }
    });
    answer == CUresult::CUDA_SUCCESS
        && status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}

/// # Safety
/// `address` is the caller's to free, `stream` alive.
pub(super) unsafe fn free_again(address: CUdeviceptr, (stream, default): (CUstream, Default)) {
    // SAFETY: the caller's promise.
    let _ = relaxed(|| unsafe {
        match default {
            Default::Legacy => call!(cuMemFreeAsync(address, stream)),
            Default::PerThread => call!(cuMemFreeAsync_ptsz(address, stream)),
        }
    });
}

pub(super) fn trim(pool: CUmemoryPool) {
    // SAFETY: the handle of a pool that has not been destroyed.
    let _ = relaxed(|| unsafe { call!(cuMemPoolTrimTo(pool, 0)) });
}

pub(super) fn current_pool(device: &Device) -> Option<CUmemoryPool> {
    let mut pool = CUmemoryPool(core::ptr::null_mut());
    // SAFETY: a live out-pointer.
    let answer = relaxed(|| unsafe { call!(cuDeviceGetMemPool(&raw mut pool, device.handle())) });
    (answer == CUresult::CUDA_SUCCESS && !pool.0.is_null()).then_some(pool)
}

pub(super) fn default_pool(device: &Device) -> Option<CUmemoryPool> {
    let mut pool = CUmemoryPool(core::ptr::null_mut());
    // SAFETY: a live out-pointer.
    let answer =
        relaxed(|| unsafe { call!(cuDeviceGetDefaultMemPool(&raw mut pool, device.handle())) });
    (answer == CUresult::CUDA_SUCCESS && !pool.0.is_null()).then_some(pool)
}

/// Bytes that the driver holds for a pool.
pub(super) fn reserved(pool: CUmemoryPool) -> Option<u64> {
    if pool.0.addr() <= usize::from(u16::MAX) + 1 {
        // The name of a pool that the driver did not tell.
        return None;
    }
    let mut bytes = 0_u64;
    let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    // SAFETY: a pool's handle and room for the attribute, which is 64 bits wide.
    let answer = relaxed(|| unsafe {
        call!(cuMemPoolGetAttribute(
            pool,
            attribute,
            (&raw mut bytes).cast()
        ))
    });
    (answer == CUresult::CUDA_SUCCESS).then_some(bytes)
}

pub(super) fn key(pool: CUmemoryPool) -> u64 {
    u64::try_from(pool.0.expose_provenance()).unwrap_or(0)
}

pub(super) fn handle(key: u64) -> CUmemoryPool {
    CUmemoryPool(core::ptr::with_exposed_provenance_mut(
        usize::try_from(key).unwrap_or(0),
    ))
}
