//! Making and destroying streams, and what can be asked about them.

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::atomic::Ordering;

use cuda_headers::driver::{CUcontext, CUdevice, CUgreenCtx, CUresult, CUstream, CUstream_flags};

use super::{STREAMS, Stream, make, resolve};
use crate::ctx::PRIORITIES;
use crate::engine::{self, Kind};
use crate::entry::{answer, entry, out, out_optional};
use crate::{capture, state};

/// What null mode answers wherever a stream is asked for.
const NULL_MODE_STREAM: usize = 0x2000;

unsafe fn create(stream: *mut CUstream, flags: c_uint, priority: c_int) -> Result<(), CUresult> {
    let context = state::current()?;
    let non_blocking = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
    if stream.is_null() || flags & !non_blocking != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let kind = if flags == 0 {
        Kind::Blocking
    } else {
        Kind::NonBlocking
    };
    // Priorities outside the range are brought into it, as documented.
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    let made = make(context, CUstream::NULL, flags, kind, priority)?;
    let (handle, _) = STREAMS.insert_with(|handle| Stream {
        handle: CUstream(handle as *mut _),
        ..made
    });
    // SAFETY: not NULL, and the caller vouches for the rest.
    unsafe { out(stream, CUstream(handle as *mut _)) }
}

fn destroy(handle: CUstream) -> Result<(), CUresult> {
    let stream = STREAMS
        .get(handle.0 as usize)
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    stream.context.check_alive()?;
    capture::on_stream_destroy(&stream);
    if STREAMS.remove(handle.0 as usize).is_some() {
        stream.alive.store(false, Ordering::Release);
        engine::destroy_stream(stream.key);
    }
    Ok(())
}

unsafe fn null_stream(stream: *mut CUstream) -> CUresult {
    // SAFETY: the caller vouches for the pointer.
    answer(unsafe { out(stream, CUstream(NULL_MODE_STREAM as *mut _)) })
}

entry! {
    fn cuStreamCreate(phStream: *mut CUstream, Flags: c_uint), null { null_stream(phStream) } {
        create(phStream, Flags, 0)
    }

    fn cuStreamCreateWithPriority(phStream: *mut CUstream, flags: c_uint, priority: c_int),
    null { null_stream(phStream) } {
        create(phStream, flags, priority)
    }

    /// Work that the stream has left is still done.
    fn cuStreamDestroy(hStream: CUstream) {
        destroy(hStream)
    }

    fn cuStreamDestroy_v2(hStream: CUstream) {
        destroy(hStream)
    }

    fn cuStreamGetPriority(hStream: CUstream, priority: *mut c_int) => cuStreamGetPriority_ptsz,
    null { answer(out(priority, 0)) } {
        out(priority, resolve(hStream, PER_THREAD)?.priority)
    }

    fn cuStreamGetFlags(hStream: CUstream, flags: *mut c_uint) => cuStreamGetFlags_ptsz,
    null { answer(out(flags, 0)) } {
        out(flags, resolve(hStream, PER_THREAD)?.flags)
    }

    fn cuStreamGetId(hStream: CUstream, streamId: *mut c_ulonglong) => cuStreamGetId_ptsz,
    null { answer(out(streamId, 1)) } {
        out(streamId, resolve(hStream, PER_THREAD)?.id)
    }

    fn cuStreamGetDevice(hStream: CUstream, device: *mut CUdevice) => cuStreamGetDevice_ptsz,
    null { answer(out(device, 0)) } {
        out(device, resolve(hStream, PER_THREAD)?.context.device)
    }

    fn cuStreamGetCtx(hStream: CUstream, pctx: *mut CUcontext) => cuStreamGetCtx_ptsz,
    null { answer(out(pctx, CUcontext(0x1000 as *mut _))) } {
        out(pctx, resolve(hStream, PER_THREAD)?.context.handle)
    }

    /// There are no green contexts here.
    fn cuStreamGetCtx_v2(
        hStream: CUstream,
        pCtx: *mut CUcontext,
        pGreenCtx: *mut CUgreenCtx,
    ) => cuStreamGetCtx_v2_ptsz, null {
        out_optional(pGreenCtx, CUgreenCtx::NULL);
        answer(out(pCtx, CUcontext(0x1000 as *mut _)))
    } {
        let stream = resolve(hStream, PER_THREAD)?;
        out_optional(pGreenCtx, CUgreenCtx::NULL);
        out(pCtx, stream.context.handle)
    }

    fn cuStreamGetGreenCtx(hStream: CUstream, phCtx: *mut CUgreenCtx) {
        resolve(hStream, false)?;
        out(phCtx, CUgreenCtx::NULL)
    }
}
