//! Shareable handles: a descriptor of this process's memory file whose position says which part of
//! it is meant. It can be sent through a unix socket like the driver's own.
//!
//! Documented (`cuMemRelease`, `cuMemExportToShareableHandle`): the memory lives until every handle is released, every
//! mapping gone and every descriptor closed, in whichever process. A read lock on the descriptor's open file says whether it
//! is still open somewhere: it lasts as long as any copy of it, importers' included. The memory counts for the process that
//! created it; if that ends first, for one that imported it. (A descriptor that outlives its exporter without having been
//! imported counts for nobody until it is.)

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use cuda_headers::driver::{
    CUmemAllocationHandleType as HandleType, CUmemAllocationProp, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocationType, CUresult,
};

use crate::memory::{self, BLOCK, file};
use crate::vmm::physical::{self, Physical, Place, Source};
use crate::{device, state};

/// The top bits of a position, which no ordinary file has.
const MARK: u64 = 0x5a3;
const MARK_SHIFT: u32 = 51;
const CORE_SHIFT: u32 = 46;
const LENGTH_SHIFT: u32 = 23;
const BLOCKS: u64 = (1 << LENGTH_SHIFT) - 1;
/// Stands for host memory among the device numbers.
const HOST: u64 = 31;

fn encode(core: u64, len: usize, offset: usize) -> Option<i64> {
    let (len, offset) = ((len / BLOCK) as u64, (offset / BLOCK) as u64);
    let fits = len <= BLOCKS && offset <= BLOCKS && core <= HOST;
    let word = MARK << MARK_SHIFT | core << CORE_SHIFT | len << LENGTH_SHIFT | offset;
    fits.then_some(word)
        .and_then(|word| i64::try_from(word).ok())
}

/// (device or host, length, offset)
fn decode(position: i64) -> Option<(u64, usize, usize)> {
    let word = u64::try_from(position).ok()?;
    let blocks = |word: u64| {
        usize::try_from(word & BLOCKS)
            .ok()
            .map(|blocks| blocks * BLOCK)
    };
    let found = (
        (word >> CORE_SHIFT) & HOST,
        blocks(word >> LENGTH_SHIFT)?,
        blocks(word)?,
    );
    (word >> MARK_SHIFT == MARK && found.1 > 0).then_some(found)
}

pub(super) fn export(physical: &Physical, kind: HandleType) -> Result<c_int, CUresult> {
    let wanted = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if kind != wanted || physical.prop.requestedHandleTypes.0 & wanted.0 == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let memory = memory::lock()?;
    let (file, offset) = match &physical.source {
        Source::Own(offset) => (memory.arena.file(), *offset),
        Source::Imported(file, offset) => (file, *offset),
        Source::Multicast(_) => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
    };
    let core = physical
        .place
        .device()
        .map_or(HOST, |(_, core)| core as u64);
    let position = encode(core, physical.size, offset).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let own = file::reopen(file).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    let key = key(&own, offset)?;
    drop(memory);
    // SAFETY: plain system call on a descriptor that is ours.
    if unsafe { libc::lseek(own.as_raw_fd(), position, libc::SEEK_SET) } != position {
        return Err(CUresult::CUDA_ERROR_OPERATING_SYSTEM);
    }
    lock_open(own.as_raw_fd(), offset);
    if physical.shared.get().is_none() {
        if let Some((_, core)) = physical.place.device()
            && !state::member()?.share(key, core, physical.size as u64)
        {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        if physical.shared.set(key).is_ok() {
            counts(|counts| *counts.entry(key).or_insert(0) += 1);
        }
    }
    Ok(own.into_raw_fd())
}

/// What tells a piece of memory from all others of the machine.
pub(super) type Key = (u64, u64);

fn key(file: &OwnedFd, offset: usize) -> Result<Key, CUresult> {
    let identity = file::identity(file.as_raw_fd());
    let (_, inode) = identity.map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    Ok((inode, offset as u64))
}

/// How many pieces of this process stand for a key: the original, and imports.
fn counts<T>(with: impl FnOnce(&mut HashMap<Key, usize>) -> T) -> T {
    static COUNTS: Mutex<Option<HashMap<Key, usize>>> = Mutex::new(None);
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    with(counts.get_or_insert_default())
}

/// The descriptor stays the caller's.
pub(super) fn import(file: c_int) -> Result<CUmemGenericAllocationHandle, CUresult> {
    open(file).map(physical::add)
}

/// The memory that a descriptor stands for.
pub(crate) fn open(file: c_int) -> Result<Physical, CUresult> {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    // SAFETY: plain system calls; a descriptor that is none is an error. The duplicate is ours.
    let (position, own) = unsafe {
        let position = libc::lseek(file, 0, libc::SEEK_CUR);
        (position, libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 3))
    };
    if own < 0 {
        return Err(invalid);
    }
    // SAFETY: just made, and nobody else's.
    let own = unsafe { OwnedFd::from_raw_fd(own) };
    let (core, size, offset) = decode(position).ok_or(invalid)?;
    let key = key(&own, offset)?;
    let mut prop = blank();
    let place = if core == HOST {
        prop.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA;
        Place::Host
    } else {
        let core = usize::try_from(core).map_err(|_| invalid)?;
        let device = device::of_core(core).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        prop.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        prop.location.__bindgen_anon_1.id = device;
        hold(key, core, size)?;
        Place::Device(device, core)
    };
    prop.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let physical = Physical::new(size, place, Source::Imported(own, offset), prop);
    let _ = physical.shared.set(key);
    counts(|counts| *counts.entry(key).or_insert(0) += 1);
    Ok(physical)
}

/// Counts this process among the holders. It is charged where nobody is any more.
fn hold(key: Key, core: usize, size: usize) -> Result<(), CUresult> {
    let member = state::member()?;
    if counts(|counts| counts.contains_key(&key)) || member.hold(key) {
        return Ok(());
    }
    memory::charge(core, size, size)?;
    if member.share(key, core, size as u64) {
        return Ok(());
    }
    memory::refund(core, size, size);
    Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

/// A piece that is shared goes.
pub(super) fn let_go(physical: &Physical, key: Key) {
    let last = counts(|counts| {
        let left = counts.get_mut(&key).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            counts.remove(&key);
        }
        left == 0
    });
    if !last {
        return;
    }
    let file = match &physical.source {
        Source::Own(_) => memory::lock()
            .ok()
            .and_then(|memory| file::reopen(memory.arena.file()).ok()),
        Source::Imported(..) | Source::Multicast(_) => None,
    };
    match file {
        Some(file) if is_open(file.as_raw_fd(), key) => {
            zombies(|zombies| zombies.push((key, file)))
        }
        _ => {
            let _ = state::member().map(|member| member.let_go(key));
        }
    }
}

/// Memory of which this process has nothing left, while descriptors of it are open.
fn zombies<T>(with: impl FnOnce(&mut Vec<(Key, OwnedFd)>) -> T) -> T {
    static ZOMBIES: Mutex<Vec<(Key, OwnedFd)>> = Mutex::new(Vec::new());
    with(&mut ZOMBIES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Gives back what the last descriptor was closed of meanwhile: nobody says so when it happens.
pub(crate) fn collect() {
    zombies(|zombies| {
        zombies.retain(|(key, file)| {
            let open = is_open(file.as_raw_fd(), *key);
            if !open {
                let _ = state::member().map(|member| member.let_go(*key));
            }
            open
        });
    });
}

fn flock(kind: c_int, offset: u64) -> libc::flock {
    // SAFETY: numbers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    let short = |number: c_int| libc::c_short::try_from(number).unwrap_or(0);
    lock.l_type = short(kind);
    lock.l_whence = short(libc::SEEK_SET);
    lock.l_start = offset.cast_signed();
    lock.l_len = 1;
    lock
}

/// Marks an open file as standing for what begins at an offset.
fn lock_open(file: c_int, offset: usize) {
    let lock = flock(libc::F_RDLCK, offset as u64);
    // SAFETY: our descriptor and a live lock.
    unsafe { libc::fcntl(file, libc::F_OFD_SETLK, &raw const lock) };
}

/// Whether such an open file exists anywhere.
fn is_open(file: c_int, key: Key) -> bool {
    let mut lock = flock(libc::F_WRLCK, key.1);
    // SAFETY: as above.
    let asked = unsafe { libc::fcntl(file, libc::F_OFD_GETLK, &raw mut lock) };
    asked == 0 && c_int::from(lock.l_type) != libc::F_UNLCK
}

fn blank() -> CUmemAllocationProp {
    // SAFETY: all fields are numbers and a pointer, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_tell_what_is_meant() {
        for (core, len, offset) in [
            (0, BLOCK, 0),
            (15, 80 << 30, 1 << 40),
            (HOST, BLOCK, 2 * BLOCK),
        ] {
            assert_eq!(
                decode(encode(core, len, offset).unwrap()),
                Some((core, len, offset))
            );
        }
        for position in [0, 4096, -1, i64::MAX] {
            assert_eq!(decode(position), None, "{position:#x}");
        }
    }
}
