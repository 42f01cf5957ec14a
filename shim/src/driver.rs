//! The driver's functions that we call ourselves, past our own hooks.

#![expect(non_upper_case_globals, reason = "the driver's identifiers")]

use cuda_headers::driver::{CUresult, CUstreamCaptureMode};
use cuda_headers::fns;

use crate::inside;

crate::hook::uses! { DRIVER as fns;
    cuArray3DCreate_v2
    cuArrayGetMemoryRequirements
    cuCtxGetCurrent
    cuCtxGetDevice
    cuCtxGetLimit
    cuCtxSetLimit
    cuCtxPopCurrent_v2
    cuCtxPushCurrent_v2
    cuDeviceGet
    cuDeviceGetAttribute
    cuDeviceGetCount
    cuDeviceGetUuid
    cuDeviceGetUuid_v2
    cuDeviceGetDefaultMemPool
    cuDeviceGetGraphMemAttribute
    cuDeviceGetMemPool
    cuDeviceGraphMemTrim
    cuDevicePrimaryCtxGetState
    cuCtxFromGreenCtx
    cuEventCreate
    cuEventDestroy_v2
    cuEventElapsedTime
    cuEventQuery
    cuEventRecord
    cuEventRecord_ptsz
    cuGraphChildGraphNodeGetGraph
    cuGraphExecDestroy
    cuGraphGetNodes
    cuGraphMemAllocNodeGetParams
    cuGraphNodeGetType
    cuGraphUpload
    cuGraphUpload_ptsz
    cuIpcCloseMemHandle
    cuMemFree_v2
    cuMemFreeAsync
    cuMemFreeAsync_ptsz
    cuMemGetAddressRange_v2
    cuMemGetAllocationPropertiesFromHandle
    cuMemPoolGetAttribute
    cuMemPoolTrimTo
    cuMipmappedArrayCreate
    cuMipmappedArrayGetMemoryRequirements
    cuPointerGetAttribute
    cuStreamGetCtx
    cuStreamIsCapturing
    cuStreamIsCapturing_ptsz
    cuStreamQuery
    cuStreamQuery_ptsz
    cuThreadExchangeStreamCaptureMode
}

/// `call!(cuCtxGetDevice(&mut device))`: calls the driver; `CUDA_ERROR_NOT_FOUND` if it lacks the function.
///
/// Expands to a call of an `unsafe` function: the caller owes what the driver asks of the arguments.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match $crate::driver::real::$name.get() {
            Some(real) => real($($argument),*),
            None => ::cuda_headers::driver::CUresult::CUDA_ERROR_NOT_FOUND,
        }
    };
}
pub(crate) use call;

/// Runs our own driver calls so that they cannot break a capture that another thread has begun in global mode.
///
/// Not needed for what only reads the calling thread's state (`cuCtxGetCurrent`, `cuCtxGetDevice`): no capture forbids it.
pub(crate) fn relaxed<R>(calls: impl FnOnce() -> R) -> R {
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: a live out-pointer.
    let exchanged = unsafe { call!(cuThreadExchangeStreamCaptureMode(&raw mut mode)) };
    if exchanged != CUresult::CUDA_SUCCESS {
        return calls();
    }
    let outer = inside::with(|own| own.capture_mode.replace(mode.0 + 1));
    let answer = calls();
    inside::with(|own| own.capture_mode.set(outer));
    // SAFETY: a live pointer to the mode that the thread had.
    unsafe { call!(cuThreadExchangeStreamCaptureMode(&raw mut mode)) };
    answer
}

/// Gives a thread that has left [`relaxed`] by `longjmp` its own mode again.
pub(crate) fn put_back_capture_mode() {
    if let kept @ 1.. = inside::with(|own| own.capture_mode.take()) {
        let mut mode = CUstreamCaptureMode(kept - 1);
        // SAFETY: a live pointer to the mode that the thread had.
        unsafe { call!(cuThreadExchangeStreamCaptureMode(&raw mut mode)) };
    }
}
