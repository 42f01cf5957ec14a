//! Pools that another process imports: the pool itself as a file descriptor, and then each
//! allocation by its data. What is imported counts for the exporter alone.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use cuda_headers::driver::{
    CUdeviceptr, CUmemAllocationHandleType as HandleType, CUmemPoolPtrExportData, CUmemoryPool,
    CUresult,
};

use crate::device;
use crate::memory::{self, Allocation, BLOCK, Family, Owner, file};
use crate::pool::{self, POOLS, Pool};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
pub(super) const POSIX: HandleType = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
/// The top bits of the descriptor's position; below them, the device.
const MARK: i64 = 0x5a4 << 51;
const DEVICES: i64 = 31;
const MAGIC: u64 = u64::from_le_bytes(*b"gpusimPP");

/// A descriptor of this process's memory file, whose position says what it stands for.
pub(super) fn export(pool: &Pool) -> Result<c_int, CUresult> {
    if !pool.exportable {
        return Err(INVALID);
    }
    let own = file::reopen(memory::lock()?.arena.file())
        .map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    let position = MARK | i64::try_from(pool.core.ok_or(INVALID)?).map_err(|_| INVALID)?;
    // SAFETY: plain system call on a descriptor that is ours.
    if unsafe { libc::lseek(own.as_raw_fd(), position, libc::SEEK_SET) } != position {
        return Err(CUresult::CUDA_ERROR_OPERATING_SYSTEM);
    }
    Ok(own.into_raw_fd())
}

/// The descriptor stays the caller's.
pub(super) fn import(file: c_int) -> Result<CUmemoryPool, CUresult> {
    // SAFETY: plain system calls; a descriptor that is none is an error. The duplicate is ours.
    let (position, own) = unsafe {
        let position = libc::lseek(file, 0, libc::SEEK_CUR);
        (position, libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 3))
    };
    if own < 0 {
        return Err(INVALID);
    }
    // SAFETY: just made, and nobody else's.
    let own = unsafe { OwnedFd::from_raw_fd(own) };
    if position < 0 || position & !DEVICES != MARK {
        return Err(INVALID);
    }
    let core = usize::try_from(position & DEVICES).map_err(|_| INVALID)?;
    let device = device::of_core(core).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
    let mut pool = Pool::new(device, core, false, 0);
    pool.imported = Some(own);
    Ok(pool::handle(POOLS.insert(pool)))
}

/// What the importer must know of an allocation.
pub(super) fn export_pointer(address: CUdeviceptr) -> Result<CUmemPoolPtrExportData, CUresult> {
    let found = memory::find(address).filter(|found| found.base as CUdeviceptr == address);
    let found = found.ok_or(INVALID)?;
    let Family::Pool(pool) = found.family else {
        return Err(INVALID);
    };
    if !POOLS.get(pool).is_some_and(|pool| pool.exportable) {
        return Err(INVALID);
    }
    let memory = memory::lock()?;
    let (_, inode) = file::identity(memory.arena.file().as_raw_fd())
        .map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    let mut bytes = [0_u8; 64];
    let words = [
        MAGIC,
        inode,
        memory.arena.offset(found.base) as u64,
        found.size as u64,
    ];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Ok(CUmemPoolPtrExportData { reserved: bytes })
}

/// Maps another process's allocation.
pub(super) fn import_pointer(
    pool: CUmemoryPool,
    data: &CUmemPoolPtrExportData,
) -> Result<CUdeviceptr, CUresult> {
    let pool = pool::get(pool)?;
    let file = pool.imported.as_ref().ok_or(INVALID)?;
    let word = |at: usize| {
        let part = data
            .reserved
            .get(at * 8..at * 8 + 8)
            .and_then(|part| part.try_into().ok());
        part.map(u64::from_le_bytes).ok_or(INVALID)
    };
    let same = file::identity(file.as_raw_fd()).is_ok_and(|(_, inode)| Ok(inode) == word(1));
    if word(0)? != MAGIC || !same {
        return Err(INVALID);
    }
    let number = |word: u64| usize::try_from(word).map_err(|_| INVALID);
    let (offset, size) = (number(word(2)?)?, number(word(3)?)?);
    let inside = offset % BLOCK;
    let len = memory::rounded(inside + size, BLOCK)?;
    let mut memory = memory::lock()?;
    let start = memory
        .arena
        .reserve(len, BLOCK)
        .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    if file::map_fixed(start, len, file.as_raw_fd(), offset - inside).is_err() {
        memory.arena.unreserve(start, len);
        return Err(CUresult::CUDA_ERROR_MAP_FAILED);
    }
    let address = start + inside;
    let owner = Owner {
        context: 0,
        device: pool.device,
        core: pool.core.ok_or(INVALID)?,
    };
    memory.table.insert(Allocation::new(
        address,
        size,
        len,
        Family::PoolImport,
        owner,
    ));
    Ok(address as CUdeviceptr)
}

/// Takes an imported allocation out of the program's sight; the answer unmaps it.
pub(crate) fn detach_import(address: usize) -> Result<impl FnOnce() + Send, CUresult> {
    let mut memory = memory::lock()?;
    let found = memory
        .table
        .get(address)
        .filter(|found| found.family == Family::PoolImport);
    let len = found.ok_or(INVALID)?.rounded;
    memory.table.remove(address);
    Ok(move || {
        if let Ok(mut memory) = memory::lock() {
            let start = address - address % BLOCK;
            memory.arena.unmap(start, len);
            memory.arena.unreserve(start, len);
        }
    })
}
