//! What the driver needs for an array, asked of a twin that has no memory.

use cuda_headers::driver::{
    CUDA_ARRAY_MEMORY_REQUIREMENTS, CUarray, CUdevice_attribute, CUmipmappedArray, CUresult,
};

use super::shape::Shape;
use crate::device::Device;
use crate::driver::{call, relaxed};

/// Bytes that the driver needs; `None` where it does not tell.
#[cold]
pub(super) fn of(shape: &Shape, levels: Option<u32>, device: &Device) -> Option<u64> {
    relaxed(|| {
        if !has_twins(device) {
            return None;
        }
        match levels {
            None => of_array(shape, device),
            Some(levels) => of_levels(shape, levels, device),
        }
    })
}

fn has_twins(device: &Device) -> bool {
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED;
    let mut value = 0;
    // SAFETY: a live out-pointer.
    let answer = unsafe {
        call!(cuDeviceGetAttribute(
            &raw mut value,
            attribute,
            device.handle()
        ))
    };
    answer == CUresult::CUDA_SUCCESS && value != 0
}

fn of_array(shape: &Shape, device: &Device) -> Option<u64> {
    let mut twin = CUarray(core::ptr::null_mut());
    let mut needs = blank();
    let descriptor = shape.deferred();
    // SAFETY: a live out-pointer and descriptor.
    let made = unsafe { call!(cuArray3DCreate_v2(&raw mut twin, &raw const descriptor)) };
    if made != CUresult::CUDA_SUCCESS {
        return None;
    }
    // SAFETY: a live out-pointer and our own array, which nobody else has seen.
    let told = unsafe {
        let told = call!(cuArrayGetMemoryRequirements(
            &raw mut needs,
            twin,
            device.handle()
        ));
        let _ = call!(cuArrayDestroy(twin));
        told
    };
    size(told, &needs)
}

fn of_levels(shape: &Shape, levels: u32, device: &Device) -> Option<u64> {
    let mut twin = CUmipmappedArray(core::ptr::null_mut());
    let mut needs = blank();
    let descriptor = shape.deferred();
    // SAFETY: a live out-pointer and descriptor.
    let made = unsafe {
        call!(cuMipmappedArrayCreate(
            &raw mut twin,
            &raw const descriptor,
            levels
        ))
    };
    if made != CUresult::CUDA_SUCCESS {
        return None;
    }
    // SAFETY: a live out-pointer and our own array, which nobody else has seen.
    let told = unsafe {
        let told = call!(cuMipmappedArrayGetMemoryRequirements(
            &raw mut needs,
            twin,
            device.handle()
        ));
        let _ = call!(cuMipmappedArrayDestroy(twin));
        told
    };
    size(told, &needs)
}

fn size(told: CUresult, needs: &CUDA_ARRAY_MEMORY_REQUIREMENTS) -> Option<u64> {
    let bytes = u64::try_from(needs.size).ok()?;
    (told == CUresult::CUDA_SUCCESS && bytes > 0).then_some(bytes)
}

fn blank() -> CUDA_ARRAY_MEMORY_REQUIREMENTS {
    // SAFETY: numbers, for which zero is a value.
    unsafe { core::mem::zeroed() }
}
