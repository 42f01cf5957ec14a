//! Physical memory that leaves the process and comes from others.

use cuda_headers::driver::{CUmemAllocationProp, CUmemGenericAllocationHandle, CUresult};

use super::blocks::{Block, Kind};
use super::device_of;
use crate::driver::{call, relaxed};
use crate::guard::Aside;
use crate::memory::{number_of, reserve};
use crate::process::{self, Process};

/// `cuMemExportToShareableHandle`: whoever imports it in the group is not charged again.
pub(crate) fn export(
    handle: CUmemGenericAllocationHandle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let number = physical.handles.get(handle).ok_or(Aside::Unknown)?;
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        return Ok(answer);
    }
    let first = physical.blocks.with(number, |block| {
        let own = block.kind == Kind::Own;
        let first = !core::mem::replace(&mut block.exported, true);
        (own && first).then_some((block.device, block.bytes))
    });
    if let Some((device, bytes)) = first.flatten()
        && let Some(device) = process.devices.by_number(device.into())
    {
        // The row lasts as long as the charge: until the process ends.
        let _ = device.publish(bytes, bytes);
    }
    Ok(answer)
}

/// `cuMemImportFromShareableHandle`: a reference of unknown size, or one more to memory that is known here.
pub(crate) fn import(
    handle: *mut CUmemGenericAllocationHandle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if handle.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        return Ok(answer);
    }
    // SAFETY: the driver has just written it for its caller.
    let handle = unsafe { handle.read() };
    let known = physical.handles.get(handle);
    let more = known.and_then(|number| physical.blocks.with(number, |block| block.handles += 1));
    if more.is_none() {
        let device = device_of_handle(handle).and_then(|number| process.devices.get(number));
        let block = match device {
            Some(device) => Block::new(Kind::Import(None), 0, number_of(device)),
            None => Block::new(Kind::Multicast, 0, 0),
        };
        physical.add(handle, block);
    }
    Ok(answer)
}

/// The device that an import lies on; `None` for multicast objects, and for memory of the host, which may be taken for one.
fn device_of_handle(handle: CUmemGenericAllocationHandle) -> Option<i32> {
    // SAFETY: numbers and a pointer, for which zero is a value.
    let mut properties: CUmemAllocationProp = unsafe { core::mem::zeroed() };
    // SAFETY: a live out-pointer and a handle that the driver has just given.
    let answer = relaxed(|| unsafe {
        call!(cuMemGetAllocationPropertiesFromHandle(
            &raw mut properties,
            handle
        ))
    });
    if answer != CUresult::CUDA_SUCCESS {
        return None;
    }
    device_of(&properties.location)
}

/// An import is about to be mapped, and so is at least this large. `false` if that does not fit.
pub(super) fn learn_size(process: &Process, number: u64, bytes: u64) -> bool {
    let physical = &process.memory.physical;
    // Claimed at once, so that of two threads that map it one charges.
    let grown = physical.blocks.with(number, |block| {
        let known = matches!(block.kind, Kind::Import(_)).then_some(block.bytes)?;
        block.bytes = bytes.max(known);
        (bytes > known).then_some((block.kind, block.device, known))
    });
    let Some((kind, device, known)) = grown.flatten() else {
        return true;
    };
    let Some(device) = process.devices.by_number(device.into()) else {
        return true;
    };
    if let Some(row) = device.hold(bytes) {
        let set = |block: &mut Block| block.kind = Kind::Import(Some(row));
        physical.blocks.with(number, set);
        match kind {
            Kind::Import(Some(smaller)) => device.let_go(smaller),
            _ => device.refund(known),
        }
        return true;
    }
    // What somebody else was charged for was another, smaller one.
    let (more, row) = match kind {
        Kind::Import(Some(row)) => (bytes, Some(row)),
        _ => (bytes - known, None),
    };
    let Some(reservation) = reserve(process, device, more) else {
        // Unless another thread has mapped it meanwhile, which cannot be undone.
        let mapped = physical.blocks.with(number, |block| {
            if block.maps <= 1 || known > 0 {
                block.bytes = known;
            }
            block.bytes != known
        });
        if mapped == Some(true) {
            device.charge(more);
        }
        return false;
    };
    reservation.keep();
    if let Some(row) = row {
        physical
            .blocks
            .with(number, |block| block.kind = Kind::Import(None));
        device.let_go(row);
    }
    true
}
