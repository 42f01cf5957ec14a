//! Graphs: nodes of work with what each waits for.

mod attributes;
mod build;
mod exec;
mod nodes;
mod params;
mod plan;
mod query;
mod update;
mod user;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cuda_headers::driver::{CUdeviceptr, CUgraph, CUgraphNode, CUresult};

use crate::handles::{Kind, Table};
use crate::ops::Op;

use exec::Exec;

pub(crate) use exec::NULL_MODE_GRAPH;

/// A graph.
pub(crate) struct Graph {
    pub(crate) handle: CUgraph,
    pub(crate) id: u32,
    /// Belongs to a child graph node: not the application's to destroy.
    child: bool,
    inner: Mutex<Inner>,
    /// The executable graph made of it; with memory nodes there can be only one at a time.
    instance: Mutex<Weak<Exec>>,
}

// SAFETY: handles are opaque values, nothing is reached through them.
unsafe impl Send for Graph {}
// SAFETY: as above; everything else is guarded or constant.
unsafe impl Sync for Graph {}

/// The nodes of a graph.
#[derive(Default)]
pub(crate) struct Inner {
    /// In the order in which they were added.
    pub(crate) nodes: Vec<Node>,
    next_local: u32,
    /// For a clone: the clone's node for each of the original's.
    originals: HashMap<usize, usize>,
    objects: user::Held,
}

/// A node.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) handle: usize,
    pub(crate) work: NodeWork,
    pub(crate) dependencies: Vec<usize>,
    pub(crate) local_id: u32,
    /// Of a kernel node; none changes how it is run.
    pub(crate) attributes: attributes::Attributes,
}

/// What a node does.
#[derive(Clone)]
pub(crate) enum NodeWork {
    Op(Op),
    Child(Arc<Graph>),
}

static GRAPHS: Table<Graph> = Table::new(Kind::Graph);
/// The graph of each node.
static NODES: Table<CUgraphHandle> = Table::new(Kind::GraphNode);
static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// A graph's handle, as a number that can be shared between threads.
struct CUgraphHandle(usize);

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// Makes an empty graph.
pub(crate) fn create(child: bool) -> Arc<Graph> {
    let (_, graph) = GRAPHS.insert_with(|handle| Graph {
        handle: CUgraph(handle as *mut _),
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        child,
        inner: Mutex::default(),
        instance: Mutex::default(),
    });
    graph
}

/// The graph that a handle stands for.
pub(crate) fn resolve_graph(handle: CUgraph) -> Result<Arc<Graph>, CUresult> {
    GRAPHS.get(handle.0 as usize).ok_or(INVALID)
}

/// The graph of a node.
pub(crate) fn graph_of(node: CUgraphNode) -> Result<Arc<Graph>, CUresult> {
    let graph = NODES.get(node.0 as usize).ok_or(INVALID)?;
    GRAPHS.get(graph.0).ok_or(INVALID)
}

/// Works on a node within its graph.
pub(crate) fn with_node<T>(
    node: CUgraphNode,
    with: impl FnOnce(&mut Node) -> Result<T, CUresult>,
) -> Result<T, CUresult> {
    let graph = graph_of(node)?;
    let mut inner = graph.inner();
    with(inner.node_mut(node.0 as usize).ok_or(INVALID)?)
}

/// Destroys a graph with its nodes.
pub(crate) fn destroy(graph: &Graph) {
    GRAPHS.remove(graph.handle.0 as usize);
    let nodes = std::mem::take(&mut graph.inner().nodes);
    for node in nodes {
        forget(&node);
    }
    let objects = std::mem::take(&mut graph.inner().objects);
    objects.release_all();
}

/// What goes with a node that goes.
fn forget(node: &Node) {
    NODES.remove(node.handle);
    if let NodeWork::Child(child) = &node.work {
        destroy(child);
    }
}

impl Node {
    fn frees(&self, address: CUdeviceptr) -> bool {
        matches!(&self.work, NodeWork::Op(Op::Free(freed)) if *freed == address)
    }
}

impl Graph {
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a node that waits for `dependencies`, which must be different nodes of this graph.
    pub(crate) fn add(
        &self,
        work: NodeWork,
        dependencies: Vec<usize>,
    ) -> Result<CUgraphNode, CUresult> {
        let mut inner = self.inner();
        for (index, dependency) in dependencies.iter().enumerate() {
            let twice = dependencies[..index].contains(dependency);
            if twice || inner.node(*dependency).is_none() {
                return Err(INVALID);
            }
        }
        if let NodeWork::Op(Op::Free(address)) = &work
            && inner.nodes.iter().any(|node| node.frees(*address))
        {
            return Err(INVALID);
        }
        Ok(inner.push(self.handle, work, dependencies))
    }

    /// A copy with nodes of its own.
    pub(crate) fn duplicate(&self, child: bool) -> Arc<Graph> {
        let copy = create(child);
        let inner = self.inner();
        let mut new = copy.inner();
        for node in &inner.nodes {
            let work = match &node.work {
                NodeWork::Op(op) => NodeWork::Op(op.clone()),
                NodeWork::Child(graph) => NodeWork::Child(graph.duplicate(true)),
            };
            let handle = new.push(copy.handle, work, Vec::new());
            new.originals.insert(node.handle, handle.0 as usize);
        }
        for (index, node) in inner.nodes.iter().enumerate() {
            let dependencies = node.dependencies.iter();
            new.nodes[index].dependencies = dependencies
                .filter_map(|dependency| new.originals.get(dependency).copied())
                .collect();
        }
        drop(new);
        copy
    }

    /// Whether there are memory nodes in it.
    pub(crate) fn has_memory_nodes(&self) -> bool {
        self.inner().nodes.iter().any(|node| match &node.work {
            NodeWork::Op(op) => matches!(op, Op::Allocate(_) | Op::Free(_)),
            NodeWork::Child(child) => child.has_memory_nodes(),
        })
    }
}

impl Inner {
    pub(crate) fn node(&self, handle: usize) -> Option<&Node> {
        self.nodes.iter().rev().find(|node| node.handle == handle)
    }

    pub(crate) fn node_mut(&mut self, handle: usize) -> Option<&mut Node> {
        self.nodes
            .iter_mut()
            .rev()
            .find(|node| node.handle == handle)
    }

    fn push(&mut self, graph: CUgraph, work: NodeWork, dependencies: Vec<usize>) -> CUgraphNode {
        let handle = NODES.insert(CUgraphHandle(graph.0 as usize));
        self.nodes.push(Node {
            handle,
            work,
            dependencies,
            local_id: self.next_local,
            attributes: attributes::Attributes::default(),
        });
        self.next_local += 1;
        CUgraphNode(handle as *mut _)
    }

    /// Whether `ancestor` is `node` or comes before it.
    pub(crate) fn reaches(&self, node: usize, ancestor: usize) -> bool {
        let mut open = vec![node];
        let mut seen = Vec::new();
        while let Some(next) = open.pop() {
            if next == ancestor {
                return true;
            }
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            if let Some(node) = self.node(next) {
                open.extend(&node.dependencies);
            }
        }
        false
    }
}
