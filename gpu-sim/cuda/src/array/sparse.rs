//! Arrays that are created without memory: sparse ones, which get it tile by tile, and those with deferred mapping, which get
//! it as a whole. Only whose memory it is and how long it stays is simulated, not the bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cuda_headers::driver::{
    CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY_SPARSE_PROPERTIES, CUDA_ARRAY3D_DESCRIPTOR,
    CUarrayMapInfo, CUarraySparseSubresourceType as Part, CUmemHandleType, CUmemOperationType,
    CUresourcetype, CUresult,
};

use super::{Array, CUBEMAP, DEFERRED, INVALID, LAYERED, Mipmapped, SPARSE, format, levels};
use crate::vmm::{self, Physical};

/// Bytes of a tile.
const TILE: usize = 64 << 10;

/// (part, layer, place) of a tile.
type Place = (u32, u32, [usize; 3]);

/// What is mapped where.
#[derive(Default, Clone)]
pub(super) struct Backing(Arc<Mutex<HashMap<Place, Arc<Physical>>>>);

impl Backing {
    fn set(&self, places: Vec<Place>, memory: Option<Arc<Physical>>) {
        let mut gone = Vec::new();
        let mut tiles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for place in places {
            gone.extend(match &memory {
                Some(memory) => tiles.insert(place, Arc::clone(memory)),
                None => tiles.remove(&place),
            });
        }
        drop(tiles);
        drop(gone);
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn wide(number: u64) -> Result<usize, CUresult> {
    usize::try_from(number).map_err(|_| INVALID)
}

/// Extent of a tile: 64 KiB of elements, as near to a square or a cube as can be.
fn tile(descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Result<[usize; 3], CUresult> {
    let element = format::block(descriptor.Format, descriptor.NumChannels)?;
    if element.side != 1 {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let layered = descriptor.Flags & (LAYERED | CUBEMAP) != 0;
    let mut sides = [1_usize; 3];
    let dimensions = if descriptor.Depth > 0 && !layered {
        3
    } else {
        2
    };
    let doublings = (TILE / element.bytes).ilog2() as usize;
    for turn in 0..doublings {
        sides[turn % dimensions] *= 2;
    }
    Ok(sides)
}

pub(super) fn requirements(
    descriptor: &CUDA_ARRAY3D_DESCRIPTOR,
    count: u32,
) -> Result<CUDA_ARRAY_MEMORY_REQUIREMENTS, CUresult> {
    if descriptor.Flags & DEFERRED == 0 {
        return Err(INVALID);
    }
    Ok(CUDA_ARRAY_MEMORY_REQUIREMENTS {
        size: super::required(super::mipmapped_bytes(descriptor, count)?)?,
        alignment: TILE,
        reserved: [0; 4],
    })
}

/// The first level that is too small for tiles, or the number of levels.
fn tail(descriptor: &CUDA_ARRAY3D_DESCRIPTOR, count: u32) -> Result<usize, CUresult> {
    let [width, height, depth] = tile(descriptor)?;
    let all = levels(descriptor, count)?;
    let small = |level: &CUDA_ARRAY3D_DESCRIPTOR| {
        level.Width < width || level.Height < height || level.Depth.max(1) < depth
    };
    Ok(all.iter().position(small).unwrap_or(all.len()))
}

pub(super) fn properties(
    descriptor: &CUDA_ARRAY3D_DESCRIPTOR,
    count: u32,
) -> Result<CUDA_ARRAY_SPARSE_PROPERTIES, CUresult> {
    if descriptor.Flags & SPARSE == 0 {
        return Err(INVALID);
    }
    let [width, height, depth] = tile(descriptor)?;
    // SAFETY: numbers, for which zero is a value.
    let mut properties: CUDA_ARRAY_SPARSE_PROPERTIES = unsafe { std::mem::zeroed() };
    properties.tileExtent.width = narrow(width);
    properties.tileExtent.height = narrow(height);
    properties.tileExtent.depth = narrow(depth);
    // Documented: zero for what is not mipmapped.
    if count > 1 {
        let first = tail(descriptor, count)?;
        let layers = if descriptor.Flags & (LAYERED | CUBEMAP) == 0 {
            1
        } else {
            descriptor.Depth.max(1)
        };
        let all = levels(descriptor, count)?;
        let small = all.iter().skip(first).try_fold(0, |sum, level| {
            Ok::<_, CUresult>(sum + super::size(super::shape(level)?)? / layers)
        })?;
        properties.miptailFirstLevel = narrow(first);
        properties.miptailSize = small.next_multiple_of(TILE) as u64;
    }
    Ok(properties)
}

/// The tiles that an entry of the list means, where they are kept, and how many bytes they are.
fn places(info: &CUarrayMapInfo) -> Result<(Backing, Vec<Place>, usize), CUresult> {
    let (descriptor, count, backing) = match info.resourceType {
        CUresourcetype::CU_RESOURCE_TYPE_ARRAY => {
            // SAFETY: the type selects it.
            let array: Arc<Array> = super::get(unsafe { info.resource.array })?;
            (array.descriptor, 1, array.backing.clone())
        }
        CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
            // SAFETY: the type selects it.
            let array: Arc<Mipmapped> = super::mipmapped(unsafe { info.resource.mipmap })?;
            (
                array.descriptor,
                narrow(array.levels.len()),
                array.backing.clone(),
            )
        }
        _ => return Err(INVALID),
    };
    // Neither arrays with memory of their own nor levels of mipmapped ones.
    let backing = backing.ok_or(INVALID)?;
    if descriptor.Flags & DEFERRED != 0 {
        let size = requirements(&descriptor, count)?.size;
        return Ok((backing, vec![(0, 0, [0; 3])], size));
    }
    let layers = if descriptor.Flags & (LAYERED | CUBEMAP) == 0 {
        1
    } else {
        descriptor.Depth.max(1)
    };
    if info.subresourceType == Part::CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL {
        // SAFETY: the type selects it.
        let part = unsafe { info.subresource.miptail };
        let size = properties(&descriptor, count)?.miptailSize;
        let whole =
            part.offset.is_multiple_of(TILE as u64) && part.size.is_multiple_of(TILE as u64);
        let inside = part
            .offset
            .checked_add(part.size)
            .is_some_and(|end| end <= size);
        if !whole || !inside || part.size == 0 || part.layer as usize >= layers {
            return Err(INVALID);
        }
        let first = wide(part.offset)? / TILE;
        let tiles = wide(part.size)? / TILE;
        let all = (first..first + tiles).map(|tile| (u32::MAX, part.layer, [tile, 0, 0]));
        return Ok((backing, all.collect(), tiles * TILE));
    }
    // SAFETY: the type selects it.
    let part = unsafe { info.subresource.sparseLevel };
    let level = levels(&descriptor, count)?;
    let level = level.get(part.level as usize).ok_or(INVALID)?;
    if part.level as usize >= tail(&descriptor, count)? || part.layer as usize >= layers {
        return Err(INVALID);
    }
    let tile = tile(&descriptor)?;
    let depth = if layers > 1 || descriptor.Flags & (LAYERED | CUBEMAP) != 0 {
        1
    } else {
        level.Depth.max(1)
    };
    let whole = [level.Width, level.Height, depth];
    let offset = [part.offsetX, part.offsetY, part.offsetZ].map(|side| side as usize);
    let extent = [part.extentWidth, part.extentHeight, part.extentDepth].map(|side| side as usize);
    let mut ranges = [(0, 0); 3];
    for side in 0..3 {
        let end = offset[side] + extent[side];
        let aligned = offset[side].is_multiple_of(tile[side])
            && (extent[side].is_multiple_of(tile[side]) || end == whole[side]);
        if extent[side] == 0 || !aligned || end > whole[side].next_multiple_of(tile[side]) {
            return Err(INVALID);
        }
        ranges[side] = (offset[side] / tile[side], end.div_ceil(tile[side]));
    }
    let [x, y, z] = ranges;
    let mut all = Vec::new();
    for c in z.0..z.1 {
        for b in y.0..y.1 {
            all.extend((x.0..x.1).map(|a| (part.level, part.layer, [a, b, c])));
        }
    }
    let size = all.len() * TILE;
    Ok((backing, all, size))
}

/// Checks a list; the answer carries it out.
pub(super) fn map(
    list: &[CUarrayMapInfo],
    device: usize,
) -> Result<impl FnOnce() + Send + use<>, CUresult> {
    let mut steps = Vec::new();
    for info in list {
        let (backing, places, need) = places(info)?;
        if info.flags != 0 || info.reserved != [0; 2] || info.deviceBitMask.count_ones() != 1 {
            return Err(INVALID);
        }
        // SAFETY: the only member.
        let handle = unsafe { info.memHandle.memHandle };
        let memory = match info.memOperationType {
            CUmemOperationType::CU_MEM_OPERATION_TYPE_MAP => {
                if info.memHandleType != CUmemHandleType::CU_MEM_HANDLE_TYPE_GENERIC {
                    return Err(INVALID);
                }
                let memory = vmm::get(handle).map_err(|_| CUresult::CUDA_ERROR_INVALID_HANDLE)?;
                let offset = wide(info.offset)?;
                let inside = offset
                    .checked_add(need)
                    .is_some_and(|end| end <= memory.len())
                    || places == [(0, 0, [0; 3])];
                if !memory.is_tile_pool()
                    || memory.core() != Some(device)
                    || !offset.is_multiple_of(TILE)
                    || !inside
                {
                    return Err(INVALID);
                }
                Some(memory)
            }
            CUmemOperationType::CU_MEM_OPERATION_TYPE_UNMAP if handle == 0 => None,
            _ => return Err(INVALID),
        };
        steps.push((backing, places, memory));
    }
    Ok(move || {
        for (backing, places, memory) in steps {
            backing.set(places, memory);
        }
    })
}
