//! Executable graphs: their launches, and what those cost, kept by the graph's handle until it changes or goes; what memory
//! they take.

use core::ffi::c_uint;

use cuda_headers::driver::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUcontext, CUgraph, CUgraphExec, CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo,
    CUgraphNode, CUgraphNodeParams, CUresult, CUstream,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::graph;
use crate::memory::pool::Default::{Legacy, PerThread};
use crate::time::{self, stream};

hooks! { DRIVER as fns, hot if time::limited() || graph::any();
    /// Charged by what earlier launches of the same graph took; memory as far as the driver has none for it yet.
    fn cuGraphLaunch(hGraph: CUgraphExec, hStream: CUstream) -> CUresult = |call| {
        let timed = || time::graph(hGraph, stream(hStream, false), &call);
        graph::launch(hGraph, (hStream, Legacy), timed, &call)
    };

    /// As `cuGraphLaunch`.
    fn cuGraphLaunch_ptsz(hGraph: CUgraphExec, hStream: CUstream) -> CUresult = |call| {
        let timed = || time::graph(hGraph, stream(hStream, true), &call);
        graph::launch(hGraph, (hStream, PerThread), timed, &call)
    };

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
