//! What the driver needs for an array, asked of a twin that has no memory.

use cuda_headers::driver::{
    CUDA_ARRAY_MEMORY_REQUIREMENTS, CUarray, CUdevice_attribute, CUmipmappedArray, CUresult,
};

use quota_abi::sync::{AtomicU32, Ordering};

use super::shape::Shape;
use crate::device::Device;
use crate::driver::{call, relaxed};
use crate::memory::number_of;
use crate::table::Table;

/// What the driver has told of shapes. The twins stay until their context goes: to destroy an array may wait for all
/// that runs on the device, and they have no memory.
pub(in crate::memory) struct Told {
    known: Table<Answer>,
    count: AtomicU32,
}

#[derive(Copy, Clone)]
struct Answer {
    shape: Shape,
    levels: Option<u32>,
    device: u16,
    /// 0 where the driver does not tell.
    bytes: u64,
}

/// Shapes that are asked for in a process; the rest is charged by its descriptor.
const SHAPES: u32 = 4096;

impl Told {
    pub(in crate::memory) const fn new() -> Self {
        Self {
            known: Table::new(),
            count: AtomicU32::new(0),
        }
    }

    /// Bytes that the driver needs; `None` where it does not tell.
    pub(super) fn of(&self, shape: &Shape, levels: Option<u32>, device: &Device) -> Option<u64> {
        let number = number_of(device);
        let key = key(shape, levels, number);
        let is_it = |answer: &Answer| {
            (answer.shape, answer.levels, answer.device) == (*shape, levels, number)
        };
        if let Some(answer) = self.known.get(key).filter(is_it) {
            return Some(answer.bytes).filter(|bytes| *bytes > 0);
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= SHAPES {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let told = ask(shape, levels, device);
        let answer = Answer {
            shape: *shape,
            levels,
            device: number,
            bytes: told.unwrap_or(0),
        };
        let _ = self.known.insert(key, answer);
        told
    }
}

/// A hash that is no zero.
fn key(shape: &Shape, levels: Option<u32>, device: u16) -> u64 {
    let mix = |sum: u64, word: u64| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    let kind = u64::from(shape.format.0) << 32 | u64::from(shape.channels);
    let rest = u64::from(shape.flags) << 32 | levels.map_or(0, |levels| u64::from(levels) + 1);
    let words = [
        shape.width,
        shape.height,
        shape.depth,
        kind,
        rest,
        device.into(),
    ];
    words.into_iter().fold(1, mix) | 1
}

#[cold]
fn ask(shape: &Shape, levels: Option<u32>, device: &Device) -> Option<u64> {
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
        call!(cuArrayGetMemoryRequirements(
            &raw mut needs,
            twin,
            device.handle()
        ))
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
        call!(cuMipmappedArrayGetMemoryRequirements(
            &raw mut needs,
            twin,
            device.handle()
        ))
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
