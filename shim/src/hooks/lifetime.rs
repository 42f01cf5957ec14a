//! Ends of what markers and costs belong to, each before the driver is told, and changes of the current context.

use cuda_headers::driver::{CUcontext, CUlibrary, CUmodule, CUresult, CUstream};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::pool;
use crate::time;

hooks! { DRIVER as fns, if time::limited() || pool::knows_streams();
    /// Markers on the stream go before it.
    fn cuStreamDestroy(hStream: CUstream) -> CUresult = |call| {
        time::stream_goes(hStream);
        pool::stream_goes(hStream);
        Ok(call())
    };

    /// As `cuStreamDestroy`.
    fn cuStreamDestroy_v2(hStream: CUstream) -> CUresult = |call| {
        time::stream_goes(hStream);
        pool::stream_goes(hStream);
        Ok(call())
    };

    /// Addresses of functions are used again: what their launches cost is forgotten.
    fn cuModuleUnload(hmod: CUmodule) -> CUresult = |call| {
        time::functions_go();
        Ok(call())
    };

    /// As `cuModuleUnload`.
    fn cuLibraryUnload(library: CUlibrary) -> CUresult = |call| {
        time::functions_go();
        Ok(call())
    };

    /// A thread keeps GPU time of one device at a time.
    fn cuCtxSetCurrent(ctx: CUcontext) -> CUresult = |call| time::entering(ctx, &call);

    /// As `cuCtxSetCurrent`.
    fn cuCtxPushCurrent(ctx: CUcontext) -> CUresult = |call| time::entering(ctx, &call);

    /// As `cuCtxSetCurrent`.
    fn cuCtxPushCurrent_v2(ctx: CUcontext) -> CUresult = |call| time::entering(ctx, &call);

    /// As `cuCtxSetCurrent`.
    fn cuCtxPopCurrent(pctx: *mut CUcontext) -> CUresult = |call| {
        let answer = call();
        time::context_changed();
        Ok(answer)
    };

    /// As `cuCtxSetCurrent`.
    fn cuCtxPopCurrent_v2(pctx: *mut CUcontext) -> CUresult = |call| {
        let answer = call();
        time::context_changed();
        Ok(answer)
    };
}
