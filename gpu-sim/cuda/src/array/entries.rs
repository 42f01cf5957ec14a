//! The driver functions of arrays.

use std::ffi::c_uint;

use cuda_headers::driver::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_DESCRIPTOR_v1, CUDA_ARRAY_MEMORY_REQUIREMENTS,
    CUDA_ARRAY_SPARSE_PROPERTIES, CUDA_ARRAY3D_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR_v1, CUarray,
    CUarrayMapInfo, CUdevice, CUmipmappedArray, CUresult, CUstream,
};

use crate::array::{self, INVALID, sparse};
use crate::entry::{answer, entry, input, out};
use crate::{device, memory, order, state};

/// What may come before every creation.
fn create(descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Result<CUarray, CUresult> {
    let context = state::current()?;
    order::unsafe_call()?;
    array::create(context, descriptor)
}

fn flat(d: &CUDA_ARRAY_DESCRIPTOR) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: d.Width,
        Height: d.Height,
        Depth: 0,
        Format: d.Format,
        NumChannels: d.NumChannels,
        Flags: 0,
    }
}

fn narrow(side: usize) -> c_uint {
    c_uint::try_from(side).unwrap_or(c_uint::MAX)
}

entry! {
    /// Height 0 means one dimension.
    fn cuArrayCreate_v2(pHandle: *mut CUarray, pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR),
    null { answer(out(pHandle.cast(), memory::null_address(1))) } {
        if pHandle.is_null() {
            return Err(INVALID);
        }
        out(pHandle, create(&flat(input(pAllocateArray)?))?)
    }

    fn cuArrayCreate(pHandle: *mut CUarray, pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR_v1) {
        let old = input(pAllocateArray)?;
        if pHandle.is_null() {
            return Err(INVALID);
        }
        out(pHandle, create(&CUDA_ARRAY3D_DESCRIPTOR {
            Width: old.Width as usize,
            Height: old.Height as usize,
            Depth: 0,
            Format: old.Format,
            NumChannels: old.NumChannels,
            Flags: 0,
        })?)
    }

    fn cuArray3DCreate_v2(
        pHandle: *mut CUarray,
        pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR,
    ), null { answer(out(pHandle.cast(), memory::null_address(1))) } {
        if pHandle.is_null() {
            return Err(INVALID);
        }
        out(pHandle, create(input(pAllocateArray)?)?)
    }

    fn cuArray3DCreate(pHandle: *mut CUarray, pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR_v1) {
        let old = input(pAllocateArray)?;
        if pHandle.is_null() {
            return Err(INVALID);
        }
        out(pHandle, create(&CUDA_ARRAY3D_DESCRIPTOR {
            Width: old.Width as usize,
            Height: old.Height as usize,
            Depth: old.Depth as usize,
            Format: old.Format,
            NumChannels: old.NumChannels,
            Flags: old.Flags,
        })?)
    }

    /// Waits for the context's work, then frees.
    fn cuArrayDestroy(hArray: CUarray) {
        order::unsafe_call()?;
        array::get(hArray)?;
        order::synchronize_all()?;
        array::destroy(hArray)
    }

    fn cuArrayGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY_DESCRIPTOR, hArray: CUarray) {
        let d = array::get(hArray)?.descriptor;
        out(pArrayDescriptor, CUDA_ARRAY_DESCRIPTOR {
            Width: d.Width,
            Height: d.Height,
            Format: d.Format,
            NumChannels: d.NumChannels,
        })
    }

    fn cuArrayGetDescriptor(pArrayDescriptor: *mut CUDA_ARRAY_DESCRIPTOR_v1, hArray: CUarray) {
        let d = array::get(hArray)?.descriptor;
        out(pArrayDescriptor, CUDA_ARRAY_DESCRIPTOR_v1 {
            Width: narrow(d.Width),
            Height: narrow(d.Height),
            Format: d.Format,
            NumChannels: d.NumChannels,
        })
    }

    fn cuArray3DGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, hArray: CUarray) {
        out(pArrayDescriptor, array::get(hArray)?.descriptor)
    }

    fn cuArray3DGetDescriptor(
        pArrayDescriptor: *mut CUDA_ARRAY3D_DESCRIPTOR_v1,
        hArray: CUarray,
    ) {
        let d = array::get(hArray)?.descriptor;
        out(pArrayDescriptor, CUDA_ARRAY3D_DESCRIPTOR_v1 {
            Width: narrow(d.Width),
            Height: narrow(d.Height),
            Depth: narrow(d.Depth),
            Format: d.Format,
            NumChannels: d.NumChannels,
            Flags: d.Flags,
        })
    }

    /// Only arrays with deferred mapping tell, as documented.
    fn cuArrayGetMemoryRequirements(
        memoryRequirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS,
        array: CUarray,
        device: CUdevice,
    ) {
        device::get(device)?;
        out(memoryRequirements, sparse::requirements(&array::get(array)?.descriptor, 1)?)
    }

    /// Sparse arrays alone, and no levels of mipmapped ones.
    fn cuArrayGetSparseProperties(
        sparseProperties: *mut CUDA_ARRAY_SPARSE_PROPERTIES,
        array: CUarray,
    ) {
        let array = array::get(array)?;
        if array.level {
            return Err(INVALID);
        }
        out(sparseProperties, sparse::properties(&array.descriptor, 1)?)
    }

    fn cuMipmappedArrayGetSparseProperties(
        sparseProperties: *mut CUDA_ARRAY_SPARSE_PROPERTIES,
        mipmap: CUmipmappedArray,
    ) {
        let mipmap = array::mipmapped(mipmap)?;
        let levels = narrow(mipmap.levels.len());
        out(sparseProperties, sparse::properties(&mipmap.descriptor, levels)?)
    }

    /// In stream order; the memory of a mapping is kept from the call on.
    fn cuMemMapArrayAsync(
        mapInfoList: *mut CUarrayMapInfo,
        count: c_uint,
        hStream: CUstream,
    ) => cuMemMapArrayAsync_ptsz {
        if count == 0 {
            return Err(INVALID);
        }
        input(mapInfoList.cast_const())?;
        let list = std::slice::from_raw_parts(mapInfoList, count as usize);
        let device = order::context_of(hStream, PER_THREAD)?.core_device;
        let run = sparse::map(list, device)?;
        order::when_reached(hStream, PER_THREAD, Box::new(run))
    }

    fn cuMipmappedArrayCreate(
        pHandle: *mut CUmipmappedArray,
        pMipmappedArrayDesc: *const CUDA_ARRAY3D_DESCRIPTOR,
        numMipmapLevels: c_uint,
    ), null { answer(out(pHandle.cast(), memory::null_address(1))) } {
        let context = state::current()?;
        order::unsafe_call()?;
        if pHandle.is_null() {
            return Err(INVALID);
        }
        let descriptor = input(pMipmappedArrayDesc)?;
        out(pHandle, array::create_mipmapped(context, descriptor, numMipmapLevels)?)
    }

    /// The levels' handles go with it.
    fn cuMipmappedArrayDestroy(hMipmappedArray: CUmipmappedArray) {
        order::unsafe_call()?;
        array::mipmapped(hMipmappedArray)?;
        order::synchronize_all()?;
        array::destroy_mipmapped(hMipmappedArray)
    }

    fn cuMipmappedArrayGetLevel(
        pLevelArray: *mut CUarray,
        hMipmappedArray: CUmipmappedArray,
        level: c_uint,
    ) {
        let levels = array::mipmapped(hMipmappedArray)?;
        let found = levels.levels.get(level as usize).ok_or(INVALID)?;
        out(pLevelArray, CUarray(std::ptr::without_provenance_mut(*found)))
    }

    /// As for arrays.
    fn cuMipmappedArrayGetMemoryRequirements(
        memoryRequirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS,
        mipmap: CUmipmappedArray,
        device: CUdevice,
    ) {
        device::get(device)?;
        let mipmap = array::mipmapped(mipmap)?;
        let levels = narrow(mipmap.levels.len());
        out(memoryRequirements, sparse::requirements(&mipmap.descriptor, levels)?)
    }
}
