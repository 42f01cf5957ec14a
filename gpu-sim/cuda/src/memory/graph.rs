//! Memory of graphs' memory nodes: an address from the node's creation on, memory from the first
//! launch or upload. What a device has taken for graphs it keeps until it is trimmed, whatever becomes
//! of the graphs, and gives it to whichever graph runs next: physical memory is shared by graphs that
//! do not use it at the same time, as the programming guide says.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use cuda_headers::driver::{CUdevice, CUdeviceptr, CUgraphMem_attribute as Attribute, CUresult};

use crate::entry::{entry, input, out};
use crate::memory::{
    Allocation, BLOCK, Family, Memory, Owner, charge_reserve, lock, refund_reserve, rounded,
};
use crate::{device, order};

#[derive(Debug, Clone, Copy)]
struct Node {
    core: usize,
    held: usize,
    /// There is memory behind its address.
    backed: bool,
    /// Launches that have allocated it and been followed by no free yet.
    used: u32,
    /// No graph has it any more.
    gone: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counters {
    used: usize,
    used_high: usize,
    reserved: usize,
    reserved_high: usize,
}

#[derive(Debug, Default)]
struct Graphs {
    nodes: BTreeMap<usize, Node>,
    counters: BTreeMap<usize, Counters>,
}

static GRAPHS: Mutex<Option<Graphs>> = Mutex::new(None);

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

fn graphs<T>(with: impl FnOnce(&mut Graphs) -> T) -> T {
    let mut graphs = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
    with(graphs.get_or_insert_default())
}

fn base(address: CUdeviceptr) -> Result<usize, CUresult> {
    usize::try_from(address).map_err(|_| INVALID)
}

impl Graphs {
    fn of(&mut self, core: usize) -> &mut Counters {
        self.counters.entry(core).or_default()
    }

    /// Sets what is used and reserved, and keeps the highest of each.
    fn count(&mut self, core: usize, reserved: usize) {
        let of_core = self
            .nodes
            .values()
            .filter(|node| node.core == core && node.used > 0);
        let used = of_core.map(|node| node.held).sum();
        let counters = self.of(core);
        (counters.used, counters.reserved) = (used, reserved);
        counters.used_high = counters.used_high.max(used);
        counters.reserved_high = counters.reserved_high.max(reserved);
    }

    fn recount(&mut self, core: usize) {
        let reserved = self.of(core).reserved;
        self.count(core, reserved);
    }

    /// Memory that the device has for graphs and that is behind no address.
    fn spare(&mut self, core: usize) -> usize {
        let backed = self
            .nodes
            .values()
            .filter(|node| node.core == core && node.backed);
        let backed: usize = backed.map(|node| node.held).sum();
        self.of(core).reserved - backed
    }

    /// Takes the memory of nodes that do not use it, but for those of `keep`, until `wanted` bytes are spare.
    fn take_unused(&mut self, memory: &mut Memory, core: usize, wanted: usize, keep: &[usize]) {
        let mut spare = self.spare(core);
        for (start, node) in &mut self.nodes {
            if spare >= wanted {
                break;
            }
            if node.core == core && node.backed && node.used == 0 && !keep.contains(start) {
                memory.arena.decommit(*start, node.held);
                node.backed = false;
                spare += node.held;
            }
        }
    }

    /// Puts memory behind a node's address.
    fn back(
        &mut self,
        memory: &mut Memory,
        start: usize,
        keep: &[usize],
    ) -> Result<usize, CUresult> {
        let node = *self.nodes.get(&start).ok_or(INVALID)?;
        if node.backed {
            return Ok(node.core);
        }
        self.take_unused(memory, node.core, node.held, keep);
        let missing = node.held.saturating_sub(self.spare(node.core));
        if missing > 0 {
            charge_reserve(node.core, missing)?;
        }
        if memory.arena.commit(start, node.held).is_err() {
            if missing > 0 {
                refund_reserve(node.core, missing);
            }
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let reserved = self.of(node.core).reserved + missing;
        if let Some(node) = self.nodes.get_mut(&start) {
            node.backed = true;
        }
        self.count(node.core, reserved);
        Ok(node.core)
    }

    /// Gives up the address of a node that no graph has any more; its memory stays with the device.
    fn forget(&mut self, memory: &mut Memory, start: usize) {
        let Some(node) = self.nodes.remove(&start) else {
            return;
        };
        if node.backed {
            memory.arena.decommit(start, node.held);
        }
        memory.arena.unreserve(start, node.held);
        memory.table.remove(start);
        self.recount(node.core);
    }
}

/// Reserves an address for a new node.
pub(crate) fn graph_reserve(device: CUdevice, size: usize) -> Result<CUdeviceptr, CUresult> {
    if size == 0 {
        return Err(INVALID);
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
    let node = Node {
        core,
        held,
        backed: false,
        used: 0,
        gone: false,
    };
    graphs(|g| g.nodes.insert(start, node));
    Ok(start as CUdeviceptr)
}

/// Puts memory behind the addresses of a graph's nodes, all of them or none. A launch uses them: it says which
/// it frees again, so that several may be under way; an upload does not.
pub(crate) fn graph_commit(
    addresses: &[CUdeviceptr],
    frees: Option<&dyn Fn(CUdeviceptr) -> bool>,
) -> Result<(), CUresult> {
    let starts: Result<Vec<usize>, CUresult> = addresses.iter().map(|at| base(*at)).collect();
    let starts = starts?;
    let mut memory = lock()?;
    graphs(|g| {
        let mut fresh = Vec::new();
        for start in &starts {
            let core = match g.back(&mut memory, *start, &starts) {
                Ok(core) => core,
                Err(error) => {
                    g.disuse(&fresh);
                    return Err(error);
                }
            };
            if let Some(node) = g.nodes.get_mut(start)
                && let Some(frees) = frees
                && (node.used == 0 || frees(*start as CUdeviceptr))
            {
                node.used += 1;
                fresh.push(*start);
            }
            g.recount(core);
        }
        Ok(())
    })
}

impl Graphs {
    fn disuse(&mut self, starts: &[usize]) {
        for start in starts {
            if let Some(node) = self.nodes.get_mut(start) {
                node.used -= 1;
                let core = node.core;
                self.recount(core);
            }
        }
    }
}

/// A free node, `cuMemFree` or `cuMemFreeAsync` has run for this address: its memory can be trimmed.
pub(crate) fn graph_release(address: CUdeviceptr) -> Result<(), CUresult> {
    let start = base(address)?;
    let mut memory = lock()?;
    graphs(|g| {
        let node = *g.nodes.get(&start).ok_or(INVALID)?;
        if node.used == 0 {
            return Err(INVALID);
        }
        g.disuse(&[start]);
        if node.gone && node.used == 1 {
            g.forget(&mut memory, start);
        }
        Ok(())
    })
}

/// Whether a launch has allocated it and nothing has freed it since.
pub(crate) fn graph_in_use(address: CUdeviceptr) -> bool {
    base(address)
        .is_ok_and(|start| graphs(|g| g.nodes.get(&start).is_some_and(|node| node.used > 0)))
}

/// No graph and no executable graph has the node any more. Memory that the application has not freed
/// outlives its graph.
pub(crate) fn graph_forget(address: CUdeviceptr) {
    let (Ok(start), Ok(mut memory)) = (base(address), lock()) else {
        return;
    };
    graphs(|g| match g.nodes.get_mut(&start) {
        Some(node) if node.used > 0 => node.gone = true,
        _ => g.forget(&mut memory, start),
    });
}

fn trim(core: usize) -> Result<(), CUresult> {
    let mut memory = lock()?;
    graphs(|g| {
        g.take_unused(&mut memory, core, usize::MAX, &[]);
        let spare = g.spare(core);
        if spare > 0 {
            refund_reserve(core, spare);
        }
        let reserved = g.of(core).reserved - spare;
        g.count(core, reserved);
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
        let counters = graphs(|g| *g.of(core));
        let counter = match attr {
            Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT => counters.used,
            Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => counters.used_high,
            Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => counters.reserved,
            Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => counters.reserved_high,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        out(value.cast::<u64>(), counter as u64)
    }

    /// Only the high marks can be set, and only to zero.
    fn cuDeviceSetGraphMemAttribute(device: CUdevice, attr: Attribute, value: *mut c_void) {
        let core = device::core_index(device)?;
        if *input(value.cast_const().cast::<u64>())? != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        graphs(|g| {
            let counters = g.of(core);
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
