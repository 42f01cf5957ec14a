//! Memory of another process, by `cuIpcGetMemHandle` and `cuIpcOpenMemHandle`. The handle says
//! where in which process's memory file the bytes are; the importer opens that file through
//! `/proc` and maps the blocks. The memory counts for the exporter; if that ends or frees it while
//! others have it open, for one of those, because the device keeps it until the last of them closes it.

use std::collections::HashMap;
use std::ffi::c_uint;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_headers::driver::{CUdeviceptr, CUipcMemHandle, CUresult};

use crate::entry::{entry, input, out};
use crate::memory::{self, Allocation, BLOCK, Family, Owner, file};
use crate::{device, order, state};

const MAGIC: u64 = u64::from_le_bytes(*b"gpusimIP");
const LAZY_PEER: c_uint = 1;

/// What the 64 bytes of a handle say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handle {
    pid: u32,
    file: i32,
    /// Inode of the file, against numbers that have come to mean something else.
    inode: u64,
    offset: u64,
    size: u64,
    core: u32,
    /// Number of the allocation in its process: one that is freed may live on elsewhere while its place is taken again.
    number: u64,
}

impl Handle {
    fn write(&self) -> CUipcMemHandle {
        let mut bytes = [0_u8; 64];
        let words = [
            MAGIC,
            u64::from(self.pid) << 32 | u64::from(self.file.cast_unsigned()),
            self.inode,
            self.offset,
            self.size,
            u64::from(self.core),
            self.number,
        ];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        CUipcMemHandle {
            reserved: bytes.map(u8::cast_signed),
        }
    }

    fn read(handle: &CUipcMemHandle) -> Option<Self> {
        let bytes = handle.reserved.map(i8::cast_unsigned);
        let word = |at: usize| {
            let part = bytes.get(at * 8..at * 8 + 8)?;
            Some(u64::from_le_bytes(part.try_into().ok()?))
        };
        let process = word(1)?;
        (word(0)? == MAGIC).then_some(())?;
        Some(Self {
            pid: u32::try_from(process >> 32).ok()?,
            file: u32::try_from(process & 0xffff_ffff).ok()?.cast_signed(),
            inode: word(2)?,
            offset: word(3)?,
            size: word(4)?,
            core: u32::try_from(word(5)?).ok()?,
            number: word(6)?,
        })
    }
}

struct Opened {
    handle: Handle,
    /// Whole blocks, of which the allocation is a part.
    start: usize,
    len: usize,
    count: usize,
}

impl Handle {
    /// What tells the memory from any other.
    fn key(&self) -> (u64, u64) {
        (self.inode, self.number)
    }
}

/// Number of the next allocation that is handed out.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// What this process has handed out, by address.
static EXPORTED: Mutex<Option<HashMap<usize, Handle>>> = Mutex::new(None);

fn exported<T>(with: impl FnOnce(&mut HashMap<usize, Handle>) -> T) -> T {
    let mut exported = EXPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    with(exported.get_or_insert_default())
}

/// Memory of this process is about to be given back: what tells it from any other, if others may have it open.
pub(crate) fn freed(base: usize) -> Option<(u64, u64)> {
    exported(|all| all.remove(&base)).map(|handle| handle.key())
}

/// What this process has opened, by address.
static OPENED: Mutex<Option<HashMap<usize, Opened>>> = Mutex::new(None);

fn opened<T>(with: impl FnOnce(&mut HashMap<usize, Opened>) -> T) -> T {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    with(opened.get_or_insert_default())
}

fn export(address: CUdeviceptr) -> Result<CUipcMemHandle, CUresult> {
    let memory = memory::lock()?;
    let base = usize::try_from(address).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let found = memory
        .table
        .find(base)
        .filter(|found| found.family == Family::Linear);
    let found = found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if let Some(known) = exported(|all| all.get(&found.base).map(Handle::write)) {
        return Ok(known);
    }
    let file = memory.arena.file().as_raw_fd();
    let (_, inode) = file::identity(file).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    let handle = Handle {
        pid: std::process::id(),
        file,
        inode,
        offset: memory.arena.offset(found.base) as u64,
        size: found.size as u64,
        core: u32::try_from(found.owner.core).unwrap_or(u32::MAX),
        number: NEXT.fetch_add(1, Ordering::Relaxed),
    };
    // Without room to note it the memory goes with this process.
    let _ = state::member()?.share(handle.key(), found.owner.core, found.rounded as u64);
    exported(|all| all.insert(found.base, handle));
    Ok(handle.write())
}

fn open(raw: &CUipcMemHandle, flags: c_uint) -> Result<CUdeviceptr, CUresult> {
    let context = state::current()?;
    order::unsafe_call()?;
    if flags & !LAZY_PEER != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let handle = Handle::read(raw).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    if handle.pid == std::process::id() {
        // A process cannot open what it exported.
        return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
    let again = opened(|all| {
        let known = all.iter_mut().find(|(_, opened)| opened.handle == handle);
        known.map(|(address, opened)| {
            opened.count += 1;
            *address
        })
    });
    match again {
        Some(address) => Ok(address as CUdeviceptr),
        None => map(handle, Owner::of(context)),
    }
}

fn map(handle: Handle, owner: Owner) -> Result<CUdeviceptr, CUresult> {
    let invalid = CUresult::CUDA_ERROR_INVALID_HANDLE;
    let core = handle.core as usize;
    let device = device::of_core(core).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
    if !device::accessible(owner.device, device) {
        return Err(CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    }
    let path = format!("/proc/{}/fd/{}", handle.pid, handle.file);
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|_| invalid)?;
    let same = file::identity(file.as_raw_fd()).is_ok_and(|(_, inode)| inode == handle.inode);
    if !same {
        return Err(invalid);
    }
    let number = |word: u64| usize::try_from(word).map_err(|_| invalid);
    let (offset, size) = (number(handle.offset)?, number(handle.size)?);
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
    let _ = state::member()?.hold(handle.key());
    let address = start + inside;
    let owner = Owner {
        context: owner.context,
        device,
        core,
    };
    memory
        .table
        .insert(Allocation::new(address, size, len, Family::Ipc, owner));
    opened(|all| {
        all.insert(
            address,
            Opened {
                handle,
                start,
                len,
                count: 1,
            },
        )
    });
    Ok(address as CUdeviceptr)
}

fn close(address: usize) -> Result<(), CUresult> {
    let last = opened(|all| {
        let known = all
            .get_mut(&address)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        known.count -= 1;
        let last = known.count == 0;
        Ok(if last { all.remove(&address) } else { None })
    })?;
    let Some(last) = last else { return Ok(()) };
    order::synchronize_all()?;
    forget(address, &last);
    Ok(())
}

fn forget(address: usize, gone: &Opened) {
    let Ok(mut memory) = memory::lock() else {
        return;
    };
    if let Ok(member) = state::member() {
        member.let_go(gone.handle.key());
    }
    memory.table.remove(address);
    memory.arena.unmap(gone.start, gone.len);
    memory.arena.unreserve(gone.start, gone.len);
}

/// Closes what a context that ends had opened.
pub(crate) fn on_context_destroy(context: u64) {
    let gone: Vec<(usize, Opened)> = opened(|all| {
        let of_context = |address: &usize| {
            memory::find(*address as CUdeviceptr).is_some_and(|a| a.owner.context == context)
        };
        let addresses: Vec<usize> = all.keys().copied().filter(of_context).collect();
        addresses
            .into_iter()
            .filter_map(|a| Some((a, all.remove(&a)?)))
            .collect()
    });
    gone.iter()
        .for_each(|(address, opened)| forget(*address, opened));
}

entry! {
    /// Of linear memory only.
    fn cuIpcGetMemHandle(pHandle: *mut CUipcMemHandle, dptr: CUdeviceptr) {
        state::current()?;
        if pHandle.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(pHandle, export(dptr)?)
    }

    fn cuIpcOpenMemHandle_v2(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, Flags: c_uint) {
        if pdptr.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(pdptr, open(&handle, Flags)?)
    }

    fn cuIpcOpenMemHandle(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, Flags: c_uint) {
        if pdptr.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(pdptr, open(input(&raw const handle)?, Flags)?)
    }

    fn cuIpcCloseMemHandle(dptr: CUdeviceptr) {
        close(usize::try_from(dptr).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_read_as_written() {
        let handle = Handle {
            pid: 4711,
            file: 5,
            inode: 99,
            offset: 3 << 40,
            size: 1 << 30,
            core: 15,
            number: 7,
        };
        assert_eq!(Handle::read(&handle.write()), Some(handle));
        assert_eq!(Handle::read(&CUipcMemHandle { reserved: [0; 64] }), None);
    }
}
