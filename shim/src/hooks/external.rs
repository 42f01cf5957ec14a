//! Memory of other APIs.

use cuda_headers::driver::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC, CUdeviceptr, CUexternalMemory, CUmipmappedArray,
    CUresult,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::memory::external;

hooks! { DRIVER as fns;
    fn cuImportExternalMemory(
        extMem_out: *mut CUexternalMemory,
        memHandleDesc: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    ) -> CUresult = |call| external::import(extMem_out, memHandleDesc, &call);

    fn cuDestroyExternalMemory(extMem: CUexternalMemory) -> CUresult =
        |call| external::destroy(extMem, &call);

    /// What is mapped keeps the memory.
    fn cuExternalMemoryGetMappedBuffer(
        devPtr: *mut CUdeviceptr,
        extMem: CUexternalMemory,
        bufferDesc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC,
    ) -> CUresult = |call| external::map(devPtr, extMem, &call);

    /// As `cuExternalMemoryGetMappedBuffer`.
    fn cuExternalMemoryGetMappedMipmappedArray(
        mipmap: *mut CUmipmappedArray,
        extMem: CUexternalMemory,
        mipmapDesc: *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC,
    ) -> CUresult = |call| external::map(mipmap, extMem, &call);
}
