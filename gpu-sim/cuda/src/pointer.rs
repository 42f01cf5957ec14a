//! What can be asked of a pointer.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use cuda_headers::driver::{
    CUcontext, CUdeviceptr, CUmemorytype, CUpointer_attribute as Attribute, CUresult,
};

use crate::ctx;
use crate::entry::{entry, input};
use crate::memory::{self, Allocation, Family};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
/// What `DEVICE_ORDINAL` says of a pointer that belongs to no device.
const NO_DEVICE: c_int = -2;
const READ_WRITE: c_uint = 3;

enum Value {
    Int(c_int),
    Uint(c_uint),
    Long(u64),
    Pointer(*mut c_void),
}

impl Value {
    /// # Safety
    /// `target` is valid for a write of the attribute's type.
    unsafe fn write(self, target: *mut c_void) {
        // SAFETY: the caller's promise; the application aligns as the type asks.
        unsafe {
            match self {
                Self::Int(value) => target.cast::<c_int>().write_unaligned(value),
                Self::Uint(value) => target.cast::<c_uint>().write_unaligned(value),
                Self::Long(value) => target.cast::<u64>().write_unaligned(value),
                Self::Pointer(value) => target.cast::<*mut c_void>().write_unaligned(value),
            }
        }
    }
}

fn context(allocation: &Allocation) -> CUcontext {
    let owner = allocation.owner.context;
    let found = ctx::all().into_iter().find(|context| context.id == owner);
    found.map_or(CUcontext(ptr::null_mut()), |context| context.handle)
}

/// The value of an attribute for an address inside an allocation.
fn value(found: &Allocation, address: CUdeviceptr, attr: Attribute) -> Result<Value, CUresult> {
    let flag = |set: bool| Value::Int(c_int::from(set));
    let managed = found.family.is_managed();
    let size = found.size as u64;
    Ok(match attr {
        Attribute::CU_POINTER_ATTRIBUTE_CONTEXT => Value::Pointer(context(found).0.cast()),
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => Value::Uint(if found.on_host() {
            CUmemorytype::CU_MEMORYTYPE_HOST.0
        } else {
            CUmemorytype::CU_MEMORYTYPE_DEVICE.0
        }),
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => Value::Long(address),
        Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER if found.on_host() || managed => {
            Value::Long(address)
        }
        Attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => flag(found.sync_memops),
        Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID
        | Attribute::CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID => Value::Long(found.id),
        Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED => flag(managed),
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => Value::Int(found.owner.device),
        Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => {
            flag(found.family == Family::Linear)
        }
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
        | Attribute::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR => Value::Long(found.base as u64),
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE
        | Attribute::CU_POINTER_ATTRIBUTE_MAPPING_SIZE => Value::Long(size),
        Attribute::CU_POINTER_ATTRIBUTE_MAPPED => flag(true),
        // A mapping's memory says itself; a file descriptor is what there is.
        Attribute::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => {
            Value::Long(u64::from(found.family == Family::Mapping))
        }
        Attribute::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
        | Attribute::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => flag(false),
        Attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => {
            Value::Uint(if found.accessible { READ_WRITE } else { 0 })
        }
        Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => Value::Pointer(match found.family {
            Family::Pool(pool) => ptr::without_provenance_mut(pool),
            _ => ptr::null_mut(),
        }),
        _ => return Err(INVALID),
    })
}

/// What `cuPointerGetAttributes` says of a pointer that nobody knows.
fn unknown(attr: Attribute) -> Result<Value, CUresult> {
    Ok(match attr {
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => Value::Int(NO_DEVICE),
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        | Attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => Value::Uint(0),
        Attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
        | Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED
        | Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
        | Attribute::CU_POINTER_ATTRIBUTE_MAPPED
        | Attribute::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
        | Attribute::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => Value::Int(0),
        Attribute(0 | 5 | 22..) => return Err(INVALID),
        _ => Value::Long(0),
    })
}

/// The allocation of an address that the application may know.
fn find(address: CUdeviceptr) -> Option<Allocation> {
    memory::find(address).filter(|found| found.family != Family::Array)
}

entry! {
    /// A pointer that nobody knows is an invalid value.
    fn cuPointerGetAttribute(data: *mut c_void, attribute: Attribute, ptr: CUdeviceptr) {
        if data.is_null() {
            return Err(INVALID);
        }
        value(&find(ptr).ok_or(INVALID)?, ptr, attribute)?.write(data);
        Ok(())
    }

    /// A pointer that nobody knows is no error here, as documented: it has zeros.
    fn cuPointerGetAttributes(
        numAttributes: c_uint,
        attributes: *mut Attribute,
        data: *mut *mut c_void,
        ptr: CUdeviceptr,
    ) {
        if numAttributes == 0 || attributes.is_null() || data.is_null() {
            return Err(INVALID);
        }
        let found = find(ptr);
        for index in 0..numAttributes as usize {
            let (attribute, target) = (attributes.add(index).read(), data.add(index).read());
            if target.is_null() {
                return Err(INVALID);
            }
            let answer = match &found {
                Some(found) => value(found, ptr, attribute).or_else(|_| unknown(attribute))?,
                None => unknown(attribute)?,
            };
            answer.write(target);
        }
        Ok(())
    }

    /// Only `SYNC_MEMOPS` can be set, which nothing here depends on.
    fn cuPointerSetAttribute(value: *const c_void, attribute: Attribute, ptr: CUdeviceptr) {
        let set = *input(value.cast::<c_int>())? != 0;
        if attribute != Attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS {
            return Err(INVALID);
        }
        let base = find(ptr).filter(|found| !found.on_host()).ok_or(INVALID)?.base;
        if let Some(allocation) = memory::lock()?.table.get_mut(base) {
            allocation.sync_memops = set;
        }
        Ok(())
    }
}
