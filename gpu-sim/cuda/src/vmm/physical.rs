//! Physical memory: what a `CUmemGenericAllocationHandle` stands for.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cuda_headers::driver::{
    CUdevice, CUmemAllocationHandleType as HandleType, CUmemAllocationProp, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType, CUresult,
};

use crate::device;
use crate::handles::{Kind, Table};
use crate::memory::{self, BLOCK, charge, refund};
use crate::vmm::multicast::Multicast;
use crate::vmm::share::{self, Key};

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
    /// A multicast object has none.
    Multicast(Multicast),
}

/// A piece of memory, which lives as long as a handle or a mapping refers to it.
pub(crate) struct Physical {
    pub(super) size: usize,
    pub(super) place: Place,
    pub(super) source: Source,
    pub(super) prop: CUmemAllocationProp,
    /// Set once other processes may hold it too.
    pub(super) shared: OnceLock<Key>,
    /// Its handle, the same for as long as it lives.
    number: OnceLock<usize>,
}

// SAFETY: the properties hold a pointer that only Windows uses and that is never followed.
unsafe impl Send for Physical {}
// SAFETY: as above; everything else is constant or locked.
unsafe impl Sync for Physical {}

/// What a handle stands for.
struct Handle {
    physical: Weak<Physical>,
    owed: Mutex<Owed>,
}

/// The memory, while the handle must still be released, and how often.
#[derive(Default)]
struct Owed {
    physical: Option<Arc<Physical>>,
    releases: u32,
}

static HANDLES: Table<Handle> = Table::new(Kind::Allocation);

impl Drop for Physical {
    fn drop(&mut self) {
        if let Some(number) = self.number.get() {
            HANDLES.remove(*number);
        }
        if let Some(key) = self.shared.get() {
            return share::let_go(self, *key);
        }
        let Source::Own(offset) = self.source else {
            return;
        };
        if let Some((_, core)) = self.place.device() {
            refund(core, self.size, self.size);
        }
        if let Ok(mut memory) = memory::lock() {
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
    // Documented: no process but this one can have host memory without a node.
    let location = prop.location.type_;
    let local = location == CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST && asked != 0;
    if local || location == CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
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
    Ok(add(Physical::new(size, place, Source::Own(offset), *prop)))
}

impl Physical {
    pub(super) fn new(
        size: usize,
        place: Place,
        source: Source,
        prop: CUmemAllocationProp,
    ) -> Self {
        Self {
            size,
            place,
            source,
            prop,
            shared: OnceLock::new(),
            number: OnceLock::new(),
        }
    }

    /// Maps whole blocks of it, from `from` on.
    pub(crate) fn map_at(
        &self,
        arena: &mut memory::Arena,
        start: usize,
        len: usize,
        from: usize,
    ) -> std::io::Result<()> {
        match &self.source {
            Source::Own(offset) => arena.map(start, len, offset + from),
            Source::Imported(file, offset) => {
                memory::file::map_fixed(start, len, file.as_raw_fd(), offset + from)
            }
            Source::Multicast(_) => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether it was created to back tiles of sparse arrays.
    pub(crate) fn is_tile_pool(&self) -> bool {
        self.prop.allocFlags.usage & TILE_POOL != 0
    }

    pub(crate) fn len(&self) -> usize {
        self.size
    }

    /// Index of its device in the simulation.
    pub(crate) fn core(&self) -> Option<usize> {
        self.place.device().map(|(_, core)| core)
    }
}

/// `CU_MEM_CREATE_USAGE_TILE_POOL`.
const TILE_POOL: u16 = 1;

pub(super) fn add(physical: Physical) -> CUmemGenericAllocationHandle {
    retain(&Arc::new(physical))
}

/// The handle of a piece of memory, with one more release owed. Documented: the same value as long as it is mapped.
pub(super) fn retain(physical: &Arc<Physical>) -> CUmemGenericAllocationHandle {
    let new = || {
        HANDLES.insert(Handle {
            physical: Arc::downgrade(physical),
            owed: Mutex::default(),
        })
    };
    let number = *physical.number.get_or_init(new);
    if let Some(handle) = HANDLES.get(number) {
        let mut owed = handle.owed();
        owed.releases += 1;
        owed.physical = Some(Arc::clone(physical));
    }
    number as CUmemGenericAllocationHandle
}

impl Handle {
    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn handle(handle: CUmemGenericAllocationHandle) -> Result<Arc<Handle>, CUresult> {
    let found = usize::try_from(handle)
        .ok()
        .and_then(|handle| HANDLES.get(handle));
    found
        .filter(|found| found.owed().releases > 0)
        .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

pub(crate) fn get(number: CUmemGenericAllocationHandle) -> Result<Arc<Physical>, CUresult> {
    let found = handle(number)?.physical.upgrade();
    found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

pub(super) fn release(number: CUmemGenericAllocationHandle) -> Result<(), CUresult> {
    let handle = handle(number)?;
    let last = {
        let mut owed = handle.owed();
        owed.releases -= 1;
        if owed.releases == 0 {
            owed.physical.take()
        } else {
            None
        }
    };
    // The memory goes now, if nothing is mapped: outside the lock.
    drop(handle);
    drop(last);
    Ok(())
}
