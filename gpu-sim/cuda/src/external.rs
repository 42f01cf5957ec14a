//! Memory of other APIs: descriptors of the kind `OPAQUE_FD`. No other API is simulated; what `cuMemExportToShareableHandle`
//! gives is meant for them as well (documented there), and comes back here as theirs.
//!
//! An object keeps the memory until it is destroyed, and so does what is mapped from it until that is freed, as documented
//! at `cuDestroyExternalMemory`; all of it goes with the context.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cuda_headers::driver::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUdeviceptr, CUexternalMemory,
    CUexternalMemoryHandleType, CUmipmappedArray, CUresult,
};

use crate::entry::{entry, input, out};
use crate::handles::{Kind, Table};
use crate::memory::{self, Allocation, BLOCK, Family, Owner};
use crate::vmm::{self, Physical};
use crate::{array, order, state};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const DEDICATED: u32 = 1;

struct External {
    memory: Arc<Physical>,
    size: usize,
    owner: Owner,
}

static OBJECTS: Table<External> = Table::new(Kind::ExternalMemory);

/// What is mapped, by its address: (start, bytes of whole blocks, the memory).
type Mapped = HashMap<usize, (usize, usize, Arc<Physical>)>;

fn mapped<T>(with: impl FnOnce(&mut Mapped) -> T) -> T {
    static MAPPED: Mutex<Option<Mapped>> = Mutex::new(None);
    let mut mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    with(mapped.get_or_insert_default())
}

fn get(handle: CUexternalMemory) -> Result<Arc<External>, CUresult> {
    OBJECTS
        .get(handle.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

/// Maps a part of an object.
fn map(external: &External, offset: u64, size: usize) -> Result<usize, CUresult> {
    let offset = usize::try_from(offset).map_err(|_| INVALID)?;
    let end = offset.checked_add(size).ok_or(INVALID)?;
    if size == 0 || end > external.size {
        return Err(INVALID);
    }
    let inside = offset % BLOCK;
    let len = memory::rounded(inside + size, BLOCK)?;
    let mut memory = memory::lock()?;
    let start = memory.arena.reserve(len, BLOCK);
    let start = start.ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    let done = external
        .memory
        .map_at(&mut memory.arena, start, len, offset - inside);
    if done.is_err() {
        memory.arena.unreserve(start, len);
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let address = start + inside;
    let found = Allocation::new(address, size, len, Family::External, external.owner);
    memory.table.insert(found);
    drop(memory);
    mapped(|all| all.insert(address, (start, len, Arc::clone(&external.memory))));
    Ok(address)
}

/// `cuMemFree` of a mapped buffer, or the end of a mapped array.
pub(crate) fn unmap(address: usize) -> Result<(), CUresult> {
    let found = mapped(|all| all.remove(&address)).ok_or(INVALID)?;
    let (start, len, physical) = found;
    let mut memory = memory::lock()?;
    memory.table.remove(address);
    memory.arena.unmap(start, len);
    memory.arena.unreserve(start, len);
    drop(memory);
    drop(physical);
    Ok(())
}

/// Everything that a context which ends had imported.
pub(crate) fn on_context_destroy(context: u64) {
    let of_context = |address: &usize| {
        memory::find(*address as CUdeviceptr).is_some_and(|a| a.owner.context == context)
    };
    let addresses: Vec<usize> = mapped(|all| all.keys().copied().filter(of_context).collect());
    for address in addresses {
        let _ = unmap(address);
    }
    for (handle, object) in OBJECTS.all() {
        if object.owner.context == context {
            OBJECTS.remove(handle);
        }
    }
}

entry! {
    /// The descriptor is the driver's afterwards.
    fn cuImportExternalMemory(
        extMem_out: *mut CUexternalMemory,
        memHandleDesc: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    ) {
        let context = state::current()?;
        order::unsafe_call()?;
        let description = input(memHandleDesc)?;
        if extMem_out.is_null() || description.flags & !DEDICATED != 0 {
            return Err(INVALID);
        }
        if description.type_ != CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let size = usize::try_from(description.size).map_err(|_| INVALID)?;
        let file = description.handle.fd;
        let memory = vmm::open(file)?;
        if size == 0 || size > memory.len() || memory.core() != Some(context.core_device) {
            return Err(INVALID);
        }
        let owner = Owner::of(context);
        let number = OBJECTS.insert(External { memory: Arc::new(memory), size, owner });
        libc::close(file);
        out(extMem_out, CUexternalMemory(std::ptr::without_provenance_mut(number)))
    }

    fn cuDestroyExternalMemory(extMem: CUexternalMemory) {
        order::unsafe_call()?;
        get(extMem)?;
        OBJECTS.remove(extMem.0.addr());
        Ok(())
    }

    fn cuExternalMemoryGetMappedBuffer(
        devPtr: *mut CUdeviceptr,
        extMem: CUexternalMemory,
        bufferDesc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC,
    ) {
        order::unsafe_call()?;
        let (external, description) = (get(extMem)?, input(bufferDesc)?);
        let size = usize::try_from(description.size).map_err(|_| INVALID)?;
        if devPtr.is_null() || description.flags != 0 {
            return Err(INVALID);
        }
        out(devPtr, map(&external, description.offset, size)? as CUdeviceptr)
    }

    fn cuExternalMemoryGetMappedMipmappedArray(
        mipmap: *mut CUmipmappedArray,
        extMem: CUexternalMemory,
        mipmapDesc: *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC,
    ) {
        let context = state::current()?;
        order::unsafe_call()?;
        let (external, description) = (get(extMem)?, input(mipmapDesc)?);
        if mipmap.is_null() {
            return Err(INVALID);
        }
        let size = array::mipmapped_bytes(&description.arrayDesc, description.numLevels)?;
        let base = map(&external, description.offset, size)?;
        out(mipmap, array::create_mipmapped_at(
            context, &description.arrayDesc, description.numLevels, base)?)
    }
}
