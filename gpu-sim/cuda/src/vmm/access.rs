//! Who may touch a mapping. Until somebody may, its addresses fault.

use cuda_headers::driver::{CUmemAccess_flags as Flags, CUmemAccessDesc, CUresult};

use crate::device;
use crate::memory;
use crate::vmm::physical::{Place, Source};
use crate::vmm::{INVALID, Mapping, lock};

/// Checks one description for one mapping.
fn check(mapping: &Mapping, description: &CUmemAccessDesc) -> Result<(Place, Flags), CUresult> {
    let place = Place::of(&description.location)?;
    if !matches!(
        description.flags,
        Flags::CU_MEM_ACCESS_FLAGS_PROT_NONE
            | Flags::CU_MEM_ACCESS_FLAGS_PROT_READ
            | Flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    ) {
        return Err(INVALID);
    }
    match (place.device(), mapping.physical.place.device()) {
        (Some((asking, _)), Some((owner, _))) if !device::accessible(asking, owner) => {
            Err(CUresult::CUDA_ERROR_INVALID_DEVICE)
        }
        // The host does not reach a device's memory by its address.
        (None, Some(_)) => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        _ => Ok((place, description.flags)),
    }
}

/// `cuMemSetAccess`: all or nothing.
pub(super) fn set(
    start: usize,
    len: usize,
    descriptions: &[CUmemAccessDesc],
) -> Result<(), CUresult> {
    let mut vmm = lock();
    let bases = vmm.exactly(start, len)?;
    let mut all = Vec::new();
    for base in &bases {
        let mapping = vmm.mappings.get(base).ok_or(INVALID)?;
        for description in descriptions {
            all.push((*base, check(mapping, description)?));
        }
    }
    for (base, (place, flags)) in all {
        if let Some(mapping) = vmm.mappings.get_mut(&base) {
            mapping.access.retain(|(known, _)| *known != place);
            mapping.access.push((place, flags));
        }
    }
    for base in bases {
        if let Some(mapping) = vmm.mappings.get(&base) {
            apply(base, mapping)?;
        }
    }
    Ok(())
}

/// Makes the addresses as accessible as anybody may find them.
fn apply(base: usize, mapping: &Mapping) -> Result<(), CUresult> {
    let granted = |wanted: Flags| mapping.access.iter().any(|(_, flags)| *flags == wanted);
    let write = granted(Flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    let read = write || granted(Flags::CU_MEM_ACCESS_FLAGS_PROT_READ);
    let mut memory = memory::lock()?;
    let done = match (&mapping.physical.source, read) {
        (_, false) => {
            memory.arena.unmap(base, mapping.len);
            Ok(())
        }
        (Source::Multicast(_), true) => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        (_, true) => {
            let physical = &mapping.physical;
            physical.map_at(&mut memory.arena, base, mapping.len, 0)
        }
    };
    done.map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    if read && !write {
        // SAFETY: exactly the mapping that was just made.
        unsafe {
            libc::mprotect(
                std::ptr::with_exposed_provenance_mut(base),
                mapping.len,
                libc::PROT_READ,
            );
        }
    }
    if let Some(allocation) = memory.table.get_mut(base) {
        allocation.accessible = read;
    }
    Ok(())
}

/// `cuMemGetAccess`.
pub(super) fn get(address: usize, place: Place) -> Result<Flags, CUresult> {
    let vmm = lock();
    let mapping = vmm.at(address).ok_or(INVALID)?;
    let found = mapping.access.iter().find(|(known, _)| *known == place);
    Ok(found.map_or(Flags::CU_MEM_ACCESS_FLAGS_PROT_NONE, |(_, flags)| *flags))
}
