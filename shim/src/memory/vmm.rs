//! Physical memory (`cuMemCreate`): held until its last handle is released and its last mapping is gone, whatever contexts
//! come and go. Once exported, until the process ends: who has imported it is not known here.

use core::ffi::c_void;

use cuda_headers::driver::{
    CUdeviceptr, CUmemAllocationProp, CUmemGenericAllocationHandle, CUmemLocation,
    CUmemLocationType, CUresult,
};
use quota_abi::sync::{AtomicU64, Ordering};

use super::{number_of, reserve};
use crate::guard::Aside;
use crate::process::{self, Process};
use crate::table::Table;

/// The physical memory of this process.
pub(crate) struct Physical {
    blocks: Table<Block>,
    /// Number of its block, by handle.
    handles: Table<u64>,
    /// Mappings by their first address.
    maps: Table<Map>,
    next: AtomicU64,
}

#[derive(Copy, Clone)]
struct Block {
    bytes: u64,
    device: u16,
    /// References that handles hold.
    handles: u32,
    maps: u32,
    exported: bool,
}

#[derive(Copy, Clone)]
struct Map {
    block: u64,
    bytes: u64,
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
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let Some(reservation) = reserve(process, device, bytes) else {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        reservation.keep();
        let block = Block {
            bytes,
            device: number_of(device),
            handles: 1,
            maps: 0,
            exported: false,
        };
        let physical = &process.memory.physical;
        let number = physical.next.fetch_add(1, Ordering::Relaxed);
        let _ = physical.blocks.insert(number, block);
        // SAFETY: the driver has just written it for its caller.
        let _ = physical.handles.insert(unsafe { handle.read() }, number);
    }
    Ok(answer)
}

/// `cuMemRelease`.
pub(crate) fn release(
    handle: CUmemGenericAllocationHandle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let number = physical.handles.get(handle).ok_or(Aside::Unknown)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        let left = physical.blocks.with(number, |block| {
            block.handles = block.handles.saturating_sub(1);
            block.handles
        });
        if left == Some(0) {
            physical.handles.remove_if(handle, |other| *other == number);
        }
        physical.settle(process, number);
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
    let address = u64::try_from(address.addr()).unwrap_or(0);
    let number = physical.mapped_at(address).ok_or(Aside::Unknown)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        physical.blocks.with(number, |block| block.handles += 1);
        // SAFETY: the driver has just written it for its caller.
        let _ = physical.handles.insert(unsafe { handle.read() }, number);
    }
    Ok(answer)
}

/// `cuMemMap`.
pub(crate) fn map(
    address: CUdeviceptr,
    bytes: usize,
    handle: CUmemGenericAllocationHandle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let block = physical.handles.get(handle).ok_or(Aside::Unknown)?;
    physical.blocks.with(block, |block| block.maps += 1);
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
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
    let end = address.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
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

/// `cuMemExportToShareableHandle`.
pub(crate) fn export(
    handle: CUmemGenericAllocationHandle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let block = physical.handles.get(handle).ok_or(Aside::Unknown)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        physical.blocks.with(block, |block| block.exported = true);
    }
    Ok(answer)
}

impl Physical {
    pub(crate) const fn new() -> Self {
        Self {
            blocks: Table::new(),
            handles: Table::new(),
            maps: Table::new(),
            next: AtomicU64::new(1),
        }
    }

    fn unmapped(&self, process: &Process, number: u64) {
        self.blocks.with(number, |block| {
            block.maps = block.maps.saturating_sub(1);
        });
        self.settle(process, number);
    }

    /// Gives a block back when nothing holds it any more.
    fn settle(&self, process: &Process, number: u64) {
        let unheld = |block: &Block| block.handles == 0 && block.maps == 0 && !block.exported;
        if let Some(block) = self.blocks.remove_if(number, unheld)
            && let Some(device) = process.devices.by_number(block.device.into())
        {
            device.refund(block.bytes);
        }
    }

    /// The block mapped at an address, which may lie inside its mapping.
    fn mapped_at(&self, address: u64) -> Option<u64> {
        if let Some(map) = self.maps.get(address) {
            return Some(map.block);
        }
        let mut found = None;
        self.maps.for_each(|start, map| {
            if address.wrapping_sub(start) < map.bytes {
                found = Some(map.block);
            }
        });
        found
    }
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
