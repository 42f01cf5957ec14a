//! The driver functions of virtual memory management.

use std::ffi::{c_int, c_ulonglong, c_void};

use cuda_headers::driver::{
    CUdeviceptr, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemGenericAllocationHandle, CUmemLocation, CUresult,
};

use crate::entry::{answer, entry, input, out};
use crate::memory::{self, BLOCK};
use crate::order;
use crate::vmm::physical::{self, Place};
use crate::vmm::{self, INVALID, access, share};

fn number(address: CUdeviceptr) -> Result<usize, CUresult> {
    usize::try_from(address).map_err(|_| INVALID)
}

fn none(flags: c_ulonglong) -> Result<(), CUresult> {
    if flags == 0 { Ok(()) } else { Err(INVALID) }
}

entry! {
    fn cuMemAddressReserve(
        ptr: *mut CUdeviceptr,
        size: usize,
        alignment: usize,
        addr: CUdeviceptr,
        flags: c_ulonglong,
    ), null { answer(out(ptr, memory::null_address(size))) } {
        none(flags)?;
        if ptr.is_null() {
            return Err(INVALID);
        }
        out(ptr, vmm::reserve(size, alignment, number(addr)?)? as CUdeviceptr)
    }

    /// The whole of a reservation, with nothing mapped in it.
    fn cuMemAddressFree(ptr: CUdeviceptr, size: usize) {
        vmm::free_addresses(number(ptr)?, size)
    }

    /// Sizes are multiples of the granularity.
    fn cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle,
        size: usize,
        prop: *const CUmemAllocationProp,
        flags: c_ulonglong,
    ), null { answer(out(handle, memory::null_address(1))) } {
        none(flags)?;
        order::unsafe_call()?;
        if handle.is_null() {
            return Err(INVALID);
        }
        out(handle, physical::create(size, input(prop)?)?)
    }

    /// The memory stays while it is mapped somewhere.
    fn cuMemRelease(handle: CUmemGenericAllocationHandle) {
        physical::release(handle)
    }

    /// From the start of the memory; who may touch it is said by `cuMemSetAccess`.
    fn cuMemMap(
        ptr: CUdeviceptr,
        size: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong,
    ) {
        none(flags)?;
        if offset != 0 {
            return Err(INVALID);
        }
        vmm::map(number(ptr)?, size, physical::get(handle)?)
    }

    /// Whole mappings, one or several.
    fn cuMemUnmap(ptr: CUdeviceptr, size: usize) {
        order::synchronize_all()?;
        vmm::unmap(number(ptr)?, size)
    }

    fn cuMemSetAccess(
        ptr: CUdeviceptr,
        size: usize,
        desc: *const CUmemAccessDesc,
        count: usize,
    ) {
        input(desc)?;
        if count == 0 {
            return Err(INVALID);
        }
        access::set(number(ptr)?, size, std::slice::from_raw_parts(desc, count))
    }

    fn cuMemGetAccess(flags: *mut c_ulonglong, location: *const CUmemLocation, ptr: CUdeviceptr) {
        let found = access::get(number(ptr)?, Place::of(input(location)?)?)?;
        out(flags, c_ulonglong::from(found.0))
    }

    /// 2 MiB, least and best.
    fn cuMemGetAllocationGranularity(
        granularity: *mut usize,
        prop: *const CUmemAllocationProp,
        option: CUmemAllocationGranularity_flags,
    ), null { answer(out(granularity, BLOCK)) } {
        if option.0 > 1 {
            return Err(INVALID);
        }
        physical::check(input(prop)?)?;
        out(granularity, BLOCK)
    }

    fn cuMemGetAllocationPropertiesFromHandle(
        prop: *mut CUmemAllocationProp,
        handle: CUmemGenericAllocationHandle,
    ) {
        let memory = physical::get(handle)?;
        if matches!(memory.source, physical::Source::Multicast(_)) {
            return Err(INVALID);
        }
        out(prop, memory.prop)
    }

    /// Any address inside a mapping.
    fn cuMemRetainAllocationHandle(
        handle: *mut CUmemGenericAllocationHandle,
        addr: *mut c_void,
    ), null { answer(out(handle, memory::null_address(1))) } {
        if handle.is_null() {
            return Err(INVALID);
        }
        let vmm = vmm::lock();
        let mapping = vmm.at(addr.expose_provenance()).ok_or(INVALID)?;
        out(handle, physical::retain(&mapping.physical))
    }

    /// As a file descriptor, where the memory was created for it.
    fn cuMemExportToShareableHandle(
        shareableHandle: *mut c_void,
        handle: CUmemGenericAllocationHandle,
        handleType: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) {
        none(flags)?;
        if shareableHandle.is_null() {
            return Err(INVALID);
        }
        let file = share::export(&*physical::get(handle)?, handleType)?;
        out(shareableHandle.cast::<c_int>(), file)
    }

    /// The descriptor, as documented, is passed in the pointer itself.
    fn cuMemImportFromShareableHandle(
        handle: *mut CUmemGenericAllocationHandle,
        osHandle: *mut c_void,
        shHandleType: CUmemAllocationHandleType,
    ) {
        let wanted = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        if handle.is_null() || shHandleType != wanted {
            return Err(INVALID);
        }
        let file = c_int::try_from(osHandle.addr()).map_err(|_| INVALID)?;
        out(handle, share::import(file)?)
    }
}
