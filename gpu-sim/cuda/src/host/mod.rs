//! Page-locked host memory: the driver's own and the application's, registered. It is not device
//! memory and counts on no device; kernels reach it at its own address. It lives until it is freed.

use std::ffi::{c_uint, c_void};
use std::ptr;

use cuda_headers::driver::{CUdeviceptr, CUdeviceptr_v1, CUresult};

use crate::entry::{answer, entry, out};
use crate::memory::{self, Allocation, Family, Owner};
use crate::{order, state};

const PAGE: usize = 4096;
/// PORTABLE, DEVICEMAP, WRITECOMBINED.
const ALLOC_FLAGS: c_uint = 0x7;
/// PORTABLE, DEVICEMAP, IOMEMORY, READ_ONLY.
const REGISTER_FLAGS: c_uint = 0xf;
const IOMEMORY: c_uint = 0x4;
const READ_ONLY: c_uint = 0x8;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

fn allocate(size: usize, flags: c_uint) -> Result<*mut c_void, CUresult> {
    let context = state::current()?;
    order::unsafe_call()?;
    if size == 0 || flags & !ALLOC_FLAGS != 0 {
        return Err(INVALID);
    }
    let len = memory::rounded(size, PAGE)?;
    // SAFETY: a new mapping replaces nothing.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let base = address.expose_provenance();
    let mut allocation = Allocation::new(base, size, len, Family::Host, Owner::of(context));
    allocation.flags = flags;
    memory::lock()?.table.insert(allocation);
    Ok(address)
}

/// The allocation of `family` that begins at an address.
fn exactly(address: *mut c_void, family: Family) -> Result<Allocation, CUresult> {
    let found = memory::lock()?
        .table
        .get(address.expose_provenance())
        .cloned();
    found.filter(|found| found.family == family).ok_or(INVALID)
}

fn free(address: *mut c_void) -> Result<(), CUresult> {
    if address.is_null() {
        return Ok(());
    }
    order::unsafe_call()?;
    let found = exactly(address, Family::Host)?;
    // Copies may still be reading or writing it.
    order::synchronize_all()?;
    memory::lock()?.table.remove(found.base);
    // SAFETY: the mapping that `allocate` made, which nobody uses any more.
    unsafe { libc::munmap(address, found.rounded) };
    Ok(())
}

fn register(address: *mut c_void, size: usize, flags: c_uint) -> Result<(), CUresult> {
    let context = state::current()?;
    order::unsafe_call()?;
    if address.is_null() || size == 0 || flags & !REGISTER_FLAGS != 0 {
        return Err(INVALID);
    }
    if flags & (IOMEMORY | READ_ONLY) != 0 {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let base = address.expose_provenance();
    let mut memory = memory::lock()?;
    if memory.table.overlaps(base, size) {
        return Err(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    }
    let mut allocation = Allocation::new(base, size, size, Family::Registered, Owner::of(context));
    allocation.flags = flags;
    memory.table.insert(allocation);
    Ok(())
}

fn unregister(address: *mut c_void) -> Result<(), CUresult> {
    order::unsafe_call()?;
    let found = exactly(address, Family::Registered)
        .map_err(|_| CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)?;
    order::synchronize_all()?;
    memory::lock()?.table.remove(found.base);
    Ok(())
}

/// The device sees host memory at the host's address.
fn device_pointer(address: *mut c_void, flags: c_uint) -> Result<CUdeviceptr, CUresult> {
    state::current()?;
    let place = address.expose_provenance() as CUdeviceptr;
    let known = memory::find(place).is_some_and(|found| found.on_host());
    if flags == 0 && known {
        Ok(place)
    } else {
        Err(INVALID)
    }
}

entry! {
    fn cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, Flags: c_uint),
    null { answer(out(pp.cast(), memory::null_address(bytesize))) } {
        if pp.is_null() {
            return Err(INVALID);
        }
        out(pp, allocate(bytesize, Flags)?)
    }

    fn cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize),
    null { answer(out(pp.cast(), memory::null_address(bytesize))) } {
        if pp.is_null() {
            return Err(INVALID);
        }
        out(pp, allocate(bytesize, 0)?)
    }

    fn cuMemAllocHost(pp: *mut *mut c_void, bytesize: c_uint) {
        if pp.is_null() {
            return Err(INVALID);
        }
        out(pp, allocate(bytesize as usize, 0)?)
    }

    fn cuMemFreeHost(p: *mut c_void) {
        free(p)
    }

    fn cuMemHostRegister_v2(p: *mut c_void, bytesize: usize, Flags: c_uint) {
        register(p, bytesize, Flags)
    }

    fn cuMemHostRegister(p: *mut c_void, bytesize: usize, Flags: c_uint) {
        register(p, bytesize, Flags)
    }

    fn cuMemHostUnregister(p: *mut c_void) {
        unregister(p)
    }

    fn cuMemHostGetDevicePointer_v2(pdptr: *mut CUdeviceptr, p: *mut c_void, Flags: c_uint) {
        out(pdptr, device_pointer(p, Flags)?)
    }

    /// Addresses do not fit 32 bits.
    fn cuMemHostGetDevicePointer(pdptr: *mut CUdeviceptr_v1, p: *mut c_void, Flags: c_uint) {
        let _ = pdptr;
        device_pointer(p, Flags)?;
        Err(INVALID)
    }

    /// As given at allocation; all host memory is portable and mapped.
    fn cuMemHostGetFlags(pFlags: *mut c_uint, p: *mut c_void) {
        let found = memory::find(p.expose_provenance() as CUdeviceptr);
        let found = found.filter(Allocation::on_host).ok_or(INVALID)?;
        out(pFlags, found.flags | 0x3)
    }
}
