//! CUDA arrays and mipmapped arrays: device memory with a shape. The simulator keeps them row by
//! row without padding, and takes for each what a device needs: a multiple of `GPU_SIM_ARRAY_GRAIN` bytes (512).

mod entries;
mod format;
mod object;
mod sparse;

use std::sync::{Arc, OnceLock};

use cuda_headers::driver::{CUDA_ARRAY3D_DESCRIPTOR, CUarray, CUmipmappedArray, CUresult};

use crate::ctx::Context;
use crate::device;
use crate::handles::{Kind, Table};
use crate::memory::{self, Family, Owner};
use sparse::Backing;

const LAYERED: u32 = 0x01;
const CUBEMAP: u32 = 0x04;
const SPARSE: u32 = 0x40;
const DEFERRED: u32 = 0x80;
const KNOWN_FLAGS: u32 = 0x1ff;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// An array's shape and place.
pub(crate) struct Array {
    pub(crate) descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    /// Where its bytes are.
    pub(crate) base: usize,
    /// Bytes of one row.
    pub(crate) pitch: usize,
    /// Rows of one layer or slice; at least one.
    pub(crate) rows: usize,
    /// Layers or slices; at least one.
    pub(crate) depth: usize,
    pub(crate) context: u64,
    /// Part of a mipmapped array, which owns the memory.
    level: bool,
    /// For arrays that are created without memory: what is mapped there.
    backing: Option<Backing>,
}

struct Mipmapped {
    base: usize,
    context: u64,
    levels: Vec<usize>,
    descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    backing: Option<Backing>,
}

static ARRAYS: Table<Array> = Table::new(Kind::Array);
static MIPMAPPED: Table<Mipmapped> = Table::new(Kind::MipmappedArray);

/// (bytes of a row, rows, layers or slices) of a shape.
fn shape(descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Result<(usize, usize, usize), CUresult> {
    let flags = descriptor.Flags;
    if flags & !KNOWN_FLAGS != 0 || descriptor.Width == 0 {
        return Err(INVALID);
    }
    // Documented for sparse arrays: 2D, 2D layered, or 3D. Both kinds at once make no sense.
    let one_dimension = descriptor.Height == 0;
    if flags & DEFERRED != 0 && !device::deferred_arrays() {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    if flags & SPARSE != 0 && (one_dimension || flags & DEFERRED != 0) {
        return Err(INVALID);
    }
    if flags & CUBEMAP != 0 {
        let faces = descriptor.Depth;
        let whole = if flags & LAYERED != 0 {
            faces.is_multiple_of(6) && faces > 0
        } else {
            faces == 6
        };
        if !whole || descriptor.Width != descriptor.Height {
            return Err(INVALID);
        }
    }
    // A depth without a height is a stack of 1-D layers, and needs the flag that says so.
    if descriptor.Depth > 0 && descriptor.Height == 0 && flags & LAYERED == 0 {
        return Err(INVALID);
    }
    let block = format::block(descriptor.Format, descriptor.NumChannels)?;
    let width = descriptor.Width.div_ceil(block.side);
    let rows = descriptor.Height.max(1).div_ceil(block.side);
    let pitch = width.checked_mul(block.bytes).ok_or(INVALID)?;
    Ok((pitch, rows, descriptor.Depth.max(1)))
}

fn size((pitch, rows, depth): (usize, usize, usize)) -> Result<usize, CUresult> {
    pitch
        .checked_mul(rows)
        .and_then(|layer| layer.checked_mul(depth))
        .ok_or(INVALID)
}

fn create(context: &Context, descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Result<CUarray, CUresult> {
    let shape = shape(descriptor)?;
    let base = take(context, descriptor, size(shape)?)?;
    Ok(insert(context, descriptor, base, shape, false))
}

/// Memory for an array; 0 if it gets some later, by mapping.
fn take(
    context: &Context,
    descriptor: &CUDA_ARRAY3D_DESCRIPTOR,
    bytes: usize,
) -> Result<usize, CUresult> {
    if backless(descriptor) {
        return Ok(0);
    }
    memory::allocate(Owner::of(context), required(bytes)?, Family::Array)
}

fn free(base: usize) -> Result<(), CUresult> {
    if base == 0 {
        return Ok(());
    }
    let external = memory::find(base as u64).is_some_and(|a| a.family == Family::External);
    if external {
        return crate::external::unmap(base);
    }
    memory::free_array(base)
}

fn backless(descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> bool {
    descriptor.Flags & (SPARSE | DEFERRED) != 0
}

/// What the device needs for so many bytes.
fn required(bytes: usize) -> Result<usize, CUresult> {
    static GRAIN: OnceLock<usize> = OnceLock::new();
    let grain = *GRAIN.get_or_init(|| {
        let wanted = std::env::var("GPU_SIM_ARRAY_GRAIN").ok();
        let wanted = wanted.and_then(|grain| grain.parse().ok());
        wanted.filter(|grain| *grain > 0).unwrap_or(memory::GRAIN)
    });
    memory::rounded(bytes, grain)
}

fn insert(
    context: &Context,
    descriptor: &CUDA_ARRAY3D_DESCRIPTOR,
    base: usize,
    (pitch, rows, depth): (usize, usize, usize),
    level: bool,
) -> CUarray {
    let number = ARRAYS.insert(Array {
        descriptor: *descriptor,
        base,
        pitch,
        rows,
        depth,
        context: context.id,
        level,
        backing: (backless(descriptor) && !level).then(Backing::default),
    });
    CUarray(std::ptr::without_provenance_mut(number))
}

/// The array that a handle stands for.
pub(crate) fn get(array: CUarray) -> Result<Arc<Array>, CUresult> {
    ARRAYS
        .get(array.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

fn destroy(array: CUarray) -> Result<(), CUresult> {
    if get(array)?.level {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    let gone = ARRAYS
        .remove(array.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    free(gone.base)
}

/// Shapes of the levels, each half of the one before in every direction that it has.
fn levels(
    descriptor: &CUDA_ARRAY3D_DESCRIPTOR,
    count: u32,
) -> Result<Vec<CUDA_ARRAY3D_DESCRIPTOR>, CUresult> {
    let longest = descriptor
        .Width
        .max(descriptor.Height)
        .max(descriptor.Depth)
        .max(1);
    let most = longest.ilog2() + 1;
    if count == 0 {
        return Err(INVALID);
    }
    let half = |side: usize, level: u32| if side == 0 { 0 } else { (side >> level).max(1) };
    let layered = descriptor.Flags & (LAYERED | CUBEMAP) != 0;
    Ok((0..count.min(most))
        .map(|level| CUDA_ARRAY3D_DESCRIPTOR {
            Width: half(descriptor.Width, level),
            Height: half(descriptor.Height, level),
            Depth: if layered {
                descriptor.Depth
            } else {
                half(descriptor.Depth, level)
            },
            ..*descriptor
        })
        .collect())
}

fn create_mipmapped(
    context: &Context,
    descriptor: &CUDA_ARRAY3D_DESCRIPTOR,
    count: u32,
) -> Result<CUmipmappedArray, CUresult> {
    let base = take(context, descriptor, mipmapped_bytes(descriptor, count)?)?;
    create_mipmapped_at(context, descriptor, count, base)
}

/// Bytes of all levels.
pub(crate) fn mipmapped_bytes(
    descriptor: &CUDA_ARRAY3D_DESCRIPTOR,
    count: u32,
) -> Result<usize, CUresult> {
    let levels = levels(descriptor, count)?;
    levels.iter().try_fold(0_usize, |sum, level| {
        sum.checked_add(size(shape(level)?)?).ok_or(INVALID)
    })
}

/// A mipmapped array whose memory is there already; none if the address is 0.
pub(crate) fn create_mipmapped_at(
    context: &Context,
    descriptor: &CUDA_ARRAY3D_DESCRIPTOR,
    count: u32,
    base: usize,
) -> Result<CUmipmappedArray, CUresult> {
    let levels = levels(descriptor, count)?;
    let shapes: Vec<_> = levels.iter().map(shape).collect::<Result<_, _>>()?;
    let mut at = base;
    let mut handles = Vec::new();
    for (level, shape) in levels.iter().zip(shapes) {
        handles.push(insert(context, level, at, shape, true).0.addr());
        at += if base == 0 { 0 } else { size(shape)? };
    }
    let number = MIPMAPPED.insert(Mipmapped {
        base,
        context: context.id,
        levels: handles,
        descriptor: *descriptor,
        backing: backless(descriptor).then(Backing::default),
    });
    Ok(CUmipmappedArray(std::ptr::without_provenance_mut(number)))
}

fn mipmapped(array: CUmipmappedArray) -> Result<Arc<Mipmapped>, CUresult> {
    MIPMAPPED
        .get(array.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

fn destroy_mipmapped(array: CUmipmappedArray) -> Result<(), CUresult> {
    let gone = MIPMAPPED
        .remove(array.0.addr())
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    for level in &gone.levels {
        ARRAYS.remove(*level);
    }
    free(gone.base)
}

/// Arrays of a context that ends go with it; their memory is freed with the rest.
pub(crate) fn on_context_destroy(context: u64) {
    for (handle, array) in ARRAYS.all() {
        if array.context == context {
            ARRAYS.remove(handle);
        }
    }
    for (handle, array) in MIPMAPPED.all() {
        if array.context == context {
            MIPMAPPED.remove(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_headers::driver::CUarray_format;

    fn of(width: usize, height: usize, depth: usize, flags: u32) -> CUDA_ARRAY3D_DESCRIPTOR {
        CUDA_ARRAY3D_DESCRIPTOR {
            Width: width,
            Height: height,
            Depth: depth,
            Format: CUarray_format::CU_AD_FORMAT_FLOAT,
            NumChannels: 4,
            Flags: flags,
        }
    }

    #[test]
    fn no_dimension_makes_an_array_free() {
        assert_eq!(shape(&of(10, 0, 0, 0)), Ok((160, 1, 1)));
        assert_eq!(shape(&of(10, 20, 0, 0)), Ok((160, 20, 1)));
        assert_eq!(shape(&of(10, 20, 30, 0)), Ok((160, 20, 30)));
        assert_eq!(shape(&of(10, 0, 30, LAYERED)), Ok((160, 1, 30)));
        for bad in [
            of(0, 1, 1, 0),
            of(10, 0, 30, 0),
            of(4, 5, 6, CUBEMAP),
            of(1, 1, 1, 1 << 12),
        ] {
            assert_eq!(shape(&bad), Err(INVALID));
        }
    }

    #[test]
    fn levels_halve_down_to_one() {
        let sides = |d: CUDA_ARRAY3D_DESCRIPTOR, n| -> Vec<(usize, usize)> {
            levels(&d, n)
                .unwrap()
                .iter()
                .map(|l| (l.Width, l.Height))
                .collect()
        };
        assert_eq!(sides(of(8, 2, 0, 0), 99), [(8, 2), (4, 1), (2, 1), (1, 1)]);
        assert_eq!(sides(of(8, 0, 0, 0), 2), [(8, 0), (4, 0)]);
        assert!(levels(&of(8, 8, 0, 0), 0).is_err());
    }
}
