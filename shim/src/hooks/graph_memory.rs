//! Memory of graphs: added up when a graph is made executable, reserved when it is uploaded, given back when it is trimmed.
//! Launches are in [`super::graph`].

use core::ffi::{c_char, c_ulonglong};

use cuda_headers::driver::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUdevice, CUgraph, CUgraphExec, CUgraphInstantiate_flags,
    CUgraphNode, CUresult, CUstream,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::graph;
use crate::memory::pool::Default::{Legacy, PerThread};

hooks! { DRIVER as fns;
    /// Nodes may come from anywhere: made one by one, captured, cloned. Here they are together.
    fn cuGraphInstantiate(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        phErrorNode: *mut CUgraphNode,
        logBuffer: *mut c_char,
        bufferSize: usize,
    ) -> CUresult = |call| graph::instantiate(phGraphExec, hGraph, false, &call);

    /// As `cuGraphInstantiate`.
    fn cuGraphInstantiate_v2(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        phErrorNode: *mut CUgraphNode,
        logBuffer: *mut c_char,
        bufferSize: usize,
    ) -> CUresult = |call| graph::instantiate(phGraphExec, hGraph, false, &call);

    /// As `cuGraphInstantiate`.
    fn cuGraphInstantiateWithFlags(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        flags: c_ulonglong,
    ) -> CUresult = |call| graph::instantiate(phGraphExec, hGraph, false, &call);

    /// As `cuGraphInstantiate`; with a flag it uploads the graph as well.
    fn cuGraphInstantiateWithParams(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        instantiateParams: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) -> CUresult =
        |call| graph::instantiate(phGraphExec, hGraph, uploads(instantiateParams), &call);

    /// As `cuGraphInstantiateWithParams`.
    fn cuGraphInstantiateWithParams_ptsz(
        phGraphExec: *mut CUgraphExec,
        hGraph: CUgraph,
        instantiateParams: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) -> CUresult =
        |call| graph::instantiate(phGraphExec, hGraph, uploads(instantiateParams), &call);

    fn cuGraphUpload(hGraph: CUgraphExec, hStream: CUstream) -> CUresult =
        |call| graph::upload(hGraph, (hStream, Legacy), &call);

    fn cuGraphUpload_ptsz(hGraphExec: CUgraphExec, hStream: CUstream) -> CUresult =
        |call| graph::upload(hGraphExec, (hStream, PerThread), &call);

    fn cuDeviceGraphMemTrim(device: CUdevice) -> CUresult = |call| graph::trim(device, &call);
}

fn uploads(params: *const CUDA_GRAPH_INSTANTIATE_PARAMS) -> bool {
    let flag = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD.0;
    // SAFETY: the driver reads it next; NULL it refuses itself.
    unsafe { params.as_ref() }.is_some_and(|params| params.flags & u64::from(flag) != 0)
}
