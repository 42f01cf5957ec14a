//! Arrays and mipmapped arrays.

use core::ffi::c_uint;

use cuda_headers::driver::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_DESCRIPTOR_v1, CUDA_ARRAY3D_DESCRIPTOR,
    CUDA_ARRAY3D_DESCRIPTOR_v1, CUarray, CUarrayMapInfo, CUmipmappedArray, CUresult, CUstream,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::array;
use crate::memory::vmm::tiles;

hooks! { DRIVER as fns;
    fn cuArrayCreate(
        pHandle: *mut CUarray,
        pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR_v1,
    ) -> CUresult = |call| array::create(pHandle, pAllocateArray, &call);

    fn cuArrayCreate_v2(
        pHandle: *mut CUarray,
        pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR,
    ) -> CUresult = |call| array::create(pHandle, pAllocateArray, &call);

    fn cuArray3DCreate(
        pHandle: *mut CUarray,
        pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR_v1,
    ) -> CUresult = |call| array::create(pHandle, pAllocateArray, &call);

    fn cuArray3DCreate_v2(
        pHandle: *mut CUarray,
        pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR,
    ) -> CUresult = |call| array::create(pHandle, pAllocateArray, &call);

    fn cuMipmappedArrayCreate(
        pHandle: *mut CUmipmappedArray,
        pMipmappedArrayDesc: *const CUDA_ARRAY3D_DESCRIPTOR,
        numMipmapLevels: c_uint,
    ) -> CUresult =
        |call| array::create_levels(pHandle, pMipmappedArrayDesc, Some(numMipmapLevels), &call);

    fn cuArrayDestroy(hArray: CUarray) -> CUresult = |call| array::destroy(hArray, &call);

    fn cuMipmappedArrayDestroy(hMipmappedArray: CUmipmappedArray) -> CUresult =
        |call| array::destroy(hMipmappedArray, &call);

    /// What is mapped in a sparse array keeps its physical memory.
    fn cuMemMapArrayAsync(
        mapInfoList: *mut CUarrayMapInfo,
        count: c_uint,
        hStream: CUstream,
    ) -> CUresult = |call| {
        // SAFETY: the caller's own list, as the driver asks.
        unsafe { tiles::map(mapInfoList, count, &call) }
    };

    /// As `cuMemMapArrayAsync`.
    fn cuMemMapArrayAsync_ptsz(
        mapInfoList: *mut CUarrayMapInfo,
        count: c_uint,
        hStream: CUstream,
    ) -> CUresult = |call| {
        // SAFETY: the caller's own list, as the driver asks.
        unsafe { tiles::map(mapInfoList, count, &call) }
    };
}
