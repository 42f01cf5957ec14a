//! Shareable handles: a descriptor of this process's memory file whose position says which part of
//! it is meant. It can be sent through a unix socket like the driver's own.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use cuda_headers::driver::{
    CUmemAllocationHandleType as HandleType, CUmemAllocationProp, CUmemAllocationType,
    CUmemGenericAllocationHandle, CUmemLocationType, CUresult,
};

use crate::device;
use crate::memory::{self, BLOCK, file};
use crate::vmm::physical::{self, Physical, Place, Source};

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
    };
    let core = physical
        .place
        .device()
        .map_or(HOST, |(_, core)| core as u64);
    let position = encode(core, physical.size, offset).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let own = file::reopen(file).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    // SAFETY: plain system call on a descriptor that is ours.
    if unsafe { libc::lseek(own.as_raw_fd(), position, libc::SEEK_SET) } != position {
        return Err(CUresult::CUDA_ERROR_OPERATING_SYSTEM);
    }
    physical.exported.store(true, Ordering::Relaxed);
    Ok(own.into_raw_fd())
}

/// The descriptor stays the caller's.
pub(super) fn import(file: c_int) -> Result<CUmemGenericAllocationHandle, CUresult> {
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
    let mut prop = blank();
    let place = if core == HOST {
        prop.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA;
        Place::Host
    } else {
        let core = usize::try_from(core).map_err(|_| invalid)?;
        let device = device::of_core(core).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        prop.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        prop.location.__bindgen_anon_1.id = device;
        Place::Device(device, core)
    };
    prop.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    Ok(physical::import(own, offset, size, place, prop))
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
