//! What can be asked of and set for a pool.

use std::ffi::{c_int, c_void};

use cuda_headers::driver::{
    CUdevice, CUmemAccess_flags, CUmemAccessDesc, CUmemLocation, CUmemPool_attribute as Attribute,
    CUmemoryPool, CUresult,
};

use crate::device;
use crate::entry::{answer, entry, input, out};
use crate::pool::entries::device_of;
use crate::pool::{self, Pool};

enum Value {
    Int(c_int),
    Long(u64),
}

fn attribute(pool: &Pool, attr: Attribute) -> Result<Value, CUresult> {
    let state = pool.lock();
    Ok(match attr {
        Attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES => Value::Int(state.reuse[0]),
        Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC => Value::Int(state.reuse[1]),
        Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => Value::Int(state.reuse[2]),
        Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => Value::Long(state.threshold),
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => Value::Long(state.segments.reserved),
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => Value::Long(state.segments.reserved_high),
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => Value::Long(state.used),
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH => Value::Long(state.used_high),
        Attribute::CU_MEMPOOL_ATTR_ALLOCATION_TYPE => Value::Int(1),
        Attribute::CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES => Value::Int(c_int::from(pool.exportable)),
        Attribute::CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED => Value::Int(0),
        Attribute::CU_MEMPOOL_ATTR_LOCATION_ID => {
            // SAFETY: an integer, whichever member of the union was written.
            Value::Int(unsafe { pool.location.__bindgen_anon_1.id })
        }
        Attribute::CU_MEMPOOL_ATTR_LOCATION_TYPE => Value::Int(pool.location.type_.0.cast_signed()),
        Attribute::CU_MEMPOOL_ATTR_MAX_POOL_SIZE => Value::Long(state.segments.max as u64),
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    })
}

unsafe fn set_attribute(
    pool: &Pool,
    attr: Attribute,
    value: *const c_void,
) -> Result<(), CUresult> {
    // SAFETY: the application points to the type that the attribute has.
    let (int, long) = unsafe { (input(value.cast::<c_int>()), value.cast::<u64>()) };
    let int = *int?;
    let mut state = pool.lock();
    // SAFETY: as above, read only for the attributes that are 64 bits wide.
    let long = || unsafe { long.read() };
    match attr {
        Attribute::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES => state.reuse[0] = int,
        Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC => state.reuse[1] = int,
        Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES => state.reuse[2] = int,
        Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => state.threshold = long(),
        // The high marks can only be set back.
        Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH if long() == 0 => {
            state.segments.reserved_high = state.segments.reserved;
        }
        Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH if long() == 0 => state.used_high = state.used,
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
    Ok(())
}

fn set_access(pool: &Pool, description: &CUmemAccessDesc) -> Result<(), CUresult> {
    let device = device_of(&description.location)?;
    let flags = description.flags;
    let none = flags == CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;
    let both = flags == CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    // The owner cannot be shut out; others get all or nothing.
    if !(none || both) || (none && device == pool.device) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if pool.core.is_some() && !device::accessible(device, pool.device) {
        return Err(CUresult::CUDA_ERROR_INVALID_DEVICE);
    }
    pool.lock().access.insert(device, flags.0);
    Ok(())
}

fn access(pool: &Pool, device: CUdevice) -> CUmemAccess_flags {
    let set = pool.lock().access.get(&device).copied();
    match set {
        Some(flags) => CUmemAccess_flags(flags),
        None if device == pool.device => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
    }
}

entry! {
    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attr: Attribute, value: *mut c_void), null {
        let flag = attr.0 <= Attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES.0;
        answer(if flag { out(value.cast::<c_int>(), 1) } else { out(value.cast::<u64>(), 0) })
    } {
        let pool = pool::get(pool)?;
        match attribute(&pool, attr)? {
            Value::Int(int) => out(value.cast(), int),
            Value::Long(long) => out(value.cast(), long),
        }
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attr: Attribute, value: *mut c_void) {
        set_attribute(&*pool::get(pool)?, attr, value)
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) {
        let pool = pool::get(pool)?;
        if count > 0 && map.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        (0..count).try_for_each(|index| set_access(&pool, &*map.add(index)))
    }

    fn cuMemPoolGetAccess(
        flags: *mut CUmemAccess_flags,
        memPool: CUmemoryPool,
        location: *mut CUmemLocation,
    ) {
        let pool = pool::get(memPool)?;
        out(flags, access(&pool, device_of(input(location)?)?))
    }
}
