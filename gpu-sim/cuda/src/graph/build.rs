//! Graphs as a whole: making, copying, destroying, and what waits for what.

use std::ffi::{c_char, c_uint};

use cuda_headers::driver::{
    CUgraph, CUgraphConditionalHandle, CUgraphEdgeData, CUgraphNode, CUresult,
};

use super::{
    Graph, INVALID, NULL_MODE_GRAPH, Node, create, destroy, forget, graph_of, resolve_graph,
};
use crate::capture::read_nodes;
use crate::entry::{answer, entry, out};
use crate::state;

/// Pairs of nodes of one graph, from and to.
///
/// # Safety
/// Both arrays are valid for `count` reads, or `count` is 0.
unsafe fn pairs(
    graph: &Graph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
) -> Result<Vec<(usize, usize)>, CUresult> {
    // SAFETY: by the caller's promise.
    let (from, to) = unsafe { (read_nodes(from, count)?, read_nodes(to, count)?) };
    let inner = graph.inner();
    from.iter()
        .zip(&to)
        .map(|(from, to)| {
            let (from, to) = (from.0 as usize, to.0 as usize);
            let known = inner.node(from).is_some() && inner.node(to).is_some();
            (known && from != to).then_some((from, to)).ok_or(INVALID)
        })
        .collect()
}

/// # Safety
/// As for [`pairs`].
unsafe fn connect(
    graph: CUgraph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
) -> Result<(), CUresult> {
    let graph = resolve_graph(graph)?;
    // SAFETY: by the caller's promise.
    let pairs = unsafe { pairs(&graph, from, to, count) }?;
    let mut inner = graph.inner();
    for (from, to) in pairs {
        let node = inner.node_mut(to).ok_or(INVALID)?;
        if node.dependencies.contains(&from) {
            return Err(INVALID);
        }
        node.dependencies.push(from);
    }
    Ok(())
}

/// # Safety
/// As for [`pairs`].
unsafe fn disconnect(
    graph: CUgraph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
) -> Result<(), CUresult> {
    let graph = resolve_graph(graph)?;
    // SAFETY: by the caller's promise.
    let pairs = unsafe { pairs(&graph, from, to, count) }?;
    if graph.has_memory_nodes() {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let mut inner = graph.inner();
    for (from, to) in pairs {
        let node = inner.node_mut(to).ok_or(INVALID)?;
        let at = node.dependencies.iter().position(|found| *found == from);
        node.dependencies.remove(at.ok_or(INVALID)?);
    }
    Ok(())
}

entry! {
    fn cuGraphCreate(phGraph: *mut CUgraph, flags: c_uint),
    null { answer(out(phGraph, CUgraph(NULL_MODE_GRAPH as *mut _))) } {
        if phGraph.is_null() || flags != 0 {
            return Err(INVALID);
        }
        out(phGraph, create(false).handle)
    }

    fn cuGraphDestroy(hGraph: CUgraph) {
        let graph = resolve_graph(hGraph)?;
        if graph.child {
            return Err(INVALID);
        }
        destroy(&graph);
        Ok(())
    }

    /// Memory nodes cannot be copied.
    fn cuGraphClone(phGraphClone: *mut CUgraph, originalGraph: CUgraph),
    null { answer(out(phGraphClone, CUgraph(NULL_MODE_GRAPH as *mut _))) } {
        let graph = resolve_graph(originalGraph)?;
        if phGraphClone.is_null() {
            return Err(INVALID);
        }
        if graph.has_memory_nodes() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        out(phGraphClone, graph.duplicate(false).handle)
    }

    fn cuGraphNodeFindInClone(
        phNode: *mut CUgraphNode,
        hOriginalNode: CUgraphNode,
        hClonedGraph: CUgraph,
    ) {
        let clone = resolve_graph(hClonedGraph)?;
        let found = clone.inner().originals.get(&(hOriginalNode.0 as usize)).copied();
        out(phNode, CUgraphNode(found.ok_or(INVALID)? as *mut _))
    }

    /// What waited for the node no longer waits for anything in its place. A graph with memory nodes
    /// keeps all its nodes.
    fn cuGraphDestroyNode(hNode: CUgraphNode) {
        let graph = graph_of(hNode)?;
        let mut inner = graph.inner();
        let handle = hNode.0 as usize;
        let at = inner.nodes.iter().position(|node| node.handle == handle).ok_or(INVALID)?;
        if inner.nodes.iter().any(Node::is_memory) {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let node = inner.nodes.remove(at);
        for other in &mut inner.nodes {
            other.dependencies.retain(|dependency| *dependency != handle);
        }
        drop(inner);
        forget(&node);
        Ok(())
    }

    fn cuGraphAddDependencies(
        hGraph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        numDependencies: usize,
    ) {
        connect(hGraph, from, to, numDependencies)
    }

    fn cuGraphAddDependencies_v2(
        hGraph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        edgeData: *const CUgraphEdgeData,
        numDependencies: usize,
    ) {
        let _ = edgeData;
        connect(hGraph, from, to, numDependencies)
    }

    fn cuGraphRemoveDependencies(
        hGraph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        numDependencies: usize,
    ) {
        disconnect(hGraph, from, to, numDependencies)
    }

    fn cuGraphRemoveDependencies_v2(
        hGraph: CUgraph,
        from: *const CUgraphNode,
        to: *const CUgraphNode,
        edgeData: *const CUgraphEdgeData,
        numDependencies: usize,
    ) {
        let _ = edgeData;
        disconnect(hGraph, from, to, numDependencies)
    }

    /// Conditional nodes are not simulated.
    fn cuGraphConditionalHandleCreate(
        pHandle_out: *mut CUgraphConditionalHandle,
        hGraph: CUgraph,
        ctx: cuda_headers::driver::CUcontext,
        defaultLaunchValue: c_uint,
        flags: c_uint,
    ) {
        let _ = (ctx, defaultLaunchValue, flags);
        resolve_graph(hGraph)?;
        if pHandle_out.is_null() {
            return Err(INVALID);
        }
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    }

    /// Writes the graph in DOT's language: the nodes' types and what waits for what.
    fn cuGraphDebugDotPrint(hGraph: CUgraph, path: *const c_char, flags: c_uint) {
        let _ = flags;
        state::current()?;
        let graph = resolve_graph(hGraph)?;
        if path.is_null() {
            return Err(INVALID);
        }
        // SAFETY: a C string, as the driver API asks.
        let path = unsafe { std::ffi::CStr::from_ptr(path) }.to_str().map_err(|_| INVALID)?;
        std::fs::write(path, graph.to_dot()).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)
    }
}
