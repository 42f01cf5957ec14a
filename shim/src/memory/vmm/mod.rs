//! Physical memory (`cuMemCreate`): held until its last handle is released and its last mapping is gone, whatever contexts
//! come and go.
//!
//! Once exported it stays charged until the process ends: descriptors may be on their way, and processes of other groups
//! may hold it. An import is charged when it is mapped, since only then its size is known, and only if nobody of the group
//! is charged for exported memory of that size on that device: the descriptors of real drivers carry no identity. So
//! memory that passes between groups is charged in both, and what is imported and never mapped only in the exporter's.

mod blocks;
mod boxes;
pub(crate) mod multicast;
mod share;
pub(crate) mod tiles;

use core::ffi::c_void;

use cuda_headers::driver::{
    CUdeviceptr, CUmemAllocationProp, CUmemGenericAllocationHandle, CUmemLocation,
    CUmemLocationType, CUresult,
};

pub(crate) use self::blocks::Physical;
use self::blocks::{Block, Kind, Map};
pub(crate) use self::share::{export, import};
use super::{number_of, reserve, rounded};
use crate::guard::Aside;
use crate::process;

fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// `cuMemCreate`: memory of the host is not the device's.
pub(crate) fn create(
    handle: *mut CUmemGenericAllocationHandle,
    bytes: usize,
    properties: *const CUmemAllocationProp,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if handle.is_null() || properties.is_null() || bytes == 0 {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    // SAFETY: not null, and the driver is about to read it.
    let location = unsafe { (*properties).location };
    let number = device_of(&location).ok_or(Aside::NotDeviceMemory)?;
    let device = process.devices.get(number).ok_or(Aside::Unknown)?;
    let bytes = rounded(wide(bytes));
    let Some(reservation) = reserve(process, device, bytes) else {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        reservation.keep();
        let block = Block::new(Kind::Own, bytes, number_of(device));
        // SAFETY: the driver has just written it for its caller.
        let handle = unsafe { handle.read() };
        process.memory.physical.add(handle, block);
    }
    Ok(answer)
}

/// `cuMemRelease`, of physical memory and of multicast objects.
pub(crate) fn release(
    handle: CUmemGenericAllocationHandle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let number = physical.handles.get(handle).ok_or(Aside::Unknown)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        physical.released(process, number);
    }
    Ok(answer)
}

/// `cuMemRetainAllocationHandle`: one more reference to the block mapped at an address.
pub(crate) fn retain(
    handle: *mut CUmemGenericAllocationHandle,
    address: *mut c_void,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if handle.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let add = |number: &u64| {
        let add = |block: &mut Block| block.handles += 1;
        physical.blocks.with(*number, add).is_some()
    };
    // Counted before the driver gives it: other threads may drop every reference that is known meanwhile.
    let before = physical.mapped_at(wide(address.addr())).filter(add);
    let answer = call();
    let mut surplus = before;
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        let handle = unsafe { handle.read() };
        // Documented: the handle by which the memory was mapped; by now that may be other memory than before.
        let known = physical.handles.get(handle).filter(add);
        if let Some(number) = known.or_else(|| surplus.take()) {
            let _ = physical.handles.insert(handle, number);
        }
    }
    if let Some(number) = surplus {
        physical.released(process, number);
    }
    Ok(answer)
}

/// `cuMemMap`. The first mapping of an import tells its size.
pub(crate) fn map(
    address: CUdeviceptr,
    bytes: usize,
    handle: CUmemGenericAllocationHandle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let block = physical.handles.get(handle).ok_or(Aside::Unknown)?;
    let bytes = wide(bytes);
    physical.blocks.with(block, |block| block.maps += 1);
    let answer = if share::learn_size(process, block, rounded(bytes)) {
        call()
    } else {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY
    };
    if answer == CUresult::CUDA_SUCCESS {
        let _ = physical.maps.insert(address, Map { block, bytes });
    } else {
        physical.unmapped(process, block);
    }
    Ok(answer)
}

/// `cuMemUnmap`: a range may hold several mappings. The addresses are the program's own, so nobody maps them again before
/// this call has returned.
pub(crate) fn unmap(
    address: CUdeviceptr,
    bytes: usize,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        return Ok(answer);
    }
    let end = address.saturating_add(wide(bytes));
    let mut at = address;
    while at < end {
        let Some(map) = physical.maps.remove(at) else {
            break;
        };
        physical.unmapped(process, map.block);
        at = at.saturating_add(map.bytes.max(1));
    }
    if at < end {
        // Something in between that is not ours: look for the rest.
        let inside = |start: u64, _: &Map| (at..end).contains(&start);
        physical
            .maps
            .sweep(inside, |_, map| physical.unmapped(process, map.block));
    }
    Ok(answer)
}

/// Number of the device that a location is on.
fn device_of(location: &CUmemLocation) -> Option<i32> {
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
            // SAFETY: a plain number whatever the union holds.
            Some(unsafe { location.__bindgen_anon_1.id })
        }
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN => {
            // SAFETY: as above.
            let device = unsafe { location.__bindgen_anon_1.localized.deviceId };
            Some(device.into())
        }
        _ => None,
    }
}
