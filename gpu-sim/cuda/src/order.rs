//! What memory has to know of streams and captures, in one place.

use cuda_headers::driver::{CUdeviceptr, CUresult, CUstream};

use crate::ctx::Context;

/// Refuses what is unsafe while a capture in global mode runs.
pub(crate) fn unsafe_call() -> Result<(), CUresult> {
    Ok(())
}

/// Waits for all work of a context, as freeing its memory does.
pub(crate) fn synchronize(_context: &Context) -> Result<(), CUresult> {
    Ok(())
}

/// The context of a stream.
pub(crate) fn context_of(
    _stream: CUstream,
    _per_thread: bool,
) -> Result<&'static Context, CUresult> {
    crate::state::current()
}

/// Runs something when the stream has done all that was given to it so far.
pub(crate) fn when_reached(
    _stream: CUstream,
    _per_thread: bool,
    run: Box<dyn FnOnce() + Send>,
) -> Result<(), CUresult> {
    run();
    Ok(())
}

/// The address of a new memory node, if the stream is being captured.
pub(crate) fn captured_alloc(
    _stream: CUstream,
    _per_thread: bool,
    _size: usize,
) -> Option<Result<CUdeviceptr, CUresult>> {
    None
}

/// A free node, if the stream is being captured.
pub(crate) fn captured_free(
    _stream: CUstream,
    _per_thread: bool,
    _address: CUdeviceptr,
) -> Option<Result<(), CUresult>> {
    None
}

/// Tells threads apart, for their default streams.
pub(crate) fn thread() -> u64 {
    // SAFETY: gettid has no preconditions.
    u64::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

/// Waits for the work of all contexts, as unmapping memory does.
pub(crate) fn synchronize_all() -> Result<(), CUresult> {
    crate::ctx::all().into_iter().try_for_each(synchronize)
}
