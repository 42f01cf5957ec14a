//! Memory of graphs' memory nodes: an address from the node's creation on, memory from the first
//! launch or upload, kept until it is trimmed.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use cuda_headers::driver::{CUdevice, CUdeviceptr, CUgraphMem_attribute as Attribute, CUresult};

use crate::entry::{entry, input, out};
use crate::memory::{
    Allocation, BLOCK, Family, Owner, charge_reserve, lock, refund_reserve, rounded,
};
use crate::{device, order};

#[derive(Debug, Clone, Copy)]
struct Node {
    core: usize,
    held: usize,
    mapped: bool,
    used: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counters {
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
}

#[derive(Debug, Default)]
struct Graphs {
    nodes: BTreeMap<usize, Node>,
    counters: BTreeMap<usize, Counters>,
}

static GRAPHS: Mutex<Option<Graphs>> = Mutex::new(None);

fn graphs<T>(with: impl FnOnce(&mut Graphs) -> T) -> T {
    let mut graphs = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
    with(graphs.get_or_insert_default())
}

fn base(address: CUdeviceptr) -> Result<usize, CUresult> {
    usize::try_from(address).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)
}

impl Graphs {
    fn count(&mut self, core: usize, used: i64, reserved: i64) {
        let counters = self.counters.entry(core).or_default();
        counters.used = counters.used.saturating_add_signed(used);
        counters.reserved = counters.reserved.saturating_add_signed(reserved);
        counters.used_high = counters.used_high.max(counters.used);
        counters.reserved_high = counters.reserved_high.max(counters.reserved);
    }
}

/// Reserves an address for a new node.
pub(crate) fn graph_reserve(device: CUdevice, size: usize) -> Result<CUdeviceptr, CUresult> {
    if size == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let core = device::core_index(device)?;
    let held = rounded(size, BLOCK)?;
    let mut memory = lock()?;
    let start = memory
        .arena
        .reserve(held, BLOCK)
        .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    let owner = Owner {
        context: 0,
        device,
        core,
    };
    memory
        .table
        .insert(Allocation::new(start, size, held, Family::Graph, owner));
    graphs(|g| {
        g.nodes.insert(
            start,
            Node {
                core,
                held,
                mapped: false,
                used: false,
            },
        )
    });
    Ok(start as CUdeviceptr)
}

/// Puts memory behind a node's address, when its graph is uploaded or launched.
pub(crate) fn graph_commit(address: CUdeviceptr) -> Result<(), CUresult> {
    let start = base(address)?;
    let mut memory = lock()?;
    graphs(|g| {
        let node = g
            .nodes
            .get_mut(&start)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let held = i64::try_from(node.held).unwrap_or(i64::MAX);
        let core = node.core;
        let mut grown = 0;
        if !node.mapped {
            charge_reserve(core, node.held)?;
            if memory.arena.commit(start, node.held).is_err() {
                refund_reserve(core, node.held);
                return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
            }
            node.mapped = true;
            grown = held;
        }
        let more = if std::mem::replace(&mut node.used, true) {
            0
        } else {
            held
        };
        g.count(core, more, grown);
        Ok(())
    })
}

/// A free node, `cuMemFree` or `cuMemFreeAsync` has run for this address: its memory can be trimmed.
pub(crate) fn graph_release(address: CUdeviceptr) -> Result<(), CUresult> {
    let start = base(address)?;
    graphs(|g| {
        let node = g
            .nodes
            .get_mut(&start)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if !std::mem::replace(&mut node.used, false) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let (core, held) = (node.core, i64::try_from(node.held).unwrap_or(i64::MAX));
        g.count(core, -held, 0);
        Ok(())
    })
}

/// Whether a launch has allocated it and nothing has freed it since.
pub(crate) fn graph_in_use(address: CUdeviceptr) -> bool {
    base(address).is_ok_and(|start| graphs(|g| g.nodes.get(&start).is_some_and(|node| node.used)))
}

/// The node is gone for good, with its graph and all executable graphs made of it.
pub(crate) fn graph_forget(address: CUdeviceptr) {
    let (Ok(start), Ok(mut memory)) = (base(address), lock()) else {
        return;
    };
    graphs(|g| {
        let Some(node) = g.nodes.remove(&start) else {
            return;
        };
        let held = i64::try_from(node.held).unwrap_or(i64::MAX);
        if node.mapped {
            memory.arena.decommit(start, node.held);
            refund_reserve(node.core, node.held);
            g.count(node.core, if node.used { -held } else { 0 }, -held);
        }
        memory.arena.unreserve(start, node.held);
        memory.table.remove(start);
    });
}

fn trim(core: usize) -> Result<(), CUresult> {
    let mut memory = lock()?;
    graphs(|g| {
        let mut freed = 0;
        for (start, node) in &mut g.nodes {
            if node.core == core && node.mapped && !node.used {
                memory.arena.decommit(*start, node.held);
                refund_reserve(core, node.held);
                node.mapped = false;
                freed += i64::try_from(node.held).unwrap_or(0);
            }
        }
        g.count(core, 0, -freed);
    });
    Ok(())
}

entry! {
    /// Gives back what no graph uses at the moment.
    fn cuDeviceGraphMemTrim(device: CUdevice) {
        order::unsafe_call()?;
        trim(device::core_index(device)?)
    }

    fn cuDeviceGetGraphMemAttribute(device: CUdevice, attr: Attribute, value: *mut c_void) {
        let core = device::core_index(device)?;
        let counters = graphs(|g| *g.counters.entry(core).or_default());
        let counter = match attr {
            Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT => counters.used,
            Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => counters.used_high,
            Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => counters.reserved,
            Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => counters.reserved_high,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        out(value.cast::<u64>(), counter)
    }

    /// Only the high marks can be set, and only to zero.
    fn cuDeviceSetGraphMemAttribute(device: CUdevice, attr: Attribute, value: *mut c_void) {
        let core = device::core_index(device)?;
        if *input(value.cast_const().cast::<u64>())? != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        graphs(|g| {
            let counters = g.counters.entry(core).or_default();
            match attr {
                Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => counters.used_high = counters.used,
                Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => {
                    counters.reserved_high = counters.reserved;
                }
                _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            }
            Ok(())
        })
    }
}
