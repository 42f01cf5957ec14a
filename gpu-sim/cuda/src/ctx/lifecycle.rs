//! Making and destroying contexts.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::Ordering;

use cuda_headers::driver::{CUcontext, CUctxCreateParams, CUdevice, CUexecAffinityParam, CUresult};

use super::{CONTEXTS, Context, allocate, bring_to_life, check_flags, end, from_handle};
use crate::entry::{answer, entry, out};
use crate::stream::synchronize_context;
use crate::{capture, device, state};

/// What null mode answers wherever a handle is asked for.
pub(crate) const NULL_MODE_HANDLE: usize = 0x1000;

/// Makes a context and pushes it on this thread's stack.
unsafe fn create(context: *mut CUcontext, flags: c_uint, dev: CUdevice) -> Result<(), CUresult> {
    if context.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    check_flags(flags)?;
    device::core_index(dev)?;
    capture::check_unsafe_call()?;
    let made = allocate(dev, flags, false)?;
    if let Err(error) = bring_to_life(made).and_then(|()| state::push(made)) {
        CONTEXTS.remove(made.handle.0 as usize);
        return Err(error);
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    unsafe { out(context, made.handle) }
}

/// Destroys a context that is not a device's primary one.
fn destroy(handle: CUcontext) -> Result<(), CUresult> {
    let context = from_handle(handle)?;
    if context.primary {
        return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
    capture::check_unsafe_call()?;
    destroy_now(context);
    Ok(())
}

/// Whether it waits for what runs is not documented. It does here, so that nobody comes to rely on the contrary; a kernel that
/// never ends is ended with the process, or with a reset.
fn destroy_now(context: &'static Context) {
    let _ = synchronize_context(context);
    end(context);
    CONTEXTS.remove(context.handle.0 as usize);
    if state::top().is_some_and(|top| top.id == context.id) {
        state::pop();
    }
}

unsafe fn null_context(context: *mut CUcontext) -> CUresult {
    // SAFETY: the caller vouches for the pointer.
    answer(unsafe { out(context, CUcontext(NULL_MODE_HANDLE as *mut _)) })
}

entry! {
    fn cuCtxCreate(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice), null { null_context(pctx) } {
        create(pctx, flags, dev)
    }

    fn cuCtxCreate_v2(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice),
    null { null_context(pctx) } {
        create(pctx, flags, dev)
    }

    /// With an execution affinity: a share of the multiprocessors, which needs MPS.
    fn cuCtxCreate_v3(
        pctx: *mut CUcontext,
        paramsArray: *mut CUexecAffinityParam,
        numParams: c_int,
        flags: c_uint,
        dev: CUdevice,
    ), null { null_context(pctx) } {
        if numParams < 0 || (paramsArray.is_null() != (numParams == 0)) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if numParams > 0 {
            return Err(CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        }
        create(pctx, flags, dev)
    }

    fn cuCtxCreate_v4(
        pctx: *mut CUcontext,
        ctxCreateParams: *mut CUctxCreateParams,
        flags: c_uint,
        dev: CUdevice,
    ), null { null_context(pctx) } {
        if let Some(params) = ctxCreateParams.as_ref() {
            if params.numExecAffinityParams > 0 {
                return Err(CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
            }
            if !params.cigParams.is_null() {
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
        }
        create(pctx, flags, dev)
    }

    fn cuCtxDestroy(ctx: CUcontext) {
        destroy(ctx)
    }

    fn cuCtxDestroy_v2(ctx: CUcontext) {
        destroy(ctx)
    }

    /// Deprecated: another user of the current context.
    fn cuCtxAttach(pctx: *mut CUcontext, flags: c_uint), null { null_context(pctx) } {
        let context = state::current()?;
        if flags != 0 || pctx.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        context.users.fetch_add(1, Ordering::AcqRel);
        out(pctx, context.handle)
    }

    /// Deprecated: a user less; the last one destroys.
    fn cuCtxDetach(ctx: CUcontext) {
        let context = from_handle(ctx)?;
        if context.primary || state::current()?.id != context.id {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        if context.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            destroy_now(context);
        }
        Ok(())
    }
}
