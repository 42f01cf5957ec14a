//! Where host or stream wait: no GPU time, but measured spans end here.

use core::ffi::{c_uint, c_void};

use cuda_headers::driver::{
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUcontext, CUdeviceptr, CUevent, CUexternalSemaphore,
    CUgreenCtx, CUhostFn, CUresult, CUstream, CUstreamBatchMemOpParams, CUstreamCallback,
    cuuint32_t, cuuint64_t,
};
use cuda_headers::fns;

use crate::guard::{Aside, outside};
use crate::hook::hooks;
use crate::memory::waited;
use crate::time::{self, Stream};

hooks! { DRIVER as fns, if time::limited() || waited::matters();
    /// What is open ends before the wait, and is settled after it.
    fn cuCtxSynchronize() -> CUresult = |call| waits(None, &call);

    /// As `cuCtxSynchronize`.
    fn cuCtxSynchronize_v2(ctx: CUcontext) -> CUresult = |call| waits(None, &call);

    /// As `cuCtxSynchronize`.
    fn cuEventSynchronize(hEvent: CUevent) -> CUresult = |call| waits(None, &call);

    /// As `cuCtxSynchronize`, for one stream.
    fn cuStreamSynchronize(hStream: CUstream) -> CUresult =
        |call| waits(Some(time::stream(hStream, false)), &call);

    /// As `cuStreamSynchronize`.
    fn cuStreamSynchronize_ptsz(hStream: CUstream) -> CUresult =
        |call| waits(Some(time::stream(hStream, true)), &call);

    /// Where the answer is that all has ended, that is settled.
    fn cuStreamQuery(hStream: CUstream) -> CUresult = |call| Ok(time::asked(call()));

    /// As `cuStreamQuery`.
    fn cuStreamQuery_ptsz(hStream: CUstream) -> CUresult = |call| Ok(time::asked(call()));

    /// As `cuStreamQuery`.
    fn cuEventQuery(hEvent: CUevent) -> CUresult = |call| Ok(time::asked(call()));

    /// The time that the stream waits is not work: what is open there ends before.
    fn cuStreamWaitEvent(hStream: CUstream, hEvent: CUevent, Flags: c_uint) -> CUresult =
        |call| time::ends(hStream, false, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamWaitEvent_ptsz(hStream: CUstream, hEvent: CUevent, Flags: c_uint) -> CUresult =
        |call| time::ends(hStream, true, &call);

    /// As `cuStreamWaitEvent`, for all streams of a context.
    fn cuCtxWaitEvent(hCtx: CUcontext, hEvent: CUevent) -> CUresult = |call| all_end(&call);

    /// As `cuCtxWaitEvent`.
    fn cuGreenCtxWaitEvent(hCtx: CUgreenCtx, hEvent: CUevent) -> CUresult = |call| all_end(&call);

    /// As `cuStreamWaitEvent`.
    fn cuWaitExternalSemaphoresAsync(
        extSemArray: *const CUexternalSemaphore,
        paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
        numExtSems: c_uint,
        stream: CUstream,
    ) -> CUresult = |call| time::ends(stream, false, &call);

    /// As `cuStreamWaitEvent`.
    fn cuWaitExternalSemaphoresAsync_ptsz(
        extSemArray: *const CUexternalSemaphore,
        paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
        numExtSems: c_uint,
        stream: CUstream,
    ) -> CUresult = |call| time::ends(stream, true, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamWaitValue32(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint32_t,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, false, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamWaitValue32_ptsz(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint32_t,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, true, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamWaitValue32_v2(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint32_t,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, false, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamWaitValue32_v2_ptsz(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint32_t,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, true, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamWaitValue64(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, false, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamWaitValue64_ptsz(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, true, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamWaitValue64_v2(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, false, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamWaitValue64_v2_ptsz(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, true, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamBatchMemOp(
        stream: CUstream,
        count: c_uint,
        paramArray: *mut CUstreamBatchMemOpParams,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, false, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamBatchMemOp_ptsz(
        stream: CUstream,
        count: c_uint,
        paramArray: *mut CUstreamBatchMemOpParams,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, true, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamBatchMemOp_v2(
        stream: CUstream,
        count: c_uint,
        paramArray: *mut CUstreamBatchMemOpParams,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, false, &call);

    /// As `cuStreamWaitEvent`.
    fn cuStreamBatchMemOp_v2_ptsz(
        stream: CUstream,
        count: c_uint,
        paramArray: *mut CUstreamBatchMemOpParams,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(stream, true, &call);

    /// A host function is not work of the GPU: what is open on the stream ends before.
    fn cuLaunchHostFunc(hStream: CUstream, fn_: CUhostFn, userData: *mut c_void) -> CUresult =
        |call| time::ends(hStream, false, &call);

    /// As `cuLaunchHostFunc`.
    fn cuLaunchHostFunc_ptsz(hStream: CUstream, fn_: CUhostFn, userData: *mut c_void) -> CUresult =
        |call| time::ends(hStream, true, &call);

    /// As `cuLaunchHostFunc`.
    fn cuLaunchHostFunc_v2(
        hStream: CUstream,
        fn_: CUhostFn,
        userData: *mut c_void,
        syncMode: c_uint,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuLaunchHostFunc`.
    fn cuLaunchHostFunc_v2_ptsz(
        hStream: CUstream,
        fn_: CUhostFn,
        userData: *mut c_void,
        syncMode: c_uint,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// As `cuLaunchHostFunc`.
    fn cuStreamAddCallback(
        hStream: CUstream,
        callback: CUstreamCallback,
        userData: *mut c_void,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuLaunchHostFunc`.
    fn cuStreamAddCallback_ptsz(
        hStream: CUstream,
        callback: CUstreamCallback,
        userData: *mut c_void,
        flags: c_uint,
    ) -> CUresult = |call| time::ends(hStream, true, &call);
}

/// The host waits for a stream, or for more: what pools hold in excess goes back meanwhile.
fn waits(on: Option<Stream>, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let call = || outside(call);
    waited::after(|| time::waiting(on, &call), &call)
}

/// What this thread has open on any stream ends here.
fn all_end(call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    time::interrupt_all();
    Ok(call())
}
