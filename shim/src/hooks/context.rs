//! Contexts.

use core::ffi::{c_int, c_uint};

use cuda_headers::driver::{
    CUcontext, CUctxCreateParams, CUdevResourceDesc, CUdevice, CUexecAffinityParam, CUgreenCtx,
    CUlimit, CUresult, VdpDevice, VdpGetProcAddress,
};
use cuda_headers::fns;

use crate::context::{self, limits, primary};
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

    fn cuGLCtxCreate(pCtx: *mut CUcontext, Flags: c_uint, device: CUdevice) -> CUresult =
        |call| context::create(pCtx, device, &call);

    fn cuGLCtxCreate_v2(pCtx: *mut CUcontext, Flags: c_uint, device: CUdevice) -> CUresult =
        |call| context::create(pCtx, device, &call);

    fn cuVDPAUCtxCreate(
        pCtx: *mut CUcontext,
        flags: c_uint,
        device: CUdevice,
        vdpDevice: VdpDevice,
        vdpGetProcAddress: VdpGetProcAddress,
    ) -> CUresult = |call| context::create(pCtx, device, &call);

    fn cuVDPAUCtxCreate_v2(
        pCtx: *mut CUcontext,
        flags: c_uint,
        device: CUdevice,
        vdpDevice: VdpDevice,
        vdpGetProcAddress: VdpGetProcAddress,
    ) -> CUresult = |call| context::create(pCtx, device, &call);

    /// One more user of the current context.
    fn cuCtxAttach(pctx: *mut CUcontext, flags: c_uint) -> CUresult =
        |call| context::attach(&call);

    /// Limits of device code are memory of the context.
    fn cuCtxSetLimit(limit: CUlimit, value: usize) -> CUresult =
        |call| limits::set(limit, value, &call);

    fn cuCtxDestroy(ctx: CUcontext) -> CUresult = |call| context::destroy(ctx, &call);

    fn cuCtxDestroy_v2(ctx: CUcontext) -> CUresult = |call| context::destroy(ctx, &call);

    fn cuCtxDetach(ctx: CUcontext) -> CUresult = |call| context::detach(ctx, &call);

    fn cuGreenCtxCreate(
        phCtx: *mut CUgreenCtx,
        desc: CUdevResourceDesc,
        dev: CUdevice,
        flags: c_uint,
    ) -> CUresult = |call| primary::create_green(phCtx, dev, &call);

    /// Another handle of the primary context, as far as memory goes.
    fn cuCtxFromGreenCtx(pContext: *mut CUcontext, hCtx: CUgreenCtx) -> CUresult =
        |call| primary::from_green(pContext, hCtx, &call);

    fn cuGreenCtxDestroy(hCtx: CUgreenCtx) -> CUresult =
        |call| primary::destroy_green(hCtx, &call);

    fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) -> CUresult =
        |call| primary::retain(pctx, dev, &call);

    fn cuDevicePrimaryCtxRelease(dev: CUdevice) -> CUresult =
        |call| primary::release(dev, &call);

    fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) -> CUresult =
        |call| primary::release(dev, &call);

    fn cuDevicePrimaryCtxReset(dev: CUdevice) -> CUresult =
        |call| primary::reset(dev, &call);

    fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) -> CUresult =
        |call| primary::reset(dev, &call);
}
