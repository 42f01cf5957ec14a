//! From the API's descriptions of nodes to work, and back.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_headers::driver::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_HOST_NODE_PARAMS_st, CUDA_KERNEL_NODE_PARAMS_st,
    CUDA_KERNEL_NODE_PARAMS_v2_st, CUDA_KERNEL_NODE_PARAMS_v3_st, CUDA_MEM_ALLOC_NODE_PARAMS_v1_st,
    CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS_st, CUcontext, CUdeviceptr, CUevent, CUfunction,
    CUgraphNodeParams, CUgraphNodeType as Type, CUhostFn, CUkernel, CUmemAllocationType,
    CUmemLocationType, CUmemPoolProps, CUresult,
};

use super::{INVALID, Node, NodeWork, resolve_graph};
use crate::event::resolve_event;
use crate::launch::{self, Arguments};
use crate::memory::{self, Family};
use crate::ops::{Fill, Grid, HostCall, Kernel, Op, Reserved};
use crate::stream::read_batch;
use crate::{copy, ctx, module};

/// The three forms in which a kernel node is described.
pub(super) struct KernelParams {
    handle: CUfunction,
    context: CUcontext,
    grid: Grid,
    arguments: Arguments,
}

macro_rules! kernel_params {
    ($params:expr, $handle:expr, $context:expr) => {
        KernelParams {
            handle: $handle,
            context: $context,
            grid: Grid {
                grid: [$params.gridDimX, $params.gridDimY, $params.gridDimZ],
                block: [$params.blockDimX, $params.blockDimY, $params.blockDimZ],
                shared: $params.sharedMemBytes,
            },
            arguments: Arguments {
                params: $params.kernelParams,
                extra: $params.extra,
            },
        }
    };
}

/// A function, or a library's kernel where there is none.
fn either(function: CUfunction, kernel: CUkernel) -> CUfunction {
    if function.is_null() {
        CUfunction(kernel.0.cast())
    } else {
        function
    }
}

impl From<&CUDA_KERNEL_NODE_PARAMS_st> for KernelParams {
    fn from(params: &CUDA_KERNEL_NODE_PARAMS_st) -> Self {
        kernel_params!(params, params.func, CUcontext::NULL)
    }
}

impl From<&CUDA_KERNEL_NODE_PARAMS_v2_st> for KernelParams {
    fn from(params: &CUDA_KERNEL_NODE_PARAMS_v2_st) -> Self {
        kernel_params!(params, either(params.func, params.kern), params.ctx)
    }
}

impl From<&CUDA_KERNEL_NODE_PARAMS_v3_st> for KernelParams {
    fn from(params: &CUDA_KERNEL_NODE_PARAMS_v3_st) -> Self {
        kernel_params!(params, either(params.func, params.kern), params.ctx)
    }
}

impl KernelParams {
    /// # Safety
    /// The arguments are as the driver API asks.
    pub(super) unsafe fn op(&self) -> Result<Op, CUresult> {
        let context = ctx::from_handle_or_current(self.context)?;
        let loaded = ctx::with_current(context, || module::function(self.handle))?;
        let owner = ctx::all()
            .into_iter()
            .find(|context| context.id == loaded.context);
        let owner = owner.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        launch::check(&loaded, &self.grid)?;
        // SAFETY: by the caller's promise.
        let params = unsafe { launch::read(&loaded.function, self.arguments) }?;
        let kernel = Kernel::new(self.handle, loaded, owner, self.grid, params);
        Ok(Op::Kernel(Arc::new(kernel)))
    }
}

/// Describes a kernel node. The arguments lie in the node and stay as long as it is not changed.
pub(super) fn describe_kernel(kernel: &Kernel) -> CUDA_KERNEL_NODE_PARAMS_v2_st {
    let Grid {
        grid,
        block,
        shared,
    } = kernel.grid;
    CUDA_KERNEL_NODE_PARAMS_v2_st {
        func: kernel.handle,
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: block[0],
        blockDimY: block[1],
        blockDimZ: block[2],
        sharedMemBytes: shared,
        kernelParams: kernel.pointers.as_ptr().cast_mut(),
        extra: std::ptr::null_mut(),
        kern: CUkernel::NULL,
        ctx: kernel.context.handle,
    }
}

pub(super) fn memcpy_op(params: &CUDA_MEMCPY3D) -> Result<Op, CUresult> {
    copy::transfer_of(params).map(Op::Transfer)
}

pub(super) fn memset_op(params: &CUDA_MEMSET_NODE_PARAMS_st) -> Result<Op, CUresult> {
    let element = params.elementSize as usize;
    if !matches!(element, 1 | 2 | 4) {
        return Err(INVALID);
    }
    let extent = [params.width, params.height];
    let fill = copy::checked_fill(params.dst, params.value, element, params.pitch, extent)?;
    Ok(fill.map_or(Op::Empty, |(fill, _)| Op::Fill(fill)))
}

pub(super) fn describe_memset(fill: &Fill) -> CUDA_MEMSET_NODE_PARAMS_st {
    CUDA_MEMSET_NODE_PARAMS_st {
        dst: fill.address as CUdeviceptr,
        pitch: fill.pitch,
        value: fill.value,
        elementSize: u32::try_from(fill.element).unwrap_or(1),
        width: fill.width,
        height: fill.height,
    }
}

pub(super) fn host_op(function: CUhostFn, data: *mut c_void) -> Result<Op, CUresult> {
    let function = function.ok_or(INVALID)?;
    Ok(Op::Host(HostCall { function, data }))
}

pub(super) fn describe_host(call: &HostCall) -> CUDA_HOST_NODE_PARAMS_st {
    CUDA_HOST_NODE_PARAMS_st {
        fn_: Some(call.function),
        userData: call.data,
    }
}

pub(super) fn record_op(event: CUevent) -> Result<Op, CUresult> {
    resolve_event(event).map(Op::Record)
}

pub(super) fn wait_op(event: CUevent) -> Result<Op, CUresult> {
    resolve_event(event).map(Op::Wait)
}

/// # Safety
/// The operations are as many as the description says.
pub(super) unsafe fn memops_op(params: &CUDA_BATCH_MEM_OP_NODE_PARAMS) -> Result<Op, CUresult> {
    // SAFETY: by the caller's promise.
    let ops = unsafe { read_batch(params.count, params.paramArray, params.flags) }?;
    Ok(Op::MemOps(Arc::new(ops)))
}

/// Reserves the address of an allocation node.
pub(super) fn allocation_op(
    props: &CUmemPoolProps,
    bytes: usize,
    address: &mut CUdeviceptr,
) -> Result<Op, CUresult> {
    let pinned = props.allocType == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    let on_device = props.location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    if !pinned || !on_device || bytes == 0 {
        return Err(INVALID);
    }
    // SAFETY: an integer, whichever member of the union was written.
    let device = unsafe { props.location.__bindgen_anon_1.id };
    *address = memory::graph_reserve(device, bytes)?;
    let address = *address;
    Ok(Op::Allocate(Arc::new(Reserved { address, bytes })))
}

pub(super) fn free_op(address: CUdeviceptr) -> Result<Op, CUresult> {
    let found = memory::find(address).filter(|found| found.base as u64 == address);
    match found {
        Some(found) if found.family == Family::Graph => Ok(Op::Free(address)),
        _ => Err(INVALID),
    }
}

/// Describes an allocation node, but for who may use it besides its device.
pub(super) fn describe_allocation(
    device: i32,
    address: CUdeviceptr,
    bytes: usize,
) -> CUDA_MEM_ALLOC_NODE_PARAMS_v1_st {
    // SAFETY: integers and addresses, for which zero is valid.
    let mut params: CUDA_MEM_ALLOC_NODE_PARAMS_v1_st = unsafe { std::mem::zeroed() };
    params.poolProps.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    params.poolProps.location.__bindgen_anon_1.id = device;
    params.bytesize = bytes;
    params.dptr = address;
    params
}

/// Reads the description that is common to all types of nodes. An allocation's address is written
/// into it.
///
/// # Safety
/// The member that the type names is as the driver API asks.
pub(super) unsafe fn work_of(params: &mut CUgraphNodeParams) -> Result<NodeWork, CUresult> {
    let any = &mut params.__bindgen_anon_1;
    // SAFETY: each member is read only under the type that it belongs to.
    let op = unsafe {
        match params.type_ {
            Type::CU_GRAPH_NODE_TYPE_KERNEL => KernelParams::from(&any.kernel).op()?,
            Type::CU_GRAPH_NODE_TYPE_MEMCPY => memcpy_op(&any.memcpy.copyParams)?,
            Type::CU_GRAPH_NODE_TYPE_MEMSET => {
                let set = any.memset;
                memset_op(&CUDA_MEMSET_NODE_PARAMS_st {
                    dst: set.dst,
                    pitch: set.pitch,
                    value: set.value,
                    elementSize: set.elementSize,
                    width: set.width,
                    height: set.height,
                })?
            }
            Type::CU_GRAPH_NODE_TYPE_HOST => host_op(any.host.fn_, any.host.userData)?,
            Type::CU_GRAPH_NODE_TYPE_GRAPH => return child_work(any.graph.graph),
            Type::CU_GRAPH_NODE_TYPE_EMPTY => Op::Empty,
            Type::CU_GRAPH_NODE_TYPE_WAIT_EVENT => wait_op(any.eventWait.event)?,
            Type::CU_GRAPH_NODE_TYPE_EVENT_RECORD => record_op(any.eventRecord.event)?,
            Type::CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
                let alloc = &mut any.alloc;
                allocation_op(&alloc.poolProps, alloc.bytesize, &mut alloc.dptr)?
            }
            Type::CU_GRAPH_NODE_TYPE_MEM_FREE => free_op(any.free.dptr)?,
            Type::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => {
                let ops = any.memOp;
                let ops = read_batch(ops.count, ops.paramArray, ops.flags)?;
                Op::MemOps(Arc::new(ops))
            }
            Type::CU_GRAPH_NODE_TYPE_CONDITIONAL
            | Type::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL
            | Type::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT
            | Type::CU_GRAPH_NODE_TYPE_MEMCPY_BATCH => {
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
            _ => return Err(INVALID),
        }
    };
    Ok(NodeWork::Op(op))
}

/// A copy of a graph, to be a node.
pub(super) fn child_work(graph: cuda_headers::driver::CUgraph) -> Result<NodeWork, CUresult> {
    let graph = resolve_graph(graph)?;
    if graph.has_memory_nodes() {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    Ok(NodeWork::Child(graph.duplicate(true)))
}

/// Describes a node in the form that is common to all types.
pub(super) fn describe(node: &Node) -> Result<CUgraphNodeParams, CUresult> {
    // SAFETY: integers and addresses, for which zero is valid.
    let mut params: CUgraphNodeParams = unsafe { std::mem::zeroed() };
    params.type_ = node.kind();
    let any = &mut params.__bindgen_anon_1;
    let op = match &node.work {
        NodeWork::Op(op) => op,
        NodeWork::Child(child) => {
            any.graph.graph = child.handle;
            return Ok(params);
        }
    };
    match op {
        Op::Kernel(kernel) => {
            let found = describe_kernel(kernel);
            any.kernel = CUDA_KERNEL_NODE_PARAMS_v3_st {
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
                kern: found.kern,
                ctx: found.ctx,
            };
        }
        Op::Transfer(transfer) => any.memcpy.copyParams = copy::describe(transfer),
        Op::Fill(fill) => {
            let found = describe_memset(fill);
            any.memset.dst = found.dst;
            any.memset.pitch = found.pitch;
            any.memset.value = found.value;
            any.memset.elementSize = found.elementSize;
            any.memset.width = found.width;
            any.memset.height = found.height;
        }
        Op::Host(call) => {
            any.host.fn_ = Some(call.function);
            any.host.userData = call.data;
        }
        Op::Record(event) => any.eventRecord.event = event.handle,
        Op::Wait(event) => any.eventWait.event = event.handle,
        Op::Allocate(reserved) => {
            let device = memory::find(reserved.address).map_or(0, |found| found.owner.device);
            let found = describe_allocation(device, reserved.address, reserved.bytes);
            any.alloc.poolProps = found.poolProps;
            any.alloc.bytesize = found.bytesize;
            any.alloc.dptr = found.dptr;
        }
        Op::Free(address) => any.free.dptr = *address,
        Op::Empty => {}
        Op::MemOps(_) => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
    }
    Ok(params)
}
