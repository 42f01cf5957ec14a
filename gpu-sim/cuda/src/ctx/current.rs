//! Which context is current to a thread.

use std::ffi::{c_uint, c_ulonglong};
use std::sync::atomic::Ordering;

use cuda_headers::driver::{CUcontext, CUdevice, CUresult};

use super::lifecycle::NULL_MODE_HANDLE;
use super::{Context, check_flags, from_handle, from_handle_or_current};
use crate::entry::{answer, entry, input, out, out_optional};
use crate::state;

unsafe fn null_context(context: *mut CUcontext) -> CUresult {
    // SAFETY: the caller vouches for the pointer.
    answer(unsafe { out(context, CUcontext(NULL_MODE_HANDLE as *mut _)) })
}

fn pop(context: *mut CUcontext) -> Result<(), CUresult> {
    let popped = state::pop().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    // SAFETY: NULL or valid, as the driver API asks; NULL means that nobody wants to know.
    unsafe { out_optional(context, popped.handle) };
    Ok(())
}

fn device_of(device: *mut CUdevice, context: &Context) -> Result<(), CUresult> {
    // SAFETY: NULL or valid, as the driver API asks.
    unsafe { out(device, context.device) }
}

entry! {
    fn cuCtxPushCurrent(ctx: CUcontext) {
        state::push(from_handle(ctx)?)
    }

    fn cuCtxPushCurrent_v2(ctx: CUcontext) {
        state::push(from_handle(ctx)?)
    }

    fn cuCtxPopCurrent(pctx: *mut CUcontext), null { null_context(pctx) } {
        pop(pctx)
    }

    fn cuCtxPopCurrent_v2(pctx: *mut CUcontext), null { null_context(pctx) } {
        pop(pctx)
    }

    /// NULL takes the current context off the stack.
    fn cuCtxSetCurrent(ctx: CUcontext) {
        if ctx.is_null() {
            return state::set_current(None);
        }
        state::set_current(Some(from_handle(ctx)?))
    }

    /// NULL where there is none; that is no error.
    fn cuCtxGetCurrent(pctx: *mut CUcontext), null { null_context(pctx) } {
        out(pctx, state::top().map_or(CUcontext::NULL, |context| context.handle))
    }

    fn cuCtxGetDevice(device: *mut CUdevice), null { answer(out(device, 0)) } {
        device_of(device, state::current()?)
    }

    fn cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext), null { answer(out(device, 0)) } {
        device_of(device, from_handle_or_current(ctx)?)
    }

    fn cuCtxGetFlags(flags: *mut c_uint), null { answer(out(flags, 0)) } {
        out(flags, state::current()?.flags.load(Ordering::Relaxed))
    }

    fn cuCtxSetFlags(flags: c_uint) {
        check_flags(flags)?;
        state::current()?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetId(ctx: CUcontext, ctxId: *mut c_ulonglong), null { answer(out(ctxId, 1)) } {
        out(ctxId, from_handle_or_current(ctx)?.id)
    }

    fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut c_uint), null { answer(out(version, 3020)) } {
        input(version.cast_const())?;
        out(version, from_handle_or_current(ctx)?.api_version)
    }
}
