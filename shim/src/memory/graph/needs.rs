//! What the memory nodes of a graph add up to, device by device.

use core::mem::MaybeUninit;

use cuda_headers::driver::{
    CUDA_MEM_ALLOC_NODE_PARAMS, CUgraph, CUgraphNode, CUgraphNodeType, CUmemLocationType, CUresult,
};
use quota_abi::map;

use super::super::{number_of, rounded};
use crate::device::Device;
use crate::driver::{call, relaxed};
use crate::process::Process;

/// Devices that one graph's memory is counted on ahead of a launch; what it takes elsewhere is charged afterwards.
pub(super) const DEVICES: usize = 8;
/// Child graphs in child graphs.
const DEPTH: u32 = 64;
/// The driver takes memory for graphs in pages of this size.
const PAGE: u64 = 2 << 20;

/// Bytes by device.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Needs([Need; DEVICES]);

#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
struct Need {
    /// One more than the device's number; 0 is none.
    device: u16,
    /// As they are asked for.
    bytes: u64,
    /// Each node in pages of its own.
    paged: u64,
}

impl Needs {
    pub(super) fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// Each device with the most that the driver may take there: each node in pages of its own.
    pub(super) fn on<'a>(&self, process: &'a Process) -> impl Iterator<Item = (&'a Device, u64)> {
        self.each(process)
            .map(|(device, need)| (device, need.paged))
    }

    /// The same where nodes share pages.
    pub(super) fn packed(&self) -> Self {
        Self(self.0.map(|need| Need {
            paged: paged(need.bytes),
            ..need
        }))
    }

    fn each<'a>(&self, process: &'a Process) -> impl Iterator<Item = (&'a Device, Need)> {
        self.0.into_iter().filter_map(|need| {
            let number = usize::from(need.device).checked_sub(1)?;
            Some((process.devices.by_number(number)?, need))
        })
    }

    fn add(&mut self, device: &Device, bytes: u64) {
        let name = number_of(device).saturating_add(1);
        let of_it = |need: &&mut Need| need.device == name || need.device == 0;
        if let Some(need) = self.0.iter_mut().find(of_it) {
            need.device = name;
            need.bytes = need.bytes.saturating_add(bytes);
            need.paged = need.paged.saturating_add(paged(bytes));
        }
    }
}

fn paged(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

/// Adds up the memory nodes of a graph, its child graphs' included.
pub(super) fn of(process: &Process, graph: CUgraph) -> Needs {
    let mut needs = Needs::default();
    relaxed(|| add_up(process, graph, DEPTH, &mut needs));
    needs
}

fn add_up(process: &Process, graph: CUgraph, depth: u32, needs: &mut Needs) {
    let mut count = 0_usize;
    // SAFETY: no room for nodes and a live count: asks how many there are.
    let answer = unsafe {
        call!(cuGraphGetNodes(
            graph,
            core::ptr::null_mut(),
            &raw mut count
        ))
    };
    if answer != CUresult::CUDA_SUCCESS || count == 0 || depth == 0 {
        return;
    }
    let size = count.saturating_mul(size_of::<CUgraphNode>());
    let Some(pages) = map::anonymous(size) else {
        return;
    };
    let nodes = pages.cast::<CUgraphNode>();
    // SAFETY: room for `count` nodes.
    let answer = unsafe { call!(cuGraphGetNodes(graph, nodes.as_ptr(), &raw mut count)) };
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver never says more than there was room for, and zeroed pages are nodes too.
        let nodes = unsafe { core::slice::from_raw_parts(nodes.as_ptr(), count) };
        for node in nodes {
            add_node(process, *node, depth, needs);
        }
    }
    // SAFETY: our own mapping, which nothing refers to any more.
    unsafe { map::release(pages, size) };
}

fn add_node(process: &Process, node: CUgraphNode, depth: u32, needs: &mut Needs) {
    let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: a node that the driver has just named, and a live out-pointer.
    if unsafe { call!(cuGraphNodeGetType(node, &raw mut kind)) } != CUresult::CUDA_SUCCESS {
        return;
    }
    match kind {
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC => add_allocation(process, node, needs),
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH => {
            let mut child = CUgraph(core::ptr::null_mut());
            // SAFETY: as above.
            let answer = unsafe { call!(cuGraphChildGraphNodeGetGraph(node, &raw mut child)) };
            if answer == CUresult::CUDA_SUCCESS {
                add_up(process, child, depth - 1, needs);
            }
        }
        _ => {}
    }
}

fn add_allocation(process: &Process, node: CUgraphNode, needs: &mut Needs) {
    let mut params = MaybeUninit::<CUDA_MEM_ALLOC_NODE_PARAMS>::zeroed();
    // SAFETY: a memory node, and room for its description.
    let answer = unsafe { call!(cuGraphMemAllocNodeGetParams(node, params.as_mut_ptr())) };
    if answer != CUresult::CUDA_SUCCESS {
        return;
    }
    // SAFETY: written by the driver; integers and pointers, for which zeros are valid too.
    let params = unsafe { params.assume_init() };
    let location = params.poolProps.location;
    if location.type_ != CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
        return;
    }
    // SAFETY: a plain number whatever the union holds.
    let number = unsafe { location.__bindgen_anon_1.id };
    if let Some(device) = process.devices.get(number) {
        needs.add(
            device,
            rounded(u64::try_from(params.bytesize).unwrap_or(u64::MAX)),
        );
    }
}
