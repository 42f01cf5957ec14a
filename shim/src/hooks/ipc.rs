//! Memory that processes hand to one another by handle or pointer.

use core::ffi::c_uint;

use cuda_headers::driver::{
    CUdeviceptr, CUipcMemHandle, CUmemPoolPtrExportData, CUmemoryPool, CUresult,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::ipc;
use crate::process;

hooks! { DRIVER as fns;
    /// Stays charged here; processes of the group that open it are not charged again.
    fn cuIpcGetMemHandle(pHandle: *mut CUipcMemHandle, dptr: CUdeviceptr) -> CUresult =
        |call| ipc::get_handle(pHandle, dptr, &call);

    fn cuIpcOpenMemHandle(
        pdptr: *mut CUdeviceptr,
        handle: CUipcMemHandle,
        Flags: c_uint,
    ) -> CUresult = |call| ipc::open(pdptr, &handle, &call);

    fn cuIpcOpenMemHandle_v2(
        pdptr: *mut CUdeviceptr,
        handle: CUipcMemHandle,
        Flags: c_uint,
    ) -> CUresult = |call| ipc::open(pdptr, &handle, &call);

    fn cuIpcCloseMemHandle(dptr: CUdeviceptr) -> CUresult =
        |call| ipc::close(process::limited()?, dptr, &call);

    /// As `cuIpcGetMemHandle`, for one allocation of a pool that other processes may import.
    fn cuMemPoolExportPointer(
        shareData_out: *mut CUmemPoolPtrExportData,
        ptr: CUdeviceptr,
    ) -> CUresult = |call| ipc::get_pointer(shareData_out, ptr, &call);

    /// As `cuIpcOpenMemHandle`.
    fn cuMemPoolImportPointer(
        ptr_out: *mut CUdeviceptr,
        pool: CUmemoryPool,
        shareData: *mut CUmemPoolPtrExportData,
    ) -> CUresult = |call| ipc::import_pointer(ptr_out, pool, shareData, &call);
}
