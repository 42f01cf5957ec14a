//! Arrays and mipmapped arrays: charged by their descriptor.

use cuda_headers::driver::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_DESCRIPTOR_v1, CUDA_ARRAY3D_DEFERRED_MAPPING,
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR_v1, CUDA_ARRAY3D_SPARSE, CUarray_format,
    CUresult,
};

use super::{Owner, Record, give_back, remember, reserve, rounded};
use crate::context;
use crate::guard::Aside;
use crate::process;

/// What decides an array's size.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Shape {
    width: u64,
    /// 0 for one dimension.
    height: u64,
    /// 0 for two dimensions.
    depth: u64,
    format: CUarray_format,
    channels: u32,
    flags: u32,
}

/// A descriptor of any version.
pub(crate) trait Descriptor: Copy {
    fn shape(self) -> Shape;
}

macro_rules! descriptor {
    ($type:ty, $self:ident, $depth:expr, $flags:expr) => {
        impl Descriptor for $type {
            fn shape($self) -> Shape {
                Shape {
                    width: wide($self.Width),
                    height: wide($self.Height),
                    depth: wide($depth),
                    format: $self.Format,
                    channels: $self.NumChannels,
                    flags: $flags,
                }
            }
        }
    };
}

descriptor!(CUDA_ARRAY_DESCRIPTOR_v1, self, 0_u32, 0);
descriptor!(CUDA_ARRAY_DESCRIPTOR, self, 0_u32, 0);
descriptor!(CUDA_ARRAY3D_DESCRIPTOR_v1, self, self.Depth, self.Flags);
descriptor!(CUDA_ARRAY3D_DESCRIPTOR, self, self.Depth, self.Flags);

fn wide(size: impl TryInto<u64>) -> u64 {
    size.try_into().unwrap_or(u64::MAX)
}

impl Shape {
    /// Bytes of one level; `None` if the array has no memory of its own.
    fn bytes(&self, level: u32) -> Option<u64> {
        if self.flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING) != 0 {
            return None;
        }
        let extent = |size: u64| size.checked_shr(level).unwrap_or(0).max(1);
        let layered = self.flags & cuda_headers::driver::CUDA_ARRAY3D_LAYERED != 0
            || self.flags & cuda_headers::driver::CUDA_ARRAY3D_CUBEMAP != 0;
        let depth = if layered {
            self.depth.max(1)
        } else {
            extent(self.depth)
        };
        let elements = extent(self.width)
            .saturating_mul(extent(self.height))
            .saturating_mul(depth);
        let bits = u64::from(bits_of(self.format)).saturating_mul(self.channels.into());
        Some(elements.saturating_mul(bits).div_ceil(8))
    }
}

/// Bits of one channel. Formats that are not known (block-compressed, video) are charged as the widest channel.
fn bits_of(format: CUarray_format) -> u32 {
    match format {
        CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8 | CUarray_format::CU_AD_FORMAT_SIGNED_INT8 => 8,
        CUarray_format::CU_AD_FORMAT_UNSIGNED_INT16
        | CUarray_format::CU_AD_FORMAT_SIGNED_INT16
        | CUarray_format::CU_AD_FORMAT_HALF => 16,
        _ => 32,
    }
}

/// `cuArrayCreate` and `cuArray3DCreate`.
pub(crate) fn create<H: Handle, D: Descriptor>(
    handle: *mut H,
    descriptor: *const D,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    create_levels(handle, descriptor, 1, call)
}

/// `cuMipmappedArrayCreate`: each level half as large as the one before.
pub(crate) fn create_levels<H: Handle, D: Descriptor>(
    handle: *mut H,
    descriptor: *const D,
    levels: u32,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if handle.is_null() || descriptor.is_null() {
        return Err(Aside::DriverDecides);
    }
    // SAFETY: not null, and the driver is about to read it.
    let shape = unsafe { descriptor.read() }.shape();
    let bytes = (0..levels.clamp(1, 64))
        .map(|level| shape.bytes(level))
        .sum::<Option<u64>>()
        .ok_or(Aside::NotDeviceMemory)?;
    let process = process::limited()?;
    let context = context::current(process)?;
    let bytes = rounded(bytes);
    let Some(reservation) = reserve(process, context.device, bytes) else {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        reservation.keep();
        let record = Record::new(bytes, context.device, Owner::Context(context.id));
        // SAFETY: the driver has just written it for its caller.
        let key = unsafe { handle.read() }.key();
        remember(process, &process.memory.arrays, key, record);
    }
    Ok(answer)
}

/// `cuArrayDestroy` and `cuMipmappedArrayDestroy`.
pub(crate) fn destroy(
    handle: impl Handle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let arrays = &process.memory.arrays;
    let record = arrays.remove(handle.key()).ok_or(Aside::Unknown)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        give_back(process, record);
    } else {
        remember(process, arrays, handle.key(), record);
    }
    Ok(answer)
}

/// An array's handle, plain or mipmapped.
pub(crate) trait Handle: Copy {
    fn key(self) -> u64;
}

impl Handle for cuda_headers::driver::CUarray {
    fn key(self) -> u64 {
        wide(self.0.addr())
    }
}

impl Handle for cuda_headers::driver::CUmipmappedArray {
    fn key(self) -> u64 {
        wide(self.0.addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT4: Shape = Shape {
        width: 100,
        height: 0,
        depth: 0,
        format: CUarray_format::CU_AD_FORMAT_FLOAT,
        channels: 4,
        flags: 0,
    };

    #[test]
    fn zero_height_is_one_dimension_and_zero_depth_two() {
        assert_eq!(FLOAT4.bytes(0), Some(1600));
        let plane = Shape {
            height: 50,
            ..FLOAT4
        };
        assert_eq!(plane.bytes(0), Some(80_000));
        let bytes = Shape {
            format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
            channels: 1,
            depth: 2,
            ..plane
        };
        assert_eq!(bytes.bytes(0), Some(10_000));
    }

    #[test]
    fn levels_shrink_but_layers_do_not() {
        let layered = Shape {
            height: 8,
            depth: 6,
            flags: cuda_headers::driver::CUDA_ARRAY3D_LAYERED,
            ..FLOAT4
        };
        assert_eq!(layered.bytes(1), Some(50 * 4 * 6 * 16));
        assert_eq!(layered.bytes(10), Some(6 * 16));
        let volume = Shape {
            flags: 0,
            ..layered
        };
        assert_eq!(volume.bytes(1), Some(50 * 4 * 3 * 16));
    }

    #[test]
    fn absurd_sizes_saturate_and_sparse_ones_have_none() {
        let absurd = Shape {
            width: u64::MAX,
            height: u64::MAX,
            ..FLOAT4
        };
        assert!(absurd.bytes(0) > Some(1 << 60));
        let sparse = Shape {
            flags: CUDA_ARRAY3D_SPARSE,
            ..FLOAT4
        };
        assert_eq!(sparse.bytes(0), None);
    }
}
