//! Adding nodes, and reading and changing what they do.

use cuda_headers::driver::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUcontext, CUdeviceptr, CUevent, CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphNodeParams,
    CUresult,
};

use super::params::{self, KernelParams};
use super::{INVALID, Node, NodeWork, resolve_graph, with_node};
use crate::capture::read_nodes;
use crate::entry::{entry, input, out};
use crate::ops::Op;
use crate::{copy, ctx, memory};

/// Adds a node to a graph.
///
/// # Safety
/// The dependencies are as many as they are said to be, the target is NULL or valid.
unsafe fn add(
    node: *mut CUgraphNode,
    graph: CUgraph,
    (dependencies, count): (*const CUgraphNode, usize),
    work: impl FnOnce() -> Result<NodeWork, CUresult>,
) -> Result<(), CUresult> {
    let graph = resolve_graph(graph)?;
    if node.is_null() {
        return Err(INVALID);
    }
    // SAFETY: by the caller's promise.
    let before = unsafe { read_nodes(dependencies, count) }?;
    let before = before.iter().map(|node| node.0 as usize).collect();
    let added = graph.add(work()?, before)?;
    // SAFETY: not NULL, and the caller vouches for the rest.
    unsafe { out(node, added) }
}

/// Replaces what a node does by something of the same kind.
fn set(node: CUgraphNode, op: Op) -> Result<(), CUresult> {
    with_node(node, |node| node.replace(NodeWork::Op(op)))
}

impl Node {
    pub(super) fn replace(&mut self, work: NodeWork) -> Result<(), CUresult> {
        let new = Self {
            work,
            ..self.clone()
        };
        if new.kind() != self.kind() || self.is_memory() {
            return Err(INVALID);
        }
        *self = new;
        Ok(())
    }
}

/// What a node does, if it is of the kind that is asked for.
fn get<T>(node: CUgraphNode, read: impl FnOnce(&Op) -> Option<T>) -> Result<T, CUresult> {
    with_node(node, |node| match &node.work {
        NodeWork::Op(op) => read(op).ok_or(INVALID),
        NodeWork::Child(_) => Err(INVALID),
    })
}

fn op(result: Result<Op, CUresult>) -> Result<NodeWork, CUresult> {
    result.map(NodeWork::Op)
}

entry! {
    fn cuGraphAddKernelNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) {
        let params = KernelParams::from(input(nodeParams)?);
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(params.op()))
    }

    fn cuGraphAddKernelNode_v2(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
    ) {
        let params = KernelParams::from(input(nodeParams)?);
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(params.op()))
    }

    fn cuGraphAddMemcpyNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        copyParams: *const CUDA_MEMCPY3D,
        ctx: CUcontext,
    ) {
        let params = input(copyParams)?;
        ctx::from_handle_or_current(ctx)?;
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(params::memcpy_op(params)))
    }

    fn cuGraphAddMemsetNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        memsetParams: *const CUDA_MEMSET_NODE_PARAMS,
        ctx: CUcontext,
    ) {
        let params = input(memsetParams)?;
        ctx::from_handle_or_current(ctx)?;
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(params::memset_op(params)))
    }

    fn cuGraphAddHostNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        nodeParams: *const CUDA_HOST_NODE_PARAMS,
    ) {
        let params = input(nodeParams)?;
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(params::host_op(params.fn_, params.userData)))
    }

    fn cuGraphAddChildGraphNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        childGraph: CUgraph,
    ) {
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || params::child_work(childGraph))
    }

    fn cuGraphAddEmptyNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
    ) {
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(Ok(Op::Empty)))
    }

    fn cuGraphAddEventRecordNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        event: CUevent,
    ) {
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(params::record_op(event)))
    }

    fn cuGraphAddEventWaitNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        event: CUevent,
    ) {
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(params::wait_op(event)))
    }

    fn cuGraphAddMemAllocNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        nodeParams: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) {
        let params = nodeParams.as_mut().ok_or(INVALID)?;
        let before = (dependencies, numDependencies);
        let (props, bytes) = (params.poolProps, params.bytesize);
        let address = &mut params.dptr;
        add(phGraphNode, hGraph, before, || op(params::allocation_op(&props, bytes, address)))
    }

    fn cuGraphAddMemFreeNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        dptr: CUdeviceptr,
    ) {
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(params::free_op(dptr)))
    }

    fn cuGraphAddBatchMemOpNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) {
        let params = input(nodeParams)?;
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || op(params::memops_op(params)))
    }

    fn cuGraphAddNode(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        numDependencies: usize,
        nodeParams: *mut CUgraphNodeParams,
    ) {
        let params = nodeParams.as_mut().ok_or(INVALID)?;
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || params::work_of(params))
    }

    fn cuGraphAddNode_v2(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        dependencyData: *const CUgraphEdgeData,
        numDependencies: usize,
        nodeParams: *mut CUgraphNodeParams,
    ) {
        let _ = dependencyData;
        let params = nodeParams.as_mut().ok_or(INVALID)?;
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || params::work_of(params))
    }

    fn cuGraphAddNode_v3(
        phGraphNode: *mut CUgraphNode,
        hGraph: CUgraph,
        dependencies: *const CUgraphNode,
        dependencyData: *const CUgraphEdgeData,
        numDependencies: usize,
        nodeParams: *mut CUgraphNodeParams,
    ) {
        let _ = dependencyData;
        let params = nodeParams.as_mut().ok_or(INVALID)?;
        let before = (dependencies, numDependencies);
        add(phGraphNode, hGraph, before, || params::work_of(params))
    }

    fn cuGraphKernelNodeGetParams(
        hNode: CUgraphNode,
        nodeParams: *mut CUDA_KERNEL_NODE_PARAMS_v1,
    ) {
        let found = get(hNode, |op| match op {
            Op::Kernel(kernel) => Some(params::describe_kernel(kernel)),
            _ => None,
        })?;
        let params = CUDA_KERNEL_NODE_PARAMS_v1 {
            func: found.func,
            gridDimX: found.gridDimX,
            gridDimY: found.gridDimY,
            gridDimZ: found.gridDimZ,
            blockDimX: found.blockDimX,
            blockDimY: found.blockDimY,
            blockDimZ: found.blockDimZ,
            sharedMemBytes: found.sharedMemBytes,
            kernelParams: found.kernelParams,
            extra: found.extra,
        };
        out(nodeParams, params)
    }

    fn cuGraphKernelNodeGetParams_v2(
        hNode: CUgraphNode,
        nodeParams: *mut CUDA_KERNEL_NODE_PARAMS,
    ) {
        let found = get(hNode, |op| match op {
            Op::Kernel(kernel) => Some(params::describe_kernel(kernel)),
            _ => None,
        })?;
        out(nodeParams, found)
    }

    fn cuGraphKernelNodeSetParams(
        hNode: CUgraphNode,
        nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1,
    ) {
        set(hNode, KernelParams::from(input(nodeParams)?).op()?)
    }

    fn cuGraphKernelNodeSetParams_v2(
        hNode: CUgraphNode,
        nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
    ) {
        set(hNode, KernelParams::from(input(nodeParams)?).op()?)
    }

    fn cuGraphMemcpyNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMCPY3D) {
        let found = get(hNode, |op| match op {
            Op::Transfer(transfer) => Some(copy::describe(transfer)),
            _ => None,
        })?;
        out(nodeParams, found)
    }

    fn cuGraphMemcpyNodeSetParams(hNode: CUgraphNode, nodeParams: *const CUDA_MEMCPY3D) {
        set(hNode, params::memcpy_op(input(nodeParams)?)?)
    }

    fn cuGraphMemsetNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMSET_NODE_PARAMS) {
        let found = get(hNode, |op| match op {
            Op::Fill(fill) => Some(params::describe_memset(fill)),
            _ => None,
        })?;
        out(nodeParams, found)
    }

    fn cuGraphMemsetNodeSetParams(hNode: CUgraphNode, nodeParams: *const CUDA_MEMSET_NODE_PARAMS) {
        set(hNode, params::memset_op(input(nodeParams)?)?)
    }

    fn cuGraphHostNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_HOST_NODE_PARAMS) {
        let found = get(hNode, |op| match op {
            Op::Host(call) => Some(params::describe_host(call)),
            _ => None,
        })?;
        out(nodeParams, found)
    }

    fn cuGraphHostNodeSetParams(hNode: CUgraphNode, nodeParams: *const CUDA_HOST_NODE_PARAMS) {
        let params = input(nodeParams)?;
        set(hNode, params::host_op(params.fn_, params.userData)?)
    }

    fn cuGraphEventRecordNodeGetEvent(hNode: CUgraphNode, event_out: *mut CUevent) {
        let found = get(hNode, |op| match op {
            Op::Record(event) => Some(event.handle),
            _ => None,
        })?;
        out(event_out, found)
    }

    fn cuGraphEventRecordNodeSetEvent(hNode: CUgraphNode, event: CUevent) {
        set(hNode, params::record_op(event)?)
    }

    fn cuGraphEventWaitNodeGetEvent(hNode: CUgraphNode, event_out: *mut CUevent) {
        let found = get(hNode, |op| match op {
            Op::Wait(event) => Some(event.handle),
            _ => None,
        })?;
        out(event_out, found)
    }

    fn cuGraphEventWaitNodeSetEvent(hNode: CUgraphNode, event: CUevent) {
        set(hNode, params::wait_op(event)?)
    }

    fn cuGraphMemAllocNodeGetParams(
        hNode: CUgraphNode,
        params_out: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
    ) {
        let (address, bytes) = get(hNode, |op| match op {
            Op::Allocate(reserved) => Some((reserved.address, reserved.bytes)),
            _ => None,
        })?;
        let device = memory::find(address).map_or(0, |found| found.owner.device);
        out(params_out, params::describe_allocation(device, address, bytes))
    }

    fn cuGraphMemFreeNodeGetParams(hNode: CUgraphNode, dptr_out: *mut CUdeviceptr) {
        let found = get(hNode, |op| match op {
            Op::Free(address) => Some(*address),
            _ => None,
        })?;
        out(dptr_out, found)
    }

    fn cuGraphBatchMemOpNodeSetParams(
        hNode: CUgraphNode,
        nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ) {
        set(hNode, params::memops_op(input(nodeParams)?)?)
    }

    fn cuGraphNodeSetParams(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams) {
        let work = params::work_of(nodeParams.as_mut().ok_or(INVALID)?)?;
        with_node(hNode, |node| node.replace(work))
    }

    fn cuGraphNodeSetParams_v2(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams) {
        let work = params::work_of(nodeParams.as_mut().ok_or(INVALID)?)?;
        with_node(hNode, |node| node.replace(work))
    }

    fn cuGraphNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams) {
        out(nodeParams, with_node(hNode, |node| params::describe(node))?)
    }
}
