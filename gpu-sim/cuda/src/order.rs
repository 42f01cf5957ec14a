//! What memory has to know of streams and captures, in one place.

use cuda_headers::driver::{CUdeviceptr, CUresult, CUstream};

use crate::capture;
use crate::ctx::Context;
use crate::engine::{self, Work};
use crate::stream::{self, resolve};

/// Refuses what is unsafe while a capture in global mode runs.
pub(crate) fn unsafe_call() -> Result<(), CUresult> {
    capture::check_unsafe_call()
}

/// Waits for all work of a context, as freeing its memory does.
pub(crate) fn synchronize(context: &'static Context) -> Result<(), CUresult> {
    stream::synchronize_context(context)
}

/// The context of a stream.
pub(crate) fn context_of(stream: CUstream, per_thread: bool) -> Result<&'static Context, CUresult> {
    resolve(stream, per_thread).map(|stream| stream.context)
}

/// Runs something when the stream has done all that was given to it so far, or at once if the
/// stream ends before that: what it gives back must not be lost.
pub(crate) fn when_reached(
    stream: CUstream,
    per_thread: bool,
    run: Box<dyn FnOnce() + Send>,
) -> Result<(), CUresult> {
    let once = Once(Some(run));
    let key = resolve(stream, per_thread)?.key;
    engine::enqueue(key, Work::Action(Box::new(move || drop(once))))
}

struct Once(Option<Box<dyn FnOnce() + Send>>);

impl Drop for Once {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

/// The address of a new memory node, if the stream is being captured.
pub(crate) fn captured_alloc(
    stream: CUstream,
    per_thread: bool,
    size: usize,
) -> Option<Result<CUdeviceptr, CUresult>> {
    match resolve(stream, per_thread) {
        Ok(stream) => capture::add_allocation(&stream, size),
        Err(error) => Some(Err(error)),
    }
}

/// A free node, if the stream is being captured.
pub(crate) fn captured_free(
    stream: CUstream,
    per_thread: bool,
    address: CUdeviceptr,
) -> Option<Result<(), CUresult>> {
    match resolve(stream, per_thread) {
        Ok(stream) => capture::add_free(&stream, address),
        Err(error) => Some(Err(error)),
    }
}

/// Tells threads apart, for their default streams.
pub(crate) fn thread() -> u64 {
    stream::thread_id()
}

/// Waits for the work of all contexts, as unmapping memory does. One that ends meanwhile has nothing to wait for.
pub(crate) fn synchronize_all() -> Result<(), CUresult> {
    let gone = CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
    crate::ctx::all()
        .into_iter()
        .try_for_each(|context| match synchronize(context) {
            Err(error) if error == gone => Ok(()),
            answer => answer,
        })
}
