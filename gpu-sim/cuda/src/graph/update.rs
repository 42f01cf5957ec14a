//! Changing executable graphs: a node's parameters, whether it runs, or everything after another
//! graph of the same shape.

use std::ffi::c_uint;

use cuda_headers::driver::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext, CUevent,
    CUgraph, CUgraphExec, CUgraphExecUpdateResult as Outcome, CUgraphExecUpdateResultInfo,
    CUgraphNode, CUgraphNodeParams, CUresult,
};

use super::exec::resolve_exec;
use super::params::{self, KernelParams};
use super::plan;
use super::{INVALID, NodeWork, resolve_graph};
use crate::entry::{entry, input, out};
use crate::ops::Op;
use crate::{ctx, state};

/// Works on the step that was made from a node.
fn with_step<T>(
    exec: CUgraphExec,
    node: CUgraphNode,
    with: impl FnOnce(&mut plan::Step) -> Result<T, CUresult>,
) -> Result<T, CUresult> {
    let exec = resolve_exec(exec)?;
    let mut state = exec.state();
    let handle = node.0 as usize;
    let step = state.steps.iter_mut().find(|step| step.node == handle);
    with(step.ok_or(INVALID)?)
}

/// Replaces what a step does by something of the same kind.
fn set(exec: CUgraphExec, node: CUgraphNode, op: Op) -> Result<(), CUresult> {
    with_step(exec, node, |step| {
        let same = std::mem::discriminant(&step.op) == std::mem::discriminant(&op);
        if !same || matches!(op, Op::Allocate(_) | Op::Free(_)) {
            return Err(INVALID);
        }
        step.op = op;
        Ok(())
    })
}

/// Takes over everything from a graph, if it has the same shape.
fn update(exec: CUgraphExec, graph: CUgraph) -> Result<(), (Outcome, usize)> {
    let error = (Outcome::CU_GRAPH_EXEC_UPDATE_ERROR, 0);
    let exec = resolve_exec(exec).map_err(|_| error)?;
    let graph = resolve_graph(graph).map_err(|_| error)?;
    let new = plan::order(&graph.inner().nodes).ok_or(error)?;
    let mut state = exec.state();
    if new.len() != state.steps.len() {
        return Err((Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0));
    }
    for (old, new) in state.steps.iter().zip(&new) {
        let changed = if old.after != new.after {
            Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
        } else if std::mem::discriminant(&old.op) != std::mem::discriminant(&new.op) {
            Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED
        } else if let (Op::Kernel(old), Op::Kernel(new)) = (&old.op, &new.op)
            && old.context.id != new.context.id
        {
            Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
        } else if matches!(new.op, Op::Allocate(_) | Op::Free(_)) {
            Outcome::CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED
        } else {
            continue;
        };
        return Err((changed, new.node));
    }
    for (old, new) in state.steps.iter_mut().zip(new) {
        old.op = new.op;
    }
    Ok(())
}

/// The step's place is taken by what a description says.
unsafe fn set_from(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: *mut CUgraphNodeParams,
) -> Result<(), CUresult> {
    // SAFETY: NULL or valid and as its type says, as the driver API asks.
    match unsafe { params::work_of(params.as_mut().ok_or(INVALID)?) }? {
        NodeWork::Op(op) => set(exec, node, op),
        NodeWork::Child(_) => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
    }
}

entry! {
    fn cuGraphExecKernelNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) {
        set(hGraphExec, hNode, KernelParams::from(input(nodeParams)?).op()?)
    }

    fn cuGraphExecKernelNodeSetParams_v2(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
    ) {
        set(hGraphExec, hNode, KernelParams::from(input(nodeParams)?).op()?)
    }

    fn cuGraphExecMemcpyNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        copyParams: *const CUDA_MEMCPY3D,
        ctx: CUcontext,
    ) {
        ctx::from_handle_or_current(ctx)?;
        set(hGraphExec, hNode, params::memcpy_op(input(copyParams)?)?)
    }

    fn cuGraphExecMemsetNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        memsetParams: *const CUDA_MEMSET_NODE_PARAMS,
        ctx: CUcontext,
    ) {
        ctx::from_handle_or_current(ctx)?;
        set(hGraphExec, hNode, params::memset_op(input(memsetParams)?)?)
    }

    fn cuGraphExecHostNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        nodeParams: *const CUDA_HOST_NODE_PARAMS,
    ) {
        let params = input(nodeParams)?;
        set(hGraphExec, hNode, params::host_op(params.fn_, params.userData)?)
    }

    fn cuGraphExecEventRecordNodeSetEvent(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        event: CUevent,
    ) {
        set(hGraphExec, hNode, params::record_op(event)?)
    }

    fn cuGraphExecEventWaitNodeSetEvent(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        event: CUevent,
    ) {
        set(hGraphExec, hNode, params::wait_op(event)?)
    }

    fn cuGraphExecBatchMemOpNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) {
        set(hGraphExec, hNode, params::memops_op(input(nodeParams)?)?)
    }

    fn cuGraphExecNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        nodeParams: *mut CUgraphNodeParams,
    ) {
        set_from(hGraphExec, hNode, nodeParams)
    }

    /// Kernels, copies and fills can be switched off.
    fn cuGraphNodeSetEnabled(hGraphExec: CUgraphExec, hNode: CUgraphNode, isEnabled: c_uint) {
        with_step(hGraphExec, hNode, |step| {
            if !matches!(step.op, Op::Kernel(_) | Op::Transfer(_) | Op::Fill(_)) {
                return Err(INVALID);
            }
            step.enabled = isEnabled != 0;
            Ok(())
        })
    }

    fn cuGraphNodeGetEnabled(hGraphExec: CUgraphExec, hNode: CUgraphNode, isEnabled: *mut c_uint) {
        let enabled = with_step(hGraphExec, hNode, |step| Ok(step.enabled))?;
        out(isEnabled, c_uint::from(enabled))
    }

    fn cuGraphExecUpdate(
        hGraphExec: CUgraphExec,
        hGraph: CUgraph,
        hErrorNode_out: *mut CUgraphNode,
        updateResult_out: *mut Outcome,
    ) {
        state::current()?;
        if hErrorNode_out.is_null() {
            return Err(INVALID);
        }
        let (outcome, node) = match update(hGraphExec, hGraph) {
            Ok(()) => (Outcome::CU_GRAPH_EXEC_UPDATE_SUCCESS, 0),
            Err(refused) => refused,
        };
        out(hErrorNode_out, CUgraphNode(node as *mut _))?;
        out(updateResult_out, outcome)?;
        if outcome == Outcome::CU_GRAPH_EXEC_UPDATE_SUCCESS {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
        }
    }

    fn cuGraphExecUpdate_v2(
        hGraphExec: CUgraphExec,
        hGraph: CUgraph,
        resultInfo: *mut CUgraphExecUpdateResultInfo,
    ) {
        state::current()?;
        let (outcome, node) = match update(hGraphExec, hGraph) {
            Ok(()) => (Outcome::CU_GRAPH_EXEC_UPDATE_SUCCESS, 0),
            Err(refused) => refused,
        };
        let info = CUgraphExecUpdateResultInfo {
            result: outcome,
            errorNode: CUgraphNode(node as *mut _),
            errorFromNode: CUgraphNode::NULL,
        };
        out(resultInfo, info)?;
        if outcome == Outcome::CU_GRAPH_EXEC_UPDATE_SUCCESS {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
        }
    }
}
