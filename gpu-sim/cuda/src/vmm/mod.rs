//! Virtual memory management: address ranges, physical memory without an address, and mappings of
//! the one into the other. Nothing here belongs to a context.

mod access;
mod entries;
mod multicast;
mod physical;
mod share;

use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::{CUmemAccess_flags, CUresult};

use crate::memory::{self, Allocation, BLOCK, Family, Owner};
use physical::Place;
pub(crate) use physical::{Physical, get};
pub(crate) use share::{collect, open};

/// One mapping of `cuMemMap`.
pub(crate) struct Mapping {
    len: usize,
    physical: Arc<Physical>,
    /// Who may do what.
    access: Vec<(Place, CUmemAccess_flags)>,
}

/// Address ranges and mappings of this process.
#[derive(Default)]
pub(crate) struct Vmm {
    reservations: BTreeMap<usize, usize>,
    mappings: BTreeMap<usize, Mapping>,
}

static VMM: Mutex<Vmm> = Mutex::new(Vmm {
    reservations: BTreeMap::new(),
    mappings: BTreeMap::new(),
});

fn lock() -> MutexGuard<'static, Vmm> {
    VMM.lock().unwrap_or_else(PoisonError::into_inner)
}

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const PAGE: usize = 4096;

/// Reserves addresses; near `hint` if they are free there.
fn reserve(len: usize, align: usize, hint: usize) -> Result<usize, CUresult> {
    let aligned = align == 0 || align.is_power_of_two();
    if len == 0 || !len.is_multiple_of(PAGE) || !aligned {
        return Err(INVALID);
    }
    let align = align.max(BLOCK);
    let whole = len
        .checked_add(align)
        .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    let hint = if hint.is_multiple_of(align) { hint } else { 0 };
    // SAFETY: a new mapping without MAP_FIXED replaces nothing.
    let raw = unsafe {
        libc::mmap(
            ptr::with_exposed_provenance_mut(hint),
            whole,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if raw == libc::MAP_FAILED {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let raw = raw.addr();
    let start = raw.next_multiple_of(align);
    // What alignment did not need goes back.
    unmap_addresses(raw, start - raw);
    unmap_addresses(start + len, raw + whole - start - len);
    lock().reservations.insert(start, len);
    Ok(start)
}

fn unmap_addresses(start: usize, len: usize) {
    if len > 0 {
        // SAFETY: part of a range that `reserve` mapped and that holds no mapping of memory.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(start), len) };
    }
}

/// Gives a whole reservation back; nothing may be mapped in it.
fn free_addresses(start: usize, len: usize) -> Result<(), CUresult> {
    let mut vmm = lock();
    if vmm.reservations.get(&start) != Some(&len)
        || vmm.mappings.range(start..start + len).next().is_some()
    {
        return Err(INVALID);
    }
    vmm.reservations.remove(&start);
    unmap_addresses(start, len);
    Ok(())
}

impl Vmm {
    fn reserved(&self, start: usize, len: usize) -> bool {
        let Some(end) = start.checked_add(len) else {
            return false;
        };
        let before = self.reservations.range(..=start).next_back();
        before.is_some_and(|(base, size)| end <= base + size)
    }

    fn overlaps(&self, start: usize, len: usize) -> bool {
        let before = self.mappings.range(..start + len).next_back();
        before.is_some_and(|(base, mapping)| base + mapping.len > start)
    }

    /// The mappings that make up a range exactly.
    fn exactly(&self, start: usize, len: usize) -> Result<Vec<usize>, CUresult> {
        let end = start.checked_add(len).filter(|_| len > 0).ok_or(INVALID)?;
        let mut at = start;
        let mut found = Vec::new();
        while at < end {
            let mapping = self.mappings.get(&at).ok_or(INVALID)?;
            found.push(at);
            at += mapping.len;
        }
        if at == end { Ok(found) } else { Err(INVALID) }
    }

    fn at(&self, address: usize) -> Option<&Mapping> {
        let (base, mapping) = self.mappings.range(..=address).next_back()?;
        (address - base < mapping.len).then_some(mapping)
    }
}

/// Maps the whole of a piece of memory. Nobody may touch it before `cuMemSetAccess`.
fn map(start: usize, len: usize, physical: Arc<Physical>) -> Result<(), CUresult> {
    let mut vmm = lock();
    let fits = len > 0 && len <= physical.size && len.is_multiple_of(BLOCK);
    if !fits || !start.is_multiple_of(BLOCK) || !vmm.reserved(start, len) {
        return Err(INVALID);
    }
    if vmm.overlaps(start, len) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let (device, core) = physical.place.device().unwrap_or((0, 0));
    let owner = Owner {
        context: 0,
        device,
        core,
    };
    let mut allocation = Allocation::new(start, len, len, Family::Mapping, owner);
    allocation.accessible = false;
    allocation.flags = u32::from(physical.place.device().is_none());
    memory::lock()?.table.insert(allocation);
    vmm.mappings.insert(
        start,
        Mapping {
            len,
            physical,
            access: Vec::new(),
        },
    );
    Ok(())
}

fn unmap(start: usize, len: usize) -> Result<(), CUresult> {
    let mut vmm = lock();
    let found = vmm.exactly(start, len)?;
    let gone: Vec<Mapping> = found
        .iter()
        .filter_map(|base| vmm.mappings.remove(base))
        .collect();
    let mut memory = memory::lock()?;
    for base in found {
        memory.table.remove(base);
    }
    memory.arena.unmap(start, len);
    // The memory itself goes with its last handle and mapping, which takes the lock again.
    drop(memory);
    drop(gone);
    Ok(())
}
