//! Beginning and ending a capture, and what can be asked about one.

use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_headers::driver::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUresult, CUstream, CUstreamCaptureMode as Mode,
    CUstreamCaptureStatus as Status, cuuint64_t,
};

use super::{ACTIVE, Lane, MODE, NEXT_ID, Session, finish, lanes, rules};
use crate::engine::Kind;
use crate::entry::{answer, entry, out, out_optional};
use crate::graph::{self, Graph, NULL_MODE_GRAPH};
use crate::stream::{Stream, resolve, thread_id};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Where a capture's nodes go, and what its first one waits for.
type Into = (Arc<Graph>, Vec<CUgraphNode>);

fn begin(stream: &Stream, mode: Mode, into: Option<Into>) -> Result<(), CUresult> {
    if mode.0 > Mode::CU_STREAM_CAPTURE_MODE_RELAXED.0 {
        return Err(INVALID);
    }
    if stream.kind == Kind::Legacy {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut all = lanes();
    let lanes = all.get_or_insert_default();
    if lanes.contains_key(&stream.id) {
        return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
    }
    let borrowed = into.is_some();
    let (graph, frontier) = into.unwrap_or_else(|| (graph::create(false), Vec::new()));
    let session = Session {
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        graph,
        mode,
        origin: stream.id,
        thread: thread_id(),
        invalidated: AtomicBool::new(false),
        borrowed,
    };
    let lane = Lane {
        session: Arc::new(session),
        context: stream.context.id,
        frontier,
    };
    lanes.insert(stream.id, lane);
    ACTIVE.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// Ends a capture. Whatever is wrong with it, it is over afterwards; only the wrong stream or
/// thread changes nothing.
fn end(stream: &Stream) -> Result<Arc<Graph>, CUresult> {
    let mut all = lanes();
    let lanes = all.get_or_insert_default();
    let Some(lane) = lanes.get(&stream.id) else {
        return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
    };
    let session = Arc::clone(&lane.session);
    if session.origin != stream.id {
        return session.fail(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    if session.mode != Mode::CU_STREAM_CAPTURE_MODE_RELAXED && session.thread != thread_id() {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }
    let origin = lane.frontier.clone();
    let mut others = Vec::new();
    lanes.retain(|id, lane| {
        if lane.session.id != session.id {
            return true;
        }
        if *id != stream.id {
            others.extend(lane.frontier.iter().copied());
        }
        false
    });
    drop(all);
    let result = session
        .check()
        .and_then(|()| joined(&session.graph, &origin, &others));
    if let Err(error) = result {
        finish(&session);
        return Err(error);
    }
    ACTIVE.fetch_sub(1, Ordering::AcqRel);
    Ok(Arc::clone(&session.graph))
}

/// Whether everything that other streams have added comes before where the origin stands.
fn joined(graph: &Graph, origin: &[CUgraphNode], others: &[CUgraphNode]) -> Result<(), CUresult> {
    let inner = graph.inner();
    let comes_before = |node: &CUgraphNode| {
        origin
            .iter()
            .any(|last| inner.reaches(last.0 as usize, node.0 as usize))
    };
    if others.iter().all(comes_before) {
        Ok(())
    } else {
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
    }
}

/// What is known of a stream's capture.
struct Info {
    status: Status,
    id: u64,
    graph: CUgraph,
    /// Valid until the next call that concerns the stream.
    frontier: *const CUgraphNode,
    count: usize,
}

fn info(stream: &Stream) -> Result<Info, CUresult> {
    if stream.kind == Kind::Legacy && !rules::blocking_captures(stream.context).is_empty() {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    let mut all = lanes();
    let Some(lane) = all.get_or_insert_default().get(&stream.id) else {
        return Ok(Info {
            status: Status::CU_STREAM_CAPTURE_STATUS_NONE,
            id: 0,
            graph: CUgraph::NULL,
            frontier: std::ptr::null(),
            count: 0,
        });
    };
    let valid = lane.session.check().is_ok();
    Ok(Info {
        status: if valid {
            Status::CU_STREAM_CAPTURE_STATUS_ACTIVE
        } else {
            Status::CU_STREAM_CAPTURE_STATUS_INVALIDATED
        },
        id: lane.session.id,
        graph: lane.session.graph.handle,
        frontier: lane.frontier.as_ptr(),
        count: lane.frontier.len(),
    })
}

/// Edge data that says nothing, for as many edges as anybody asks about at once.
struct NoEdges([CUgraphEdgeData; 256]);
// SAFETY: plain bytes that nobody writes.
unsafe impl Sync for NoEdges {}
static NO_EDGES: NoEdges = NoEdges(
    [CUgraphEdgeData {
        from_port: 0,
        to_port: 0,
        type_: 0,
        reserved: [0; 5],
    }; 256],
);

/// Reads an array of nodes.
///
/// # Safety
/// `nodes` is valid for `count` reads, or `count` is 0.
pub(crate) unsafe fn read_nodes(
    nodes: *const CUgraphNode,
    count: usize,
) -> Result<Vec<CUgraphNode>, CUresult> {
    match count {
        0 => Ok(Vec::new()),
        _ if nodes.is_null() => Err(INVALID),
        // SAFETY: by the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(nodes, count) }.to_vec()),
    }
}

fn update(stream: &Stream, nodes: Vec<CUgraphNode>, flags: c_uint) -> Result<(), CUresult> {
    let mut all = lanes();
    let Some(lane) = all.get_or_insert_default().get_mut(&stream.id) else {
        return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
    };
    lane.session.check()?;
    let inner = lane.session.graph.inner();
    if flags > 1
        || nodes
            .iter()
            .any(|node| inner.node(node.0 as usize).is_none())
    {
        return Err(INVALID);
    }
    drop(inner);
    if flags == 1 {
        lane.frontier.clear();
    }
    for node in nodes {
        if !lane.frontier.contains(&node) {
            lane.frontier.push(node);
        }
    }
    Ok(())
}

unsafe fn end_into(
    stream: CUstream,
    per_thread: bool,
    graph: *mut CUgraph,
) -> Result<(), CUresult> {
    let stream = resolve(stream, per_thread)?;
    if graph.is_null() {
        return Err(INVALID);
    }
    match end(&stream) {
        // SAFETY: not NULL, and the caller vouches for the rest.
        Ok(captured) => unsafe { out(graph, captured.handle) },
        Err(error) => {
            // SAFETY: as above.
            unsafe { out(graph, CUgraph::NULL) }?;
            Err(error)
        }
    }
}

entry! {
    /// The thread's part in what is not allowed during captures.
    fn cuThreadExchangeStreamCaptureMode(mode: *mut Mode) {
        if mode.is_null() || (*mode).0 > Mode::CU_STREAM_CAPTURE_MODE_RELAXED.0 {
            return Err(INVALID);
        }
        *mode = MODE.replace(*mode);
        Ok(())
    }

    /// As it was in CUDA 10.0: always in global mode.
    fn cuStreamBeginCapture(hStream: CUstream) => cuStreamBeginCapture_ptsz {
        let stream = resolve(hStream, PER_THREAD)?;
        begin(&stream, Mode::CU_STREAM_CAPTURE_MODE_GLOBAL, None)
    }

    fn cuStreamBeginCapture_v2(hStream: CUstream, mode: Mode) => cuStreamBeginCapture_v2_ptsz {
        begin(&*resolve(hStream, PER_THREAD)?, mode, None)
    }

    fn cuStreamBeginCaptureToGraph(
        hStream: CUstream,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        dependencyData: *const CUgraphEdgeData,
        numDependencies: usize,
        mode: Mode,
    ) => cuStreamBeginCaptureToGraph_ptsz {
        let _ = dependencyData;
        let stream = resolve(hStream, PER_THREAD)?;
        let graph = graph::resolve_graph(hGraph)?;
        let nodes = read_nodes(dependencies, numDependencies)?;
        let known = |node: &CUgraphNode| graph.inner().node(node.0 as usize).is_some();
        if !nodes.iter().all(known) {
            return Err(INVALID);
        }
        begin(&stream, mode, Some((graph, nodes)))
    }

    fn cuStreamEndCapture(hStream: CUstream, phGraph: *mut CUgraph) => cuStreamEndCapture_ptsz,
    null { answer(out(phGraph, CUgraph(NULL_MODE_GRAPH as *mut _))) } {
        end_into(hStream, PER_THREAD, phGraph)
    }

    fn cuStreamIsCapturing(hStream: CUstream, captureStatus: *mut Status)
    => cuStreamIsCapturing_ptsz,
    null { answer(out(captureStatus, Status::CU_STREAM_CAPTURE_STATUS_NONE)) } {
        out(captureStatus, info(&*resolve(hStream, PER_THREAD)?)?.status)
    }

    fn cuStreamGetCaptureInfo(
        hStream: CUstream,
        captureStatus_out: *mut Status,
        id_out: *mut cuuint64_t,
    ) => cuStreamGetCaptureInfo_ptsz,
    null { answer(out(captureStatus_out, Status::CU_STREAM_CAPTURE_STATUS_NONE)) } {
        let info = info(&*resolve(hStream, PER_THREAD)?)?;
        out(captureStatus_out, info.status)?;
        out_optional(id_out, info.id);
        Ok(())
    }

    fn cuStreamGetCaptureInfo_v2(
        hStream: CUstream,
        captureStatus_out: *mut Status,
        id_out: *mut cuuint64_t,
        graph_out: *mut CUgraph,
        dependencies_out: *mut *const CUgraphNode,
        numDependencies_out: *mut usize,
    ) => cuStreamGetCaptureInfo_v2_ptsz,
    null { answer(out(captureStatus_out, Status::CU_STREAM_CAPTURE_STATUS_NONE)) } {
        let info = info(&*resolve(hStream, PER_THREAD)?)?;
        out(captureStatus_out, info.status)?;
        out_optional(id_out, info.id);
        out_optional(graph_out, info.graph);
        out_optional(dependencies_out, info.frontier);
        out_optional(numDependencies_out, info.count);
        Ok(())
    }

    fn cuStreamGetCaptureInfo_v3(
        hStream: CUstream,
        captureStatus_out: *mut Status,
        id_out: *mut cuuint64_t,
        graph_out: *mut CUgraph,
        dependencies_out: *mut *const CUgraphNode,
        edgeData_out: *mut *const CUgraphEdgeData,
        numDependencies_out: *mut usize,
    ) => cuStreamGetCaptureInfo_v3_ptsz,
    null { answer(out(captureStatus_out, Status::CU_STREAM_CAPTURE_STATUS_NONE)) } {
        let info = info(&*resolve(hStream, PER_THREAD)?)?;
        if info.count > NO_EDGES.0.len() && !edgeData_out.is_null() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        out(captureStatus_out, info.status)?;
        out_optional(id_out, info.id);
        out_optional(graph_out, info.graph);
        out_optional(dependencies_out, info.frontier);
        out_optional(edgeData_out, NO_EDGES.0.as_ptr());
        out_optional(numDependencies_out, info.count);
        Ok(())
    }

    fn cuStreamUpdateCaptureDependencies(
        hStream: CUstream,
        dependencies: *mut CUgraphNode,
        numDependencies: usize,
        flags: c_uint,
    ) => cuStreamUpdateCaptureDependencies_ptsz {
        let nodes = read_nodes(dependencies, numDependencies)?;
        update(&*resolve(hStream, PER_THREAD)?, nodes, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        hStream: CUstream,
        dependencies: *mut CUgraphNode,
        dependencyData: *const CUgraphEdgeData,
        numDependencies: usize,
        flags: c_uint,
    ) => cuStreamUpdateCaptureDependencies_v2_ptsz {
        let _ = dependencyData;
        let nodes = read_nodes(dependencies, numDependencies)?;
        update(&*resolve(hStream, PER_THREAD)?, nodes, flags)
    }
}
