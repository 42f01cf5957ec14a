//! Multicast objects: they have no memory of their own, but what is bound to them stays until it is unbound or the object
//! is gone.

use cuda_headers::driver::{CUdevice, CUdeviceptr, CUmemGenericAllocationHandle, CUresult};

use super::blocks::{Block, Kind};
use super::wide;
use crate::guard::Aside;
use crate::memory::number_of;
use crate::process::{self, Process};
use crate::table::Table;

/// What is bound to the multicast objects of this process, by a number of its own.
pub(super) struct Binds(Table<Bind>);

#[derive(Copy, Clone)]
struct Bind {
    object: u64,
    offset: u64,
    bytes: u64,
    block: u64,
    /// The device for which it is bound, if the call named one; else that of the memory.
    device: Option<CUdevice>,
}

/// What a bind call names: physical memory by its handle, or by an address where it is mapped.
#[derive(Copy, Clone)]
pub(crate) enum Bound {
    Handle(CUmemGenericAllocationHandle),
    Address(CUdeviceptr),
}

impl Binds {
    pub(super) const fn new() -> Self {
        Self(Table::new())
    }

    /// The object is gone.
    pub(super) fn end_all(&self, process: &Process, object: u64) {
        self.0.sweep(
            |_, bind| bind.object == object,
            |_, bind| process.memory.physical.unmapped(process, bind.block),
        );
    }
}

/// `cuMulticastCreate`.
pub(crate) fn create(
    handle: *mut CUmemGenericAllocationHandle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if handle.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        let handle = unsafe { handle.read() };
        let block = Block::new(Kind::Multicast, 0, 0);
        process.memory.physical.add(handle, block);
    }
    Ok(answer)
}

/// `cuMulticastBindMem` and `cuMulticastBindAddr`. Memory of a pool is charged by its pool.
pub(crate) fn bind(
    object: CUmemGenericAllocationHandle,
    device: Option<CUdevice>,
    (offset, bytes): (usize, usize),
    bound: Bound,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let object = physical.handles.get(object).ok_or(Aside::Unknown)?;
    let block = match bound {
        Bound::Handle(handle) => physical.handles.get(handle),
        Bound::Address(address) => physical.mapped_at(address),
    };
    let block = block.ok_or(Aside::Unknown)?;
    physical.blocks.with(block, |block| block.maps += 1);
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        let bind = Bind {
            object,
            offset: wide(offset),
            bytes: wide(bytes),
            block,
            device,
        };
        let _ = physical.binds.0.insert(physical.number(), bind);
    } else {
        physical.unmapped(process, block);
    }
    Ok(answer)
}

/// `cuMulticastUnbind`: of one device's memory, at an offset and of a size that were bound so.
pub(crate) fn unbind(
    object: CUmemGenericAllocationHandle,
    device: CUdevice,
    offset: usize,
    bytes: usize,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let object = physical.handles.get(object).ok_or(Aside::Unknown)?;
    let number = process.devices.get(device).map(number_of);
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        let (offset, bytes) = (wide(offset), wide(bytes));
        let is_it = |bind: &Bind| {
            let on_it = bind.device.map_or_else(
                || physical.blocks.get(bind.block).map(|block| block.device) == number,
                |named| named == device,
            );
            (bind.object, bind.offset, bind.bytes) == (object, offset, bytes) && on_it
        };
        physical.binds.0.sweep(
            |_, bind| is_it(bind),
            |_, bind| physical.unmapped(process, bind.block),
        );
    }
    Ok(answer)
}
