//! Physical memory: what a `CUmemGenericAllocationHandle` stands for.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cuda_headers::driver::{
    CUdevice, CUmemAllocationHandleType as HandleType, CUmemAllocationProp, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType, CUresult,
};

use crate::device;
use crate::handles::{Kind, Table};
use crate::memory::{self, BLOCK, charge, refund};

/// Where memory is, or who accesses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A device, with its index in the simulation.
    Device(CUdevice, usize),
    Host,
}

impl Place {
    pub(super) fn of(location: &CUmemLocation) -> Result<Self, CUresult> {
        match location.type_ {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
                // SAFETY: every bit pattern is an int, and the type says that it is meant.
                let id = unsafe { location.__bindgen_anon_1.id };
                Ok(Self::Device(id, device::core_index(id)?))
            }
            CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST
            | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA
            | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Ok(Self::Host),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    pub(super) fn device(self) -> Option<(CUdevice, usize)> {
        match self {
            Self::Device(device, core) => Some((device, core)),
            Self::Host => None,
        }
    }
}

/// Where the bytes are.
pub(super) enum Source {
    /// In this process's memory file.
    Own(usize),
    /// In another process's.
    Imported(OwnedFd, usize),
}

/// A piece of memory, which lives as long as a handle or a mapping refers to it.
pub(super) struct Physical {
    pub(super) size: usize,
    pub(super) place: Place,
    pub(super) source: Source,
    pub(super) prop: CUmemAllocationProp,
    /// Given to another process, which may go on using the bytes when this one is done.
    pub(super) exported: AtomicBool,
    /// (handle, how often it must be released), while there is one.
    handle: Mutex<Option<(usize, u32)>>,
}

// SAFETY: the properties hold a pointer that only Windows uses and that is never followed.
unsafe impl Send for Physical {}
// SAFETY: as above; everything else is constant or locked.
unsafe impl Sync for Physical {}

static HANDLES: Table<Arc<Physical>> = Table::new(Kind::Allocation);

impl Drop for Physical {
    fn drop(&mut self) {
        let Source::Own(offset) = self.source else {
            return;
        };
        if let Some((_, core)) = self.place.device() {
            refund(core, self.size, self.size);
        }
        if !self.exported.load(Ordering::Relaxed)
            && let Ok(mut memory) = memory::lock()
        {
            memory.arena.put_physical(offset, self.size);
        }
    }
}

/// Checks what is asked for.
pub(super) fn check(prop: &CUmemAllocationProp) -> Result<Place, CUresult> {
    if prop.type_ != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let place = Place::of(&prop.location)?;
    let known = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0
        | HandleType::CU_MEM_HANDLE_TYPE_WIN32.0
        | HandleType::CU_MEM_HANDLE_TYPE_WIN32_KMT.0
        | HandleType::CU_MEM_HANDLE_TYPE_FABRIC.0;
    let asked = prop.requestedHandleTypes.0;
    if asked & !known != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if asked & !HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0 != 0 {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    Ok(place)
}

pub(super) fn create(
    size: usize,
    prop: &CUmemAllocationProp,
) -> Result<CUmemGenericAllocationHandle, CUresult> {
    let place = check(prop)?;
    if size == 0 || !size.is_multiple_of(BLOCK) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if let Some((_, core)) = place.device() {
        charge(core, size, size)?;
    }
    let offset = memory::lock()?.arena.take_physical(size);
    let Some(offset) = offset else {
        if let Some((_, core)) = place.device() {
            refund(core, size, size);
        }
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    Ok(add(Physical {
        size,
        place,
        source: Source::Own(offset),
        prop: *prop,
        exported: AtomicBool::new(false),
        handle: Mutex::new(None),
    }))
}

/// Memory of another process.
pub(super) fn import(
    file: OwnedFd,
    offset: usize,
    size: usize,
    place: Place,
    prop: CUmemAllocationProp,
) -> CUmemGenericAllocationHandle {
    add(Physical {
        size,
        place,
        source: Source::Imported(file, offset),
        prop,
        exported: AtomicBool::new(false),
        handle: Mutex::new(None),
    })
}

fn add(physical: Physical) -> CUmemGenericAllocationHandle {
    retain(&Arc::new(physical))
}

/// The handle of a piece of memory, with one more release owed.
pub(super) fn retain(physical: &Arc<Physical>) -> CUmemGenericAllocationHandle {
    let mut handle = physical
        .handle
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let (number, owed) = handle.get_or_insert_with(|| (HANDLES.insert(Arc::clone(physical)), 0));
    *owed += 1;
    *number as CUmemGenericAllocationHandle
}

pub(super) fn get(handle: CUmemGenericAllocationHandle) -> Result<Arc<Physical>, CUresult> {
    let found = usize::try_from(handle)
        .ok()
        .and_then(|handle| HANDLES.get(handle));
    found
        .map(|found| Arc::clone(&*found))
        .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

pub(super) fn release(handle: CUmemGenericAllocationHandle) -> Result<(), CUresult> {
    let physical = get(handle)?;
    let mut own = physical
        .handle
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some((number, owed)) = own.as_mut() {
        *owed -= 1;
        if *owed == 0 {
            HANDLES.remove(*number);
            *own = None;
        }
    }
    Ok(())
}
