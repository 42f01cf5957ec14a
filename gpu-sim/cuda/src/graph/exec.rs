//! Executable graphs: instantiating and launching.

use std::ffi::{c_char, c_uint, c_ulonglong};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph, CUgraphExec, CUgraphInstantiateResult as Outcome,
    CUgraphNode, CUresult, CUstream, cuuint64_t,
};

use super::plan::{self, Step};
use super::{Graph, INVALID, NodeWork, resolve_graph};
use crate::engine::{self, Mark};
use crate::entry::{answer, entry, out, out_optional};
use crate::handles::{Kind, Table};
use crate::memory;
use crate::ops::Op;
use crate::stream::{Stream, resolve_here};
use crate::{capture, state};

/// What null mode answers wherever a graph is asked for.
pub(crate) const NULL_MODE_GRAPH: usize = 0x4000;

const AUTO_FREE: u64 = 1;
const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;
const NODE_PRIORITY: u64 = 8;

/// An executable graph.
pub(crate) struct Exec {
    id: u32,
    flags: u64,
    /// What a launch of it is when it is captured.
    source: Arc<Graph>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) steps: Vec<Step>,
    /// The end of the last launch: launches of one executable graph come one after the other.
    last: Option<Arc<Mark>>,
}

static EXECS: Table<Exec> = Table::new(Kind::GraphExec);
static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// The executable graph that a handle stands for.
pub(super) fn resolve_exec(handle: CUgraphExec) -> Result<Arc<Exec>, CUresult> {
    EXECS.get(handle.0 as usize).ok_or(INVALID)
}

impl Exec {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self, stream: &Stream) -> Result<(), CUresult> {
        let child = || NodeWork::Child(self.source.duplicate(true));
        if capture::any() && capture::add_work(stream, child)?.is_some() {
            return Ok(());
        }
        let mut state = self.state();
        commit(&state.steps, self.flags & AUTO_FREE != 0)?;
        if let Some(last) = &state.last {
            engine::wait_for_mark(stream.key, last)?;
        }
        let context = stream.context;
        plan::run(&state.steps, stream.key, context.id, context.core_device)?;
        state.last = Some(engine::mark(stream.key)?);
        Ok(())
    }
}

fn allocations(steps: &[Step]) -> Vec<u64> {
    let allocations = steps.iter().filter_map(|step| match &step.op {
        Op::Allocate(reserved) => Some(reserved.address),
        _ => None,
    });
    allocations.collect()
}

/// Gives memory to the allocation nodes for a launch. What an earlier launch allocated and nobody has
/// freed is freed first where that was asked for, and an error where it was not.
fn commit(steps: &[Step], auto_free: bool) -> Result<(), CUresult> {
    let freed_here = |address| {
        let frees = |step: &Step| matches!(step.op, Op::Free(freed) if freed == address);
        steps.iter().any(frees)
    };
    let allocations = allocations(steps);
    // Of a graph that frees its own memory an earlier launch may still be running.
    let kept = |address: &u64| !freed_here(*address) && memory::graph_in_use(*address);
    if !auto_free && allocations.iter().any(kept) {
        return Err(INVALID);
    }
    memory::graph_commit(&allocations, Some(&freed_here))
}

/// Why a graph cannot be instantiated, and which node is to blame.
struct Refusal {
    code: CUresult,
    outcome: Outcome,
}

fn instantiate(graph: CUgraph, flags: u64) -> Result<CUgraphExec, Refusal> {
    let refuse = |code, outcome| Refusal { code, outcome };
    let error = |code| refuse(code, Outcome::CUDA_GRAPH_INSTANTIATE_ERROR);
    state::current().map_err(error)?;
    let graph = resolve_graph(graph).map_err(error)?;
    if flags & !(AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY) != 0 {
        return Err(error(INVALID));
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(error(CUresult::CUDA_ERROR_NOT_SUPPORTED));
    }
    let structure = Outcome::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    let steps = plan::order(&graph.inner().nodes).ok_or_else(|| refuse(INVALID, structure))?;
    let exec = Exec {
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        flags,
        source: graph.duplicate(true),
        state: Mutex::new(State { steps, last: None }),
    };
    let mut instance = graph
        .instance
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if graph.has_memory_nodes() && instance.strong_count() > 0 {
        let unsupported = CUresult::CUDA_ERROR_NOT_SUPPORTED;
        let operation = Outcome::CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
        super::destroy(&exec.source);
        return Err(refuse(unsupported, operation));
    }
    let (handle, exec) = EXECS.insert_with(|_| exec);
    *instance = Arc::downgrade(&exec);
    Ok(CUgraphExec(handle as *mut _))
}

unsafe fn instantiate_into(
    exec: *mut CUgraphExec,
    graph: CUgraph,
    flags: u64,
) -> Result<(), CUresult> {
    if exec.is_null() {
        return Err(INVALID);
    }
    let made = instantiate(graph, flags).map_err(|refusal| refusal.code)?;
    // SAFETY: not NULL, and the caller vouches for the rest.
    unsafe { out(exec, made) }
}

unsafe fn instantiate_with_log(
    exec: *mut CUgraphExec,
    graph: CUgraph,
    node: *mut CUgraphNode,
    (log, size): (*mut c_char, usize),
) -> Result<(), CUresult> {
    // SAFETY: NULL or valid, as the driver API asks; a log has room for at least its end.
    unsafe {
        out_optional(node, CUgraphNode::NULL);
        if size > 0 {
            out_optional(log, 0);
        }
        instantiate_into(exec, graph, 0)
    }
}

unsafe fn instantiate_with_params(
    exec: *mut CUgraphExec,
    graph: CUgraph,
    params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    per_thread: bool,
) -> Result<(), CUresult> {
    // SAFETY: NULL or valid, as the driver API asks.
    let params = unsafe { params.as_mut() }.ok_or(INVALID)?;
    if exec.is_null() {
        return Err(INVALID);
    }
    params.hErrNode_out = CUgraphNode::NULL;
    params.result_out = Outcome::CUDA_GRAPH_INSTANTIATE_SUCCESS;
    let made = instantiate(graph, params.flags).map_err(|refusal| {
        params.result_out = refusal.outcome;
        refusal.code
    })?;
    if params.flags & UPLOAD != 0 {
        upload(made, params.hUploadStream, per_thread)?;
    }
    // SAFETY: not NULL, and the caller vouches for the rest.
    unsafe { out(exec, made) }
}

/// Gives the graph's memory nodes their memory ahead of the launch. A trim may take it again: it does
/// so from all that is not executing or about to.
fn upload(exec: CUgraphExec, stream: CUstream, per_thread: bool) -> Result<(), CUresult> {
    let exec = resolve_exec(exec)?;
    let stream = resolve_here(stream, per_thread)?;
    capture::refuse_capturing(&stream)?;
    capture::check_legacy(&stream)?;
    let state = exec.state();
    memory::graph_commit(&allocations(&state.steps), None)
}

entry! {
    fn cuGraphInstantiate(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        phErrorNode: *mut CUgraphNode,
        logBuffer: *mut c_char,
        bufferSize: usize,
    ), null { answer(out(phGraphExec, CUgraphExec(NULL_MODE_GRAPH as *mut _))) } {
        instantiate_with_log(phGraphExec, hGraph, phErrorNode, (logBuffer, bufferSize))
    }

    fn cuGraphInstantiate_v2(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        phErrorNode: *mut CUgraphNode,
        logBuffer: *mut c_char,
        bufferSize: usize,
    ), null { answer(out(phGraphExec, CUgraphExec(NULL_MODE_GRAPH as *mut _))) } {
        instantiate_with_log(phGraphExec, hGraph, phErrorNode, (logBuffer, bufferSize))
    }

    fn cuGraphInstantiateWithFlags(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        flags: c_ulonglong,
    ), null { answer(out(phGraphExec, CUgraphExec(NULL_MODE_GRAPH as *mut _))) } {
        if flags & UPLOAD != 0 {
            // It needs a stream, which only the function with parameters has.
            return Err(INVALID);
        }
        instantiate_into(phGraphExec, hGraph, flags)
    }

    fn cuGraphInstantiateWithParams(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        instantiateParams: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) => cuGraphInstantiateWithParams_ptsz,
    null { answer(out(phGraphExec, CUgraphExec(NULL_MODE_GRAPH as *mut _))) } {
        instantiate_with_params(phGraphExec, hGraph, instantiateParams, PER_THREAD)
    }

    fn cuGraphUpload(hGraph: CUgraphExec, hStream: CUstream) => cuGraphUpload_ptsz {
        upload(hGraph, hStream, PER_THREAD)
    }

    fn cuGraphLaunch(hGraph: CUgraphExec, hStream: CUstream) => cuGraphLaunch_ptsz {
        let exec = resolve_exec(hGraph)?;
        exec.launch(&*resolve_here(hStream, PER_THREAD)?)
    }

    /// A launch that is under way still completes.
    fn cuGraphExecDestroy(hGraphExec: CUgraphExec) {
        let exec = EXECS.remove(hGraphExec.0 as usize).ok_or(INVALID)?;
        super::destroy(&exec.source);
        Ok(())
    }

    fn cuGraphExecGetFlags(hGraphExec: CUgraphExec, flags: *mut cuuint64_t) {
        out(flags, resolve_exec(hGraphExec)?.flags)
    }

    fn cuGraphExecGetId(hGraphExec: CUgraphExec, graphId: *mut c_uint) {
        out(graphId, resolve_exec(hGraphExec)?.id)
    }
}
