//! Contexts.

use core::ffi::{c_int, c_uint};

use cuda_headers::driver::{
    CUcontext, CUctxCreateParams, CUdevice, CUexecAffinityParam, CUgreenCtx, CUresult,
};
use cuda_headers::fns;

use crate::context;
use crate::hook::hooks;

hooks! { DRIVER as fns;
    fn cuCtxCreate(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice) -> CUresult =
        |call| context::create(pctx, dev, &call);

    fn cuCtxCreate_v2(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice) -> CUresult =
        |call| context::create(pctx, dev, &call);

    fn cuCtxCreate_v3(
        pctx: *mut CUcontext,
        paramsArray: *mut CUexecAffinityParam,
        numParams: c_int,
        flags: c_uint,
        dev: CUdevice,
    ) -> CUresult = |call| context::create(pctx, dev, &call);

    fn cuCtxCreate_v4(
        pctx: *mut CUcontext,
        ctxCreateParams: *mut CUctxCreateParams,
        flags: c_uint,
        dev: CUdevice,
    ) -> CUresult = |call| context::create(pctx, dev, &call);

    fn cuCtxDestroy(ctx: CUcontext) -> CUresult = |call| context::destroy(ctx, &call);

    fn cuCtxDestroy_v2(ctx: CUcontext) -> CUresult = |call| context::destroy(ctx, &call);

    fn cuCtxDetach(ctx: CUcontext) -> CUresult = |call| context::destroy(ctx, &call);

    fn cuGreenCtxDestroy(hCtx: CUgreenCtx) -> CUresult =
        |call| context::destroy_green(hCtx, &call);

    fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) -> CUresult =
        |call| context::retain_primary(pctx, dev, &call);

    fn cuDevicePrimaryCtxRelease(dev: CUdevice) -> CUresult =
        |call| context::release_primary(dev, &call);

    fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) -> CUresult =
        |call| context::release_primary(dev, &call);

    fn cuDevicePrimaryCtxReset(dev: CUdevice) -> CUresult =
        |call| context::reset_primary(dev, &call);

    fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) -> CUresult =
        |call| context::reset_primary(dev, &call);
}
