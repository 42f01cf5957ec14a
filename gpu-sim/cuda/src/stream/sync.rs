//! Waiting for streams, and host functions in them.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use cuda_headers::driver::{
    CUcontext, CUdeviceptr, CUhostFn, CUresult, CUstream, CUstreamCallback,
};

use super::{Stream, legacy_stream, of_context, resolve, resolve_here};
use crate::ctx::{self, Context};
use crate::engine::{self, Kind, Work};
use crate::entry::entry;
use crate::ops::{self, Op};
use crate::{capture, state};

/// Waits for all work of a context.
pub(crate) fn synchronize_context(context: &'static Context) -> Result<(), CUresult> {
    for key in engine::streams_of(context.id) {
        // A stream that goes away meanwhile has nothing left.
        if let Ok(mark) = engine::mark(key) {
            engine::synchronize(&mark);
        }
    }
    crate::pool::on_synchronize();
    // What has run may have broken the context.
    context.check_alive()
}

fn synchronize_unless_capturing(context: &'static Context) -> Result<(), CUresult> {
    for stream in of_context(context) {
        capture::refuse_capturing(&stream)?;
    }
    capture::check_unsafe_call()?;
    synchronize_context(context)
}

/// A wait for the legacy stream is one for the streams that it is ordered with too.
fn synchronize(stream: &Arc<Stream>) -> Result<(), CUresult> {
    capture::refuse_capturing(stream)?;
    capture::check_legacy(stream)?;
    capture::check_unsafe_call()?;
    let mark = engine::mark(stream.key)?;
    engine::synchronize(&mark);
    crate::pool::on_synchronize();
    stream.context.check_alive()
}

/// A callback gets the stream's handle as the application passed it.
struct Callback {
    function: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
    stream: CUstream,
    context: &'static Context,
    data: *mut c_void,
}

// SAFETY: the application promises that its callback can run on the driver's thread.
unsafe impl Send for Callback {}

impl Callback {
    fn call(self) {
        let status = self.context.check_alive().err();
        let status = status.unwrap_or(CUresult::CUDA_SUCCESS);
        // SAFETY: the application's own function with its own argument.
        unsafe { (self.function)(self.stream, status, self.data) };
    }
}

unsafe fn launch_host_function(
    stream: CUstream,
    per_thread: bool,
    function: CUhostFn,
    data: *mut c_void,
) -> Result<(), CUresult> {
    let stream = resolve_here(stream, per_thread)?;
    let function = function.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    ops::submit(&stream, Op::Host(ops::HostCall { function, data }))
}

entry! {
    fn cuStreamQuery(hStream: CUstream) => cuStreamQuery_ptsz {
        let stream = resolve(hStream, PER_THREAD)?;
        capture::refuse_capturing(&stream)?;
        capture::check_legacy(&stream)?;
        capture::check_unsafe_call()?;
        if engine::is_idle(stream.key)? {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_NOT_READY)
        }
    }

    fn cuStreamSynchronize(hStream: CUstream) => cuStreamSynchronize_ptsz {
        synchronize(&resolve(hStream, PER_THREAD)?)
    }

    fn cuCtxSynchronize() {
        synchronize_unless_capturing(state::current()?)
    }

    fn cuCtxSynchronize_v2(ctx: CUcontext) {
        synchronize_unless_capturing(ctx::from_handle_or_current(ctx)?)
    }

    fn cuLaunchHostFunc(hStream: CUstream, fn_: CUhostFn, userData: *mut c_void)
    => cuLaunchHostFunc_ptsz {
        launch_host_function(hStream, PER_THREAD, fn_, userData)
    }

    /// How the host thread waits (the sync mode) makes no difference here.
    fn cuLaunchHostFunc_v2(
        hStream: CUstream,
        fn_: CUhostFn,
        userData: *mut c_void,
        syncMode: c_uint,
    ) => cuLaunchHostFunc_v2_ptsz {
        if syncMode > 1 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        launch_host_function(hStream, PER_THREAD, fn_, userData)
    }

    /// Callbacks cannot be captured.
    fn cuStreamAddCallback(
        hStream: CUstream,
        callback: CUstreamCallback,
        userData: *mut c_void,
        flags: c_uint,
    ) => cuStreamAddCallback_ptsz {
        let stream = resolve(hStream, PER_THREAD)?;
        let function = callback.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        capture::refuse_capturing(&stream)?;
        capture::check_legacy(&stream)?;
        let callback = Callback {
            function,
            stream: hStream,
            context: stream.context,
            data: userData,
        };
        engine::enqueue(stream.key, Work::Host(Box::new(move || callback.call())))
    }

    /// Managed memory is visible everywhere here; only the arguments are looked at.
    fn cuStreamAttachMemAsync(
        hStream: CUstream,
        dptr: CUdeviceptr,
        length: usize,
        flags: c_uint,
    ) => cuStreamAttachMemAsync_ptsz {
        let stream = resolve(hStream, PER_THREAD)?;
        capture::refuse_capturing(&stream)?;
        let single = flags == 4;
        if dptr == 0 || !matches!(flags, 1 | 2 | 4) || (single && stream.kind == Kind::Legacy) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let _ = length;
        Ok(())
    }
}

/// Waits for a stream of the application's choosing, as a synchronous copy does.
pub(crate) fn wait_for(stream: &Stream) -> Result<(), CUresult> {
    let mark = engine::mark(stream.key)?;
    engine::synchronize(&mark);
    stream.context.check_alive()
}

/// The stream on which calls without a stream argument work.
pub(crate) fn default_here(per_thread: bool) -> Result<Arc<Stream>, CUresult> {
    if per_thread {
        resolve(CUstream::NULL, true)
    } else {
        legacy_stream(state::current()?)
    }
}
