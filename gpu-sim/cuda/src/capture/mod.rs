//! Stream capture: work that goes into a graph instead of to the GPU, and the calls that are not
//! allowed meanwhile.

mod entries;
mod rules;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::{CUdeviceptr, CUgraphNode, CUresult, CUstreamCaptureMode as Mode};

use crate::engine::Kind;
use crate::event::Recorded;
use crate::graph::{Graph, NodeWork};
use crate::ops::{Op, Reserved};
use crate::stream::Stream;

pub(crate) use entries::read_nodes;
pub(crate) use rules::check_unsafe_call;

/// One capture, from its begin to its end.
pub(crate) struct Session {
    id: u64,
    graph: Arc<Graph>,
    mode: Mode,
    /// Id of the stream in which it began and must end.
    origin: u64,
    /// The thread that began it.
    thread: u64,
    invalidated: AtomicBool,
    /// Captures into a graph of the application, which stays when the capture fails.
    borrowed: bool,
}

/// A stream's part of a capture.
struct Lane {
    session: Arc<Session>,
    context: u64,
    /// What the stream's next node waits for.
    frontier: Vec<CUgraphNode>,
}

// SAFETY: handles are opaque values, nothing is reached through them.
unsafe impl Send for Lane {}

/// Where in a capture an event was recorded.
#[derive(Clone)]
pub(crate) struct Captured {
    session: Arc<Session>,
    frontier: Vec<CUgraphNode>,
}

// SAFETY: handles are opaque values, nothing is reached through them.
unsafe impl Send for Captured {}
// SAFETY: as above.
unsafe impl Sync for Captured {}

/// Streams that are being captured, by id.
static LANES: Mutex<Option<HashMap<u64, Lane>>> = Mutex::new(None);
/// Captures that have begun and not ended: while there are none, nothing else is looked at.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// What this thread takes part in; see `cuThreadExchangeStreamCaptureMode`.
    static MODE: Cell<Mode> = const { Cell::new(Mode::CU_STREAM_CAPTURE_MODE_GLOBAL) };
}

fn lanes() -> MutexGuard<'static, Option<HashMap<u64, Lane>>> {
    LANES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    fn invalidate(&self) {
        self.invalidated.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<(), CUresult> {
        if self.invalidated.load(Ordering::Acquire) {
            Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        } else {
            Ok(())
        }
    }

    /// Invalidates the capture and says why.
    fn fail<T>(&self, error: CUresult) -> Result<T, CUresult> {
        self.invalidate();
        Err(error)
    }
}

impl Captured {
    /// The event is used as if it were not part of a capture.
    pub(crate) fn invalidate(&self) {
        self.session.invalidate();
    }
}

/// Whether any stream of this process is being captured.
#[inline]
pub(crate) fn any() -> bool {
    ACTIVE.load(Ordering::Acquire) > 0
}

/// Whether a stream is being captured; an error when that capture has been invalidated.
pub(crate) fn is_capturing(stream: &Stream) -> Result<bool, CUresult> {
    if !any() {
        return Ok(false);
    }
    match lanes().get_or_insert_default().get(&stream.id) {
        Some(lane) => lane.session.check().map(|()| true),
        None => Ok(false),
    }
}

/// Puts work into the graph that a stream is captured into. False: it is not being captured.
pub(crate) fn add(stream: &Stream, op: &Op) -> Result<bool, CUresult> {
    add_work(stream, || NodeWork::Op(op.clone())).map(|node| node.is_some())
}

/// The same for anything that can be a node.
pub(crate) fn add_work(
    stream: &Stream,
    work: impl FnOnce() -> NodeWork,
) -> Result<Option<CUgraphNode>, CUresult> {
    if !any() {
        return Ok(None);
    }
    check_legacy(stream)?;
    let mut lanes = lanes();
    let Some(lane) = lanes.get_or_insert_default().get_mut(&stream.id) else {
        return Ok(None);
    };
    lane.session.check()?;
    let before = lane.frontier.iter().map(|node| node.0 as usize).collect();
    let node = lane.session.graph.add(work(), before)?;
    lane.frontier = vec![node];
    Ok(Some(node))
}

/// Where an event that is recorded in this stream now lies, if the stream is being captured.
pub(crate) fn record(stream: &Stream) -> Result<Option<Captured>, CUresult> {
    if !any() {
        return Ok(None);
    }
    check_legacy(stream)?;
    let mut lanes = lanes();
    let Some(lane) = lanes.get_or_insert_default().get(&stream.id) else {
        return Ok(None);
    };
    lane.session.check()?;
    Ok(Some(Captured {
        session: Arc::clone(&lane.session),
        frontier: lane.frontier.clone(),
    }))
}

/// Makes a stream wait for an event, where one of the two is being captured. False: neither is.
pub(crate) fn wait(stream: &Stream, event: &Recorded) -> Result<bool, CUresult> {
    let captured = match event {
        Recorded::Captured(captured) => Some(captured),
        _ => None,
    };
    if !any() && captured.is_none() {
        return Ok(false);
    }
    check_legacy(stream)?;
    let mut all = lanes();
    let lanes = all.get_or_insert_default();
    let Some(captured) = captured else {
        return match lanes.get(&stream.id) {
            Some(lane) => {
                lane.session.check()?;
                match event {
                    Recorded::Never => Ok(true),
                    _ => lane
                        .session
                        .fail(CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
                }
            }
            None => Ok(false),
        };
    };
    let running = lanes
        .values()
        .any(|lane| lane.session.id == captured.session.id);
    if !running {
        // The capture that the event belongs to has ended.
        return Err(CUresult::CUDA_ERROR_CAPTURED_EVENT);
    }
    captured.session.check()?;
    if stream.kind == Kind::Legacy {
        return captured
            .session
            .fail(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    match lanes.get_mut(&stream.id) {
        None => {
            let lane = Lane {
                session: Arc::clone(&captured.session),
                context: stream.context.id,
                frontier: captured.frontier.clone(),
            };
            lanes.insert(stream.id, lane);
        }
        Some(lane) if lane.session.id != captured.session.id => {
            lane.session.invalidate();
            return captured
                .session
                .fail(CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE);
        }
        Some(lane) => {
            lane.session.check()?;
            for node in &captured.frontier {
                if !lane.frontier.contains(node) {
                    lane.frontier.push(*node);
                }
            }
        }
    }
    Ok(true)
}

/// A call that waits for a stream, or asks about it, while that is being captured.
pub(crate) fn refuse_capturing(stream: &Stream) -> Result<(), CUresult> {
    if !any() {
        return Ok(());
    }
    match lanes().get_or_insert_default().get(&stream.id) {
        Some(lane) => {
            lane.session.check()?;
            lane.session
                .fail(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        }
        None => Ok(()),
    }
}

/// Work in the legacy stream would wait for streams that are being captured, unless those were
/// made not to be ordered with it.
pub(crate) fn check_legacy(stream: &Stream) -> Result<(), CUresult> {
    if !any() || stream.kind != Kind::Legacy {
        return Ok(());
    }
    let blocking = rules::blocking_captures(stream.context);
    if blocking.is_empty() {
        return Ok(());
    }
    for session in blocking {
        session.invalidate();
    }
    Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
}

/// An allocation node at a stream's place in its capture.
pub(crate) fn add_allocation(
    stream: &Stream,
    size: usize,
) -> Option<Result<CUdeviceptr, CUresult>> {
    match is_capturing(stream) {
        Ok(false) => None,
        Err(error) => Some(Err(error)),
        Ok(true) => {
            let device = stream.context.device;
            let added = crate::memory::graph_reserve(device, size).and_then(|address| {
                let bytes = size;
                let reserved = Arc::new(Reserved { address, bytes });
                add(stream, &Op::Allocate(reserved)).map(|_| address)
            });
            Some(added)
        }
    }
}

/// A free node at a stream's place in its capture.
pub(crate) fn add_free(stream: &Stream, address: CUdeviceptr) -> Option<Result<(), CUresult>> {
    match is_capturing(stream) {
        Ok(false) => None,
        Err(error) => Some(Err(error)),
        Ok(true) => Some(add(stream, &Op::Free(address)).map(|_| ())),
    }
}

/// A stream that is being captured is destroyed.
pub(crate) fn on_stream_destroy(stream: &Stream) {
    end_where(|id, lane| (id == stream.id).then(|| lane.session.id));
}

/// A context ends, with the captures in it.
pub(crate) fn on_context_destroy(context: u64) {
    end_where(|_, lane| (lane.context == context).then(|| lane.session.id));
}

/// Ends captures without a result.
fn end_where(which: impl Fn(u64, &Lane) -> Option<u64>) {
    if !any() {
        return;
    }
    let mut all = lanes();
    let lanes = all.get_or_insert_default();
    let ended: Vec<u64> = lanes
        .iter()
        .filter_map(|(id, lane)| which(*id, lane))
        .collect();
    for id in ended {
        let mut session = None;
        lanes.retain(|_, lane| {
            if lane.session.id == id {
                session = Some(Arc::clone(&lane.session));
            }
            lane.session.id != id
        });
        if let Some(session) = session {
            finish(&session);
        }
    }
}

/// What is left when a capture ends without a result.
fn finish(session: &Session) {
    session.invalidate();
    ACTIVE.fetch_sub(1, Ordering::AcqRel);
    if !session.borrowed {
        crate::graph::destroy(&session.graph);
    }
}
