//! Physical memory and its mappings.

use core::ffi::{c_ulonglong, c_void};

use cuda_headers::driver::{
    CUdevice, CUdeviceptr, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmulticastObjectProp, CUresult,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::vmm;
use crate::memory::vmm::multicast::{self, Bound};

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

    /// Charged when it is mapped, if nobody of the group is.
    fn cuMemImportFromShareableHandle(
        handle: *mut CUmemGenericAllocationHandle,
        osHandle: *mut c_void,
        shHandleType: CUmemAllocationHandleType,
    ) -> CUresult = |call| vmm::import(handle, &call);

    /// No memory of its own.
    fn cuMulticastCreate(
        mcHandle: *mut CUmemGenericAllocationHandle,
        prop: *const CUmulticastObjectProp,
    ) -> CUresult = |call| multicast::create(mcHandle, &call);

    fn cuMulticastBindMem(
        mcHandle: CUmemGenericAllocationHandle,
        mcOffset: usize,
        memHandle: CUmemGenericAllocationHandle,
        memOffset: usize,
        size: usize,
        flags: c_ulonglong,
    ) -> CUresult = |call| multicast::bind(mcHandle, None, (mcOffset, size), Bound::Handle(memHandle), &call);

    fn cuMulticastBindMem_v2(
        mcHandle: CUmemGenericAllocationHandle,
        dev: CUdevice,
        mcOffset: usize,
        memHandle: CUmemGenericAllocationHandle,
        memOffset: usize,
        size: usize,
        flags: c_ulonglong,
    ) -> CUresult = |call| multicast::bind(mcHandle, Some(dev), (mcOffset, size), Bound::Handle(memHandle), &call);

    fn cuMulticastBindAddr(
        mcHandle: CUmemGenericAllocationHandle,
        mcOffset: usize,
        memptr: CUdeviceptr,
        size: usize,
        flags: c_ulonglong,
    ) -> CUresult = |call| multicast::bind(mcHandle, None, (mcOffset, size), Bound::Address(memptr), &call);

    fn cuMulticastBindAddr_v2(
        mcHandle: CUmemGenericAllocationHandle,
        dev: CUdevice,
        mcOffset: usize,
        memptr: CUdeviceptr,
        size: usize,
        flags: c_ulonglong,
    ) -> CUresult = |call| multicast::bind(mcHandle, Some(dev), (mcOffset, size), Bound::Address(memptr), &call);

    fn cuMulticastUnbind(
        mcHandle: CUmemGenericAllocationHandle,
        dev: CUdevice,
        mcOffset: usize,
        size: usize,
    ) -> CUresult = |call| multicast::unbind(mcHandle, dev, mcOffset, size, &call);
}
