//! Executable graphs that change or go: what their launches cost and what memory they take is kept by their handles.

use core::ffi::c_uint;

use cuda_headers::driver::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUcontext, CUgraph, CUgraphExec, CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo,
    CUgraphNode, CUgraphNodeParams, CUresult,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::graph;
use crate::time;

hooks! { DRIVER as fns, if time::limited() || graph::any();
    /// Its handle may come to stand for another graph.
    fn cuGraphExecDestroy(hGraphExec: CUgraphExec) -> CUresult = |call| {
        time::graph_goes(hGraphExec);
        graph::destroy(hGraphExec, &call)
    };

    /// The next launch is measured as the first of its kind.
    fn cuGraphExecUpdate(
        hGraphExec: CUgraphExec,
        hGraph: CUgraph,
        hErrorNode_out: *mut CUgraphNode,
        updateResult_out: *mut CUgraphExecUpdateResult,
    ) -> CUresult = |call| {
        let answer = call();
        time::graph_changed(hGraphExec);
        graph::update(hGraphExec, hGraph, answer);
        Ok(answer)
    };

    /// As `cuGraphExecUpdate`.
    fn cuGraphExecUpdate_v2(
        hGraphExec: CUgraphExec,
        hGraph: CUgraph,
        resultInfo: *mut CUgraphExecUpdateResultInfo,
    ) -> CUresult = |call| {
        let answer = call();
        time::graph_changed(hGraphExec);
        graph::update(hGraphExec, hGraph, answer);
        Ok(answer)
    };

    /// As `cuGraphExecUpdate`.
    fn cuGraphExecNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        nodeParams: *mut CUgraphNodeParams,
    ) -> CUresult = |call| {
        let answer = call();
        time::graph_changed(hGraphExec);
        Ok(answer)
    };

    /// As `cuGraphExecUpdate`.
    fn cuGraphExecKernelNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> CUresult = |call| {
        let answer = call();
        time::graph_changed(hGraphExec);
        Ok(answer)
    };

    /// As `cuGraphExecUpdate`.
    fn cuGraphExecKernelNodeSetParams_v2(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
    ) -> CUresult = |call| {
        let answer = call();
        time::graph_changed(hGraphExec);
        Ok(answer)
    };

    /// As `cuGraphExecUpdate`.
    fn cuGraphExecChildGraphNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        childGraph: CUgraph,
    ) -> CUresult = |call| {
        let answer = call();
        time::graph_changed(hGraphExec);
        Ok(answer)
    };

    /// As `cuGraphExecUpdate`.
    fn cuGraphExecMemcpyNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        copyParams: *const CUDA_MEMCPY3D,
        ctx: CUcontext,
    ) -> CUresult = |call| {
        let answer = call();
        time::graph_changed(hGraphExec);
        Ok(answer)
    };

    /// As `cuGraphExecUpdate`.
    fn cuGraphExecMemsetNodeSetParams(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        memsetParams: *const CUDA_MEMSET_NODE_PARAMS,
        ctx: CUcontext,
    ) -> CUresult = |call| {
        let answer = call();
        time::graph_changed(hGraphExec);
        Ok(answer)
    };

    /// As `cuGraphExecUpdate`.
    fn cuGraphNodeSetEnabled(
        hGraphExec: CUgraphExec,
        hNode: CUgraphNode,
        isEnabled: c_uint,
    ) -> CUresult = |call| {
        let answer = call();
        time::graph_changed(hGraphExec);
        Ok(answer)
    };
}
