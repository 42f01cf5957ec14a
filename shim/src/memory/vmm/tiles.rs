//! Tiles of sparse arrays: what is mapped there keeps the physical memory behind it, as addresses do.
//!
//! Arrays that are created without memory are charged nothing themselves. A reference that `cuMemMapArrayAsync` drops is
//! given back when the call returns, although the stream may come to it later.

use cuda_headers::driver::{
    CUarrayMapInfo, CUarraySparseSubresourceType, CUmemOperationType, CUresourcetype, CUresult,
};

use super::boxes::Cuboid;
use crate::guard::Aside;
use crate::memory::array::Handle;
use crate::process::{self, Process};
use crate::table::Table;

/// What is mapped in the sparse arrays of this process.
pub(super) struct Tiles {
    /// Arrays without memory of their own.
    arrays: Table<Backless>,
    /// By a hash of where they are: one that is unmapped as it was mapped is found at once.
    mapped: Table<Tile>,
}

#[derive(Copy, Clone)]
struct Backless {
    context: u32,
    /// Mapped as a whole: what the list says of a part is ignored.
    deferred: bool,
}

/// A part of an array, and the block behind it.
#[derive(Copy, Clone)]
struct Tile {
    place: Place,
    block: u64,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Place {
    array: u64,
    /// Level or mip tail, and layer.
    part: (u32, u32),
    extent: Cuboid,
}

impl Tiles {
    pub(super) const fn new() -> Self {
        Self {
            arrays: Table::new(),
            mapped: Table::new(),
        }
    }

    /// Takes what is mapped at a place away, and hands its blocks to `gone`.
    fn take(&self, place: &Place, mut gone: impl FnMut(u64), mut split: impl FnMut(u64)) {
        if let Some(tile) = self
            .mapped
            .remove_if(key(place), |tile| tile.place == *place)
        {
            gone(tile.block);
            return;
        }
        // Mapped in other portions. One at a time, since nothing may be put in under the table's lock.
        let is_part = |tile: &Tile| {
            let other = &tile.place;
            other.array == place.array
                && other.part == place.part
                && other.extent.overlaps(&place.extent)
        };
        loop {
            let mut found = None;
            self.mapped.for_each(|key, tile| {
                if is_part(tile) {
                    found = Some(key);
                }
            });
            let Some(tile) = found.and_then(|key| self.mapped.remove_if(key, is_part)) else {
                return;
            };
            tile.place.extent.without(&place.extent, |extent| {
                split(tile.block);
                let place = Place {
                    extent,
                    ..tile.place
                };
                let block = tile.block;
                let _ = self.mapped.insert(key(&place), Tile { place, block });
            });
            gone(tile.block);
        }
    }

    fn place(&self, info: &CUarrayMapInfo) -> Place {
        // SAFETY: handles are plain numbers here, whichever the type selects.
        let array = unsafe {
            match info.resourceType {
                CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => info.resource.mipmap.key(),
                _ => info.resource.array.key(),
            }
        };
        if self.arrays.get(array).is_some_and(|array| array.deferred) {
            return Place {
                array,
                part: (0, 0),
                extent: Cuboid::ALL,
            };
        }
        let is_tail = info.subresourceType
            == CUarraySparseSubresourceType::CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
        if is_tail {
            // SAFETY: numbers, which the type selects.
            let tail = unsafe { info.subresource.miptail };
            return Place {
                array,
                part: (u32::MAX, tail.layer),
                extent: Cuboid {
                    low: [tail.offset, 0, 0],
                    high: [tail.offset.saturating_add(tail.size), 1, 1],
                },
            };
        }
        // SAFETY: as above.
        let level = unsafe { info.subresource.sparseLevel };
        let low = [level.offsetX, level.offsetY, level.offsetZ].map(u64::from);
        let size = [level.extentWidth, level.extentHeight, level.extentDepth].map(u64::from);
        let [x, y, z] = low;
        let [width, height, depth] = size;
        Place {
            array,
            part: (level.level, level.layer),
            extent: Cuboid {
                low,
                high: [x + width, y + height, z + depth.max(1)],
            },
        }
    }
}

/// A hash of a place that is no zero.
fn key(place: &Place) -> u64 {
    let [x, y, z] = place.extent.low;
    let [u, v, w] = place.extent.high;
    let part = u64::from(place.part.0) << 32 | u64::from(place.part.1);
    let mix = |sum: u64, word: u64| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23)
    };
    [place.array, part, x, y, z, u, v, w]
        .into_iter()
        .fold(1, mix)
        | 1
}

/// `cuMemMapArrayAsync`.
///
/// # Safety
/// `list` has `count` entries, as the driver asks.
pub(crate) unsafe fn map(
    list: *const CUarrayMapInfo,
    count: u32,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let physical = &process.memory.physical;
    let count = usize::try_from(count).unwrap_or(0);
    if list.is_null() || count == 0 {
        return Err(Aside::DriverDecides);
    }
    // SAFETY: as this function's caller promises.
    let list = unsafe { core::slice::from_raw_parts(list, count) };
    let is_map = |info: &&CUarrayMapInfo| {
        info.memOperationType == CUmemOperationType::CU_MEM_OPERATION_TYPE_MAP
    };
    let block_of = |info: &CUarrayMapInfo| {
        // SAFETY: the only member.
        physical.handles.get(unsafe { info.memHandle.memHandle })
    };
    // Held before the driver maps them: their handles may be released meanwhile.
    for block in list.iter().filter(is_map).filter_map(block_of) {
        physical.blocks.with(block, |block| block.maps += 1);
    }
    let answer = call();
    for info in list {
        let place = physical.tiles.place(info);
        match block_of(info).filter(|_| is_map(&info)) {
            Some(block) if answer != CUresult::CUDA_SUCCESS => physical.unmapped(process, block),
            Some(block) => {
                let old = physical
                    .tiles
                    .mapped
                    .insert(key(&place), Tile { place, block });
                if let Ok(Some(old)) = old {
                    physical.unmapped(process, old.block);
                }
            }
            None if answer == CUresult::CUDA_SUCCESS => take(process, &place),
            None => {}
        }
    }
    Ok(answer)
}

fn take(process: &Process, place: &Place) {
    let physical = &process.memory.physical;
    physical.tiles.take(
        place,
        |block| physical.unmapped(process, block),
        |block| {
            physical.blocks.with(block, |block| block.maps += 1);
        },
    );
}

/// An array without memory of its own has been made.
pub(crate) fn array_made(process: &Process, array: u64, context: u32, deferred: bool) {
    let backless = Backless { context, deferred };
    let _ = process.memory.physical.tiles.arrays.insert(array, backless);
}

/// Whether it is one of these.
pub(crate) fn is_array(process: &Process, array: u64) -> bool {
    let arrays = &process.memory.physical.tiles.arrays;
    arrays.with(array, |_| ()).is_some()
}

/// An array is gone, and with it what was mapped there.
pub(crate) fn array_gone(process: &Process, array: u64) {
    let physical = &process.memory.physical;
    physical.tiles.arrays.remove(array);
    unmap_all(process, array);
}

fn unmap_all(process: &Process, array: u64) {
    let physical = &process.memory.physical;
    physical.tiles.mapped.sweep(
        |_, tile| tile.place.array == array,
        |_, tile| physical.unmapped(process, tile.block),
    );
}

/// The same for all arrays of a context that is gone.
pub(crate) fn context_gone(process: &Process, context: u32) {
    let physical = &process.memory.physical;
    physical.tiles.arrays.sweep(
        |_, array| array.context == context,
        |array, _| unmap_all(process, array),
    );
}
