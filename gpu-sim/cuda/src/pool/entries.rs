//! The driver functions of memory pools.

use std::ffi::{c_int, c_ulonglong, c_void};

use cuda_headers::driver::{
    CUdevice, CUdeviceptr, CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUmemPoolProps, CUmemPoolPtrExportData, CUmemoryPool, CUresult, CUstream,
};

use crate::entry::{answer, entry, input, out};
use crate::memory::{self, Family};
use crate::pool::share::{self, POSIX};
use crate::pool::{self, Pool, StreamKey};
use crate::{device, order};

/// The pool of null mode.
const NULL_POOL: usize = 0x6000;

fn key(stream: CUstream, per_thread: bool) -> Result<StreamKey, CUresult> {
    let context = order::context_of(stream, per_thread)?;
    // Legacy and per-thread default streams have several spellings.
    let number = stream.0.addr();
    let own_thread = number == 2 || (number == 0 && per_thread);
    let number = if number <= 2 {
        1 + usize::from(own_thread)
    } else {
        number
    };
    let thread = if own_thread { order::thread() } else { 0 };
    Ok((context.id, number, thread))
}

unsafe fn allocate(
    dptr: *mut CUdeviceptr,
    size: usize,
    chosen: Option<CUmemoryPool>,
    stream: CUstream,
    per_thread: bool,
) -> Result<(), CUresult> {
    if dptr.is_null() || size == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let context = order::context_of(stream, per_thread)?;
    let from = match chosen {
        Some(pool) => pool,
        None => pool::current(context.device)?,
    };
    pool::get(from)?;
    let address = match order::captured_alloc(stream, per_thread, size) {
        Some(captured) => captured?,
        None => pool::allocate(from, size, key(stream, per_thread)?, context)?,
    };
    // SAFETY: not NULL, so valid, says the application.
    unsafe { out(dptr, address) }
}

fn free(address: CUdeviceptr, stream: CUstream, per_thread: bool) -> Result<(), CUresult> {
    order::context_of(stream, per_thread)?;
    if address == 0 {
        return Ok(());
    }
    if let Some(captured) = order::captured_free(stream, per_thread, address) {
        return captured;
    }
    let found = memory::find(address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if found.base as CUdeviceptr != address {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    match found.family {
        Family::Pool(_) => pool::free(found.base, stream, per_thread, key(stream, per_thread)?),
        Family::Graph => {
            let release = move || {
                let _ = memory::graph_release(address);
            };
            order::when_reached(stream, per_thread, Box::new(release))
        }
        Family::PoolImport => {
            let unmap = pool::detach_import(found.base)?;
            order::when_reached(stream, per_thread, Box::new(unmap))
        }
        // Other memory too, as the programming guide says: here as well in the stream's order.
        Family::Linear | Family::Managed | Family::ManagedHost => {
            order::when_reached(stream, per_thread, Box::new(memory::detach(found.base)?))
        }
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

/// The device of a location that is one.
pub(super) fn device_of(location: &CUmemLocation) -> Result<CUdevice, CUresult> {
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
            // SAFETY: every bit pattern is an int, and the type says that it is meant.
            let id = unsafe { location.__bindgen_anon_1.id };
            device::get(id).map(|_| id)
        }
        CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST
        | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA
        | CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => {
            Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
        }
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

fn create(props: &CUmemPoolProps) -> Result<CUmemoryPool, CUresult> {
    if props.allocType != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let exportable = props.handleTypes == POSIX;
    if !exportable && props.handleTypes != CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let mut pool = match device_of(&props.location) {
        Ok(device) => Pool::new(device, device::core_index(device)?, false, props.maxSize),
        // Memory of the host; to other processes only in kinds of handles that are not simulated.
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED) if !exportable => {
            Pool::on_host(props.location, props.maxSize)
        }
        Err(error) => return Err(error),
    };
    pool.exportable = exportable;
    Ok(pool::handle(pool::POOLS.insert(pool)))
}

unsafe fn located(
    location: *const CUmemLocation,
    type_: CUmemAllocationType,
) -> Result<CUdevice, CUresult> {
    // SAFETY: NULL or valid, says the application.
    let device = device_of(unsafe { input(location) }?)?;
    if type_ == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
        Ok(device)
    } else {
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    }
}

entry! {
    /// In a capture: a memory node.
    fn cuMemAllocAsync(dptr: *mut CUdeviceptr, bytesize: usize, hStream: CUstream)
    => cuMemAllocAsync_ptsz, null { answer(out(dptr, memory::null_address(bytesize))) } {
        allocate(dptr, bytesize, None, hStream, PER_THREAD)
    }

    fn cuMemAllocFromPoolAsync(
        dptr: *mut CUdeviceptr,
        bytesize: usize,
        pool: CUmemoryPool,
        hStream: CUstream,
    ) => cuMemAllocFromPoolAsync_ptsz,
    null { answer(out(dptr, memory::null_address(bytesize))) } {
        allocate(dptr, bytesize, Some(pool), hStream, PER_THREAD)
    }

    /// In stream order, whatever call the memory came from.
    fn cuMemFreeAsync(dptr: CUdeviceptr, hStream: CUstream) => cuMemFreeAsync_ptsz {
        free(dptr, hStream, PER_THREAD)
    }

    /// On a device, or in the host's memory.
    fn cuMemPoolCreate(pool_out: *mut CUmemoryPool, poolProps: *const CUmemPoolProps),
    null { answer(out(pool_out, pool::handle(NULL_POOL))) } {
        if pool_out.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(pool_out, create(input(poolProps)?)?)
    }

    /// Memory that is out stays valid; the pool goes when the last of it comes back.
    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        pool::destroy(pool)
    }

    fn cuMemPoolTrimTo(pool: CUmemoryPool, minBytesToKeep: usize) {
        order::unsafe_call()?;
        pool::get(pool)?.lock().trim(minBytesToKeep as u64);
        Ok(())
    }

    /// As a file descriptor, where the pool was created for it.
    fn cuMemPoolExportToShareableHandle(
        handle_out: *mut c_void,
        pool: CUmemoryPool,
        handleType: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) {
        if handle_out.is_null() || handleType != POSIX || flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(handle_out.cast::<c_int>(), share::export(&*pool::get(pool)?)?)
    }

    /// The descriptor, as documented, is passed in the pointer itself.
    fn cuMemPoolImportFromShareableHandle(
        pool_out: *mut CUmemoryPool,
        handle: *mut c_void,
        handleType: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) {
        let file = c_int::try_from(handle.addr());
        if pool_out.is_null() || handleType != POSIX || flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let file = file.map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
        out(pool_out, share::import(file)?)
    }

    fn cuMemPoolExportPointer(shareData_out: *mut CUmemPoolPtrExportData, ptr: CUdeviceptr) {
        if shareData_out.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(shareData_out, share::export_pointer(ptr)?)
    }

    fn cuMemPoolImportPointer(
        ptr_out: *mut CUdeviceptr,
        pool: CUmemoryPool,
        shareData: *mut CUmemPoolPtrExportData,
    ) {
        if ptr_out.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(ptr_out, share::import_pointer(pool, input(shareData)?)?)
    }

    fn cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, dev: CUdevice),
    null { answer(out(pool_out, pool::handle(NULL_POOL))) } {
        out(pool_out, pool::built_in(dev)?)
    }

    fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, dev: CUdevice),
    null { answer(out(pool, pool::handle(NULL_POOL))) } {
        out(pool, pool::current(dev)?)
    }

    fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) {
        pool::set_current(dev, pool)
    }

    fn cuMemGetDefaultMemPool(
        pool_out: *mut CUmemoryPool,
        location: *mut CUmemLocation,
        type_: CUmemAllocationType,
    ) {
        out(pool_out, pool::built_in(located(location, type_)?)?)
    }

    fn cuMemGetMemPool(
        pool: *mut CUmemoryPool,
        location: *mut CUmemLocation,
        type_: CUmemAllocationType,
    ) {
        out(pool, pool::current(located(location, type_)?)?)
    }

    fn cuMemSetMemPool(
        location: *mut CUmemLocation,
        type_: CUmemAllocationType,
        pool: CUmemoryPool,
    ) {
        pool::set_current(located(location, type_)?, pool)
    }
}
