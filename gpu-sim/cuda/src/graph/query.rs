//! What can be asked about a graph's structure.

use std::ffi::{c_uint, c_ulonglong};
use std::fmt::Write;

use cuda_headers::driver::{
    CUgraph, CUgraphEdgeData, CUgraphNode, CUgraphNodeType as Type, CUresult,
};

use super::{Graph, INVALID, Node, NodeWork, graph_of, resolve_graph, with_node};
use crate::entry::{entry, out};
use crate::ops::Op;

impl Node {
    pub(super) fn kind(&self) -> Type {
        match &self.work {
            NodeWork::Child(_) => Type::CU_GRAPH_NODE_TYPE_GRAPH,
            NodeWork::Op(op) => match op {
                Op::Kernel(_) => Type::CU_GRAPH_NODE_TYPE_KERNEL,
                Op::Transfer(_) => Type::CU_GRAPH_NODE_TYPE_MEMCPY,
                Op::Fill(_) => Type::CU_GRAPH_NODE_TYPE_MEMSET,
                Op::Host(_) => Type::CU_GRAPH_NODE_TYPE_HOST,
                Op::MemOps(_) => Type::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                Op::Record(_) => Type::CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                Op::Wait(_) => Type::CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                Op::Allocate(_) => Type::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                Op::Free(_) => Type::CU_GRAPH_NODE_TYPE_MEM_FREE,
                Op::Empty => Type::CU_GRAPH_NODE_TYPE_EMPTY,
            },
        }
    }

    pub(super) fn is_memory(&self) -> bool {
        matches!(
            self.kind(),
            Type::CU_GRAPH_NODE_TYPE_MEM_ALLOC | Type::CU_GRAPH_NODE_TYPE_MEM_FREE
        )
    }
}

impl Graph {
    pub(super) fn to_dot(&self) -> String {
        let mut text = String::from("digraph dot {\n");
        let inner = self.inner();
        for node in &inner.nodes {
            let (handle, kind) = (node.handle, node.kind().0);
            let _ = writeln!(
                text,
                "  n{handle:x} [label=\"node {} type {kind}\"];",
                node.local_id
            );
            for dependency in &node.dependencies {
                let _ = writeln!(text, "  n{dependency:x} -> n{handle:x};");
            }
        }
        text.push_str("}\n");
        text
    }
}

/// Answers a list in the API's way: with no array only how many there are, else as many as fit, the
/// rest of the array filled with nothing.
///
/// # Safety
/// `count` is NULL or valid, `target` NULL or valid for `*count` writes.
unsafe fn answer_list<T: Copy>(
    found: &[T],
    target: *mut T,
    count: *mut usize,
    nothing: T,
) -> Result<(), CUresult> {
    // SAFETY: by the caller's promise.
    let count = unsafe { count.as_mut() }.ok_or(INVALID)?;
    if target.is_null() {
        *count = found.len();
        return Ok(());
    }
    for index in 0..*count {
        let value = found.get(index).copied().unwrap_or(nothing);
        // SAFETY: by the caller's promise.
        unsafe { target.add(index).write(value) };
    }
    *count = found.len().min(*count);
    Ok(())
}

/// # Safety
/// As for [`answer_list`].
unsafe fn answer_nodes(
    nodes: &[usize],
    target: *mut CUgraphNode,
    count: *mut usize,
) -> Result<(), CUresult> {
    let nodes: Vec<_> = nodes
        .iter()
        .map(|node| CUgraphNode(*node as *mut _))
        .collect();
    // SAFETY: by the caller's promise.
    unsafe { answer_list(&nodes, target, count, CUgraphNode::NULL) }
}

/// # Safety
/// `data` is NULL or valid for as many writes as `count` says.
unsafe fn no_edge_data(data: *mut CUgraphEdgeData, count: *const usize) {
    if !data.is_null() && !count.is_null() {
        // SAFETY: by the caller's promise; zero bytes are edge data that say nothing.
        unsafe { std::ptr::write_bytes(data, 0, *count) };
    }
}

fn dependencies(node: CUgraphNode) -> Result<Vec<usize>, CUresult> {
    with_node(node, |node| Ok(node.dependencies.clone()))
}

fn dependents(node: CUgraphNode) -> Result<Vec<usize>, CUresult> {
    let graph = graph_of(node)?;
    let handle = node.0 as usize;
    let inner = graph.inner();
    let waiting = inner
        .nodes
        .iter()
        .filter(|other| other.dependencies.contains(&handle));
    Ok(waiting.map(|other| other.handle).collect())
}

/// # Safety
/// As for [`answer_list`], for both arrays.
unsafe fn edges(
    graph: CUgraph,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    count: *mut usize,
) -> Result<(), CUresult> {
    let graph = resolve_graph(graph)?;
    if from.is_null() != to.is_null() || count.is_null() {
        return Err(INVALID);
    }
    let inner = graph.inner();
    let (mut froms, mut tos) = (Vec::new(), Vec::new());
    for node in &inner.nodes {
        for dependency in &node.dependencies {
            froms.push(*dependency);
            tos.push(node.handle);
        }
    }
    // SAFETY: by the caller's promise; the first answer must not change the count for the second.
    unsafe {
        let mut same = *count;
        answer_nodes(&froms, from, &raw mut same)?;
        answer_nodes(&tos, to, count)
    }
}

entry! {
    fn cuGraphGetNodes(hGraph: CUgraph, nodes: *mut CUgraphNode, numNodes: *mut usize) {
        let graph = resolve_graph(hGraph)?;
        let all: Vec<usize> = graph.inner().nodes.iter().map(|node| node.handle).collect();
        answer_nodes(&all, nodes, numNodes)
    }

    fn cuGraphGetRootNodes(hGraph: CUgraph, rootNodes: *mut CUgraphNode, numRootNodes: *mut usize) {
        let graph = resolve_graph(hGraph)?;
        let inner = graph.inner();
        let roots = inner.nodes.iter().filter(|node| node.dependencies.is_empty());
        let roots: Vec<usize> = roots.map(|node| node.handle).collect();
        answer_nodes(&roots, rootNodes, numRootNodes)
    }

    fn cuGraphGetEdges(
        hGraph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        numEdges: *mut usize,
    ) {
        edges(hGraph, from, to, numEdges)
    }

    fn cuGraphGetEdges_v2(
        hGraph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        edgeData: *mut CUgraphEdgeData,
        numEdges: *mut usize,
    ) {
        no_edge_data(edgeData, numEdges);
        edges(hGraph, from, to, numEdges)
    }

    fn cuGraphNodeGetDependencies(
        hNode: CUgraphNode,
        dependencies: *mut CUgraphNode,
        numDependencies: *mut usize,
    ) {
        answer_nodes(&self::dependencies(hNode)?, dependencies, numDependencies)
    }

    fn cuGraphNodeGetDependencies_v2(
        hNode: CUgraphNode,
        dependencies: *mut CUgraphNode,
        edgeData: *mut CUgraphEdgeData,
        numDependencies: *mut usize,
    ) {
        no_edge_data(edgeData, numDependencies);
        answer_nodes(&self::dependencies(hNode)?, dependencies, numDependencies)
    }

    fn cuGraphNodeGetDependentNodes(
        hNode: CUgraphNode,
        dependentNodes: *mut CUgraphNode,
        numDependentNodes: *mut usize,
    ) {
        answer_nodes(&dependents(hNode)?, dependentNodes, numDependentNodes)
    }

    fn cuGraphNodeGetDependentNodes_v2(
        hNode: CUgraphNode,
        dependentNodes: *mut CUgraphNode,
        edgeData: *mut CUgraphEdgeData,
        numDependentNodes: *mut usize,
    ) {
        no_edge_data(edgeData, numDependentNodes);
        answer_nodes(&dependents(hNode)?, dependentNodes, numDependentNodes)
    }

    fn cuGraphNodeGetType(hNode: CUgraphNode, type_: *mut Type) {
        out(type_, with_node(hNode, |node| Ok(node.kind()))?)
    }

    fn cuGraphNodeGetContainingGraph(hNode: CUgraphNode, phGraph: *mut CUgraph) {
        out(phGraph, graph_of(hNode)?.handle)
    }

    fn cuGraphNodeGetLocalId(hNode: CUgraphNode, nodeId: *mut c_uint) {
        out(nodeId, with_node(hNode, |node| Ok(node.local_id))?)
    }

    fn cuGraphNodeGetToolsId(hNode: CUgraphNode, toolsNodeId: *mut c_ulonglong) {
        let graph = graph_of(hNode)?;
        let local = with_node(hNode, |node| Ok(node.local_id))?;
        out(toolsNodeId, (u64::from(graph.id) << 32) | u64::from(local))
    }

    fn cuGraphGetId(hGraph: CUgraph, graphId: *mut c_uint) {
        out(graphId, resolve_graph(hGraph)?.id)
    }

    fn cuGraphChildGraphNodeGetGraph(hNode: CUgraphNode, phGraph: *mut CUgraph) {
        let child = with_node(hNode, |node| match &node.work {
            NodeWork::Child(child) => Ok(child.handle),
            NodeWork::Op(_) => Err(INVALID),
        })?;
        out(phGraph, child)
    }
}
