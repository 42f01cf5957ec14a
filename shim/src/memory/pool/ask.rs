//! What the driver is asked about streams and pools. The callers have seen to it that no capture is in the way.

use core::ffi::c_int;

use cuda_headers::driver::{
    CUcontext, CUdeviceptr, CUmemLocationType, CUmemPool_attribute, CUmemoryPool, CUresult,
    CUstream, CUstreamCaptureStatus,
};

use super::super::number_of;
use super::charge::Place;
use super::{Default, PER_THREAD_STREAM};
use crate::context;
use crate::device::Device;
use crate::driver::call;
use crate::guard::Aside;
use crate::process::Process;

/// Whether a stream is being captured. One that may not be asked now is not: the driver will refuse the call itself.
pub(in crate::memory) fn is_capturing((stream, default): (CUstream, Default)) -> bool {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a live out-pointer and the caller's own stream.
    let answer = unsafe {
        match default {
            Default::Legacy => call!(cuStreamIsCapturing(stream, &raw mut status)),
            Default::PerThread => call!(cuStreamIsCapturing_ptsz(stream, &raw mut status)),
        }
    };
    answer == CUresult::CUDA_SUCCESS
        && status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}

/// The device that a stream belongs to: not the current context's, of which there may be none, unless it is a default stream.
pub(super) fn device_of(
    process: &'static Process,
    stream: CUstream,
) -> Result<&'static Device, Aside> {
    let mut handle = CUcontext(core::ptr::null_mut());
    if stream.0.addr() > PER_THREAD_STREAM
        // SAFETY: a live out-pointer and the caller's own stream.
        && unsafe { call!(cuStreamGetCtx(stream, &raw mut handle)) } == CUresult::CUDA_SUCCESS
        && let Some(device) = context::device_of(process, handle)
    {
        return Ok(device);
    }
    Ok(context::current(process)?.device)
}

/// # Safety
/// `address` is the caller's to free, `stream` alive.
pub(super) unsafe fn free_again(address: CUdeviceptr, (stream, default): (CUstream, Default)) {
    // SAFETY: the caller's promise.
    let _ = unsafe {
        match default {
            Default::Legacy => call!(cuMemFreeAsync(address, stream)),
            Default::PerThread => call!(cuMemFreeAsync_ptsz(address, stream)),
        }
    };
}

pub(super) fn trim(pool: CUmemoryPool) {
    // SAFETY: the handle of a pool that has not been destroyed.
    let _ = unsafe { call!(cuMemPoolTrimTo(pool, 0)) };
}

/// The pool that a device's plain stream-ordered allocations come from.
pub(super) fn current_pool(device: &Device) -> Option<CUmemoryPool> {
    let mut pool = CUmemoryPool(core::ptr::null_mut());
    // SAFETY: a live out-pointer.
    let answer = unsafe { call!(cuDeviceGetMemPool(&raw mut pool, device.handle())) };
    (answer == CUresult::CUDA_SUCCESS && !pool.0.is_null()).then_some(pool)
}

/// A device's own pool.
pub(super) fn default_pool(device: &Device) -> Option<CUmemoryPool> {
    let mut pool = CUmemoryPool(core::ptr::null_mut());
    // SAFETY: a live out-pointer.
    let answer = unsafe { call!(cuDeviceGetDefaultMemPool(&raw mut pool, device.handle())) };
    (answer == CUresult::CUDA_SUCCESS && !pool.0.is_null()).then_some(pool)
}

/// Where a pool's memory lies that nobody saw being made. A driver that does not know the question (before CUDA 13.1) has
/// pools on devices alone, and an unknown one is taken for the current device's.
pub(super) fn place(process: &Process, pool: CUmemoryPool, current: &Device) -> Place {
    let ask = |attribute| {
        let mut value: c_int = 0;
        // SAFETY: a pool's handle and room for the attribute, which is an int.
        let answer = unsafe {
            call!(cuMemPoolGetAttribute(
                pool,
                attribute,
                (&raw mut value).cast()
            ))
        };
        (answer == CUresult::CUDA_SUCCESS).then_some(value)
    };
    let kind = ask(CUmemPool_attribute::CU_MEMPOOL_ATTR_LOCATION_TYPE);
    let kind = kind.and_then(|kind| u32::try_from(kind).ok());
    let id = ask(CUmemPool_attribute::CU_MEMPOOL_ATTR_LOCATION_ID);
    match (kind.map(CUmemLocationType), id) {
        (Some(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE), Some(id)) => {
            let device = process.devices.get(id).unwrap_or(current);
            Place::Device(number_of(device))
        }
        (Some(kind), _) if is_host(kind) => Place::Host,
        _ => Place::Device(number_of(current)),
    }
}

/// Whether a location is the host's memory.
pub(super) fn is_host(kind: CUmemLocationType) -> bool {
    matches!(
        kind,
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST
            | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA
            | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
    )
}

/// Bytes that the driver holds for a pool.
pub(super) fn reserved(pool: CUmemoryPool) -> Option<u64> {
    let mut bytes = 0_u64;
    let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    // SAFETY: a pool's handle and room for the attribute, which is 64 bits wide.
    let answer = unsafe {
        call!(cuMemPoolGetAttribute(
            pool,
            attribute,
            (&raw mut bytes).cast()
        ))
    };
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
