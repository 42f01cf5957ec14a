//! Streams: what `CUstream` stands for.

mod attributes;
mod lifecycle;
mod memops;
mod sync;

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cuda_headers::driver::{CUresult, CUstream};

use crate::ctx::Context;
use crate::engine::{self, Kind, StreamKey};
use crate::handles::{self, Table};
use crate::state;

pub(crate) use memops::{MemOp, load_32, read_batch, store_32};
pub(crate) use sync::{default_here, synchronize_context, wait_for};

/// `CU_STREAM_LEGACY`.
const LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD`.
const PER_THREAD_STREAM: usize = 2;

/// A stream.
pub(crate) struct Stream {
    pub(crate) handle: CUstream,
    /// What it is called among the GPU's queues.
    pub(crate) key: StreamKey,
    pub(crate) context: &'static Context,
    pub(crate) flags: u32,
    pub(crate) kind: Kind,
    pub(crate) priority: c_int,
    /// Never used twice, unlike the handle.
    pub(crate) id: u64,
    alive: AtomicBool,
    attributes: attributes::Attributes,
}

// SAFETY: the handle is an opaque value, nothing is reached through it.
unsafe impl Send for Stream {}
// SAFETY: as above; everything else is atomic, guarded or constant.
unsafe impl Sync for Stream {}

static STREAMS: Table<Stream> = Table::new(handles::Kind::Stream);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// Names this thread; unlike the system's names never used twice.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// This thread's name.
pub(crate) fn thread_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if THREAD.get() == 0 {
        THREAD.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    THREAD.get()
}

/// The stream that a handle stands for. `per_thread` says what NULL means.
pub(crate) fn resolve(handle: CUstream, per_thread: bool) -> Result<Arc<Stream>, CUresult> {
    match handle.0 as usize {
        0 if per_thread => per_thread_stream(state::current()?),
        0 | LEGACY => legacy_stream(state::current()?),
        PER_THREAD_STREAM => per_thread_stream(state::current()?),
        other => {
            let stream = STREAMS
                .get(other)
                .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
            stream.context.check_alive()?;
            Ok(stream)
        }
    }
}

/// The same for a launch: the stream must belong to the current context.
pub(crate) fn resolve_here(handle: CUstream, per_thread: bool) -> Result<Arc<Stream>, CUresult> {
    let context = state::current()?;
    let stream = resolve(handle, per_thread)?;
    if stream.context.id == context.id {
        Ok(stream)
    } else {
        Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }
}

/// The context's legacy default stream.
pub(crate) fn legacy_stream(context: &'static Context) -> Result<Arc<Stream>, CUresult> {
    let mut streams = context.default_streams();
    if let Some(stream) = &streams.legacy {
        return Ok(Arc::clone(stream));
    }
    let stream = Arc::new(make(
        context,
        CUstream(LEGACY as *mut _),
        0,
        Kind::Legacy,
        0,
    )?);
    streams.legacy = Some(Arc::clone(&stream));
    Ok(stream)
}

/// The context's default stream of the calling thread.
fn per_thread_stream(context: &'static Context) -> Result<Arc<Stream>, CUresult> {
    let thread = thread_id();
    let mut streams = context.default_streams();
    if let Some(stream) = streams.per_thread.get(&thread) {
        return Ok(Arc::clone(stream));
    }
    let handle = CUstream(PER_THREAD_STREAM as *mut _);
    let stream = Arc::new(make(context, handle, 0, Kind::Blocking, 0)?);
    streams.per_thread.insert(thread, Arc::clone(&stream));
    Ok(stream)
}

fn make(
    context: &'static Context,
    handle: CUstream,
    flags: u32,
    kind: Kind,
    priority: c_int,
) -> Result<Stream, CUresult> {
    Ok(Stream {
        handle,
        key: engine::create_stream(context.id, context.core_device, kind)?,
        context,
        flags,
        kind,
        priority,
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        alive: AtomicBool::new(true),
        attributes: attributes::Attributes::default(),
    })
}

/// All streams of a context that exist now, default ones included.
pub(crate) fn of_context(context: &Context) -> Vec<Arc<Stream>> {
    let defaults = context.default_streams();
    let created = STREAMS.all().into_iter().map(|(_, stream)| stream);
    created
        .filter(|stream| stream.context.id == context.id)
        .chain(defaults.legacy.iter().cloned())
        .chain(defaults.per_thread.values().cloned())
        .collect()
}

/// Forgets the streams of a context that ends.
pub(crate) fn on_context_destroy(context: &Context) {
    for (handle, stream) in STREAMS.all() {
        if stream.context.id == context.id {
            stream.alive.store(false, Ordering::Release);
            STREAMS.remove(handle);
        }
    }
}
