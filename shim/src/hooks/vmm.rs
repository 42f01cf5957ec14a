//! Physical memory and its mappings.

use core::ffi::{c_ulonglong, c_void};

use cuda_headers::driver::{
    CUdeviceptr, CUmemAllocationHandleType, CUmemAllocationProp, CUmemGenericAllocationHandle,
    CUresult,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::vmm;

hooks! { DRIVER as fns;
    fn cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle,
        size: usize,
        prop: *const CUmemAllocationProp,
        flags: c_ulonglong,
    ) -> CUresult = |call| vmm::create(handle, size, prop, &call);

    fn cuMemRelease(handle: CUmemGenericAllocationHandle) -> CUresult =
        |call| vmm::release(handle, &call);

    fn cuMemRetainAllocationHandle(
        handle: *mut CUmemGenericAllocationHandle,
        addr: *mut c_void,
    ) -> CUresult = |call| vmm::retain(handle, addr, &call);

    fn cuMemMap(
        ptr: CUdeviceptr,
        size: usize,
        offset: usize,
        handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong,
    ) -> CUresult = |call| vmm::map(ptr, size, handle, &call);

    fn cuMemUnmap(ptr: CUdeviceptr, size: usize) -> CUresult = |call| vmm::unmap(ptr, size, &call);

    fn cuMemExportToShareableHandle(
        shareableHandle: *mut c_void,
        handle: CUmemGenericAllocationHandle,
        handleType: CUmemAllocationHandleType,
        flags: c_ulonglong,
    ) -> CUresult = |call| vmm::export(handle, &call);
}
