//! Occupancy, computed from the same limits that the device attributes tell.

use std::ffi::{c_int, c_uint};

use cuda_headers::driver::{CUfunction, CUlaunchConfig, CUoccupancyB2DSize, CUresult};

use crate::device;
use crate::entry::{entry, input, out};
use crate::module::{self, Loaded};

const THREADS_PER_SM: u32 = 2048;
const BLOCKS_PER_SM: u32 = 32;
const REGISTERS_PER_SM: u32 = 65536;
const SHARED_PER_SM: u32 = 228 << 10;
/// The system's own part of each block's shared memory.
const RESERVED_SHARED: u32 = 1024;
const WARP: u32 = 32;
/// Registers are dealt to warps in this unit.
const REGISTER_UNIT: u32 = 256;
const CLUSTER: u32 = 8;
const KNOWN_FLAGS: c_uint = 1;

/// Blocks of `threads` with `dynamic` bytes of shared memory that one multiprocessor holds.
fn blocks(loaded: &Loaded, threads: u32, dynamic: u32) -> u32 {
    let warps = threads.div_ceil(WARP);
    let per_warp = (loaded.function.registers.clamp(1, 255) * WARP).next_multiple_of(REGISTER_UNIT);
    let shared = loaded.function.static_shared.saturating_add(dynamic);
    let shared = shared.saturating_add(RESERVED_SHARED);
    if threads > loaded.function.max_threads || dynamic > loaded.settings().max_dynamic_shared {
        return 0;
    }
    BLOCKS_PER_SM
        .min(THREADS_PER_SM / (warps * WARP))
        .min(REGISTERS_PER_SM / (per_warp * warps))
        .min(SHARED_PER_SM / shared)
}

unsafe fn active(
    target: *mut c_int,
    func: CUfunction,
    threads: c_int,
    dynamic: usize,
    flags: c_uint,
) -> Result<(), CUresult> {
    let loaded = module::function(func)?;
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0);
    let threads = threads.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if flags & !KNOWN_FLAGS != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let dynamic = u32::try_from(dynamic).unwrap_or(u32::MAX);
    let blocks = blocks(&loaded, threads, dynamic);
    // SAFETY: NULL or valid, says the application.
    unsafe { out(target, c_int::try_from(blocks).unwrap_or(c_int::MAX)) }
}

struct Potential {
    dynamic_of: CUoccupancyB2DSize,
    dynamic: usize,
    limit: c_int,
    flags: c_uint,
}

unsafe fn potential(
    grid: *mut c_int,
    block: *mut c_int,
    func: CUfunction,
    ask: &Potential,
) -> Result<(), CUresult> {
    if grid.is_null() || block.is_null() || ask.flags & !KNOWN_FLAGS != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let loaded = module::function(func)?;
    let most = match u32::try_from(ask.limit) {
        Ok(limit) if limit > 0 => limit.min(loaded.function.max_threads),
        _ => loaded.function.max_threads,
    };
    let mut best = (0, 0, 0);
    for threads in (1..=most.div_ceil(WARP))
        .rev()
        .map(|warps| (warps * WARP).min(most))
    {
        let dynamic = match ask.dynamic_of {
            // SAFETY: the application's own function, called as documented.
            Some(size_of) => unsafe { size_of(threads.cast_signed()) },
            None => ask.dynamic,
        };
        let blocks = blocks(&loaded, threads, u32::try_from(dynamic).unwrap_or(u32::MAX));
        if blocks * threads > best.0 {
            best = (blocks * threads, blocks, threads);
        }
    }
    let multiprocessors = device::get(loaded.device)?.card.multiprocessors;
    // SAFETY: both are not NULL, so valid, says the application.
    unsafe {
        out(grid, (best.1 * multiprocessors).cast_signed())?;
        out(block, best.2.cast_signed())
    }
}

entry! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        numBlocks: *mut c_int,
        func: CUfunction,
        blockSize: c_int,
        dynamicSMemSize: usize,
    ), null { crate::entry::answer(out(numBlocks, 2)) } {
        active(numBlocks, func, blockSize, dynamicSMemSize, 0)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks: *mut c_int,
        func: CUfunction,
        blockSize: c_int,
        dynamicSMemSize: usize,
        flags: c_uint,
    ), null { crate::entry::answer(out(numBlocks, 2)) } {
        active(numBlocks, func, blockSize, dynamicSMemSize, flags)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        minGridSize: *mut c_int,
        blockSize: *mut c_int,
        func: CUfunction,
        blockSizeToDynamicSMemSize: CUoccupancyB2DSize,
        dynamicSMemSize: usize,
        blockSizeLimit: c_int,
    ) {
        let ask = Potential {
            dynamic_of: blockSizeToDynamicSMemSize,
            dynamic: dynamicSMemSize,
            limit: blockSizeLimit,
            flags: 0,
        };
        potential(minGridSize, blockSize, func, &ask)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        minGridSize: *mut c_int,
        blockSize: *mut c_int,
        func: CUfunction,
        blockSizeToDynamicSMemSize: CUoccupancyB2DSize,
        dynamicSMemSize: usize,
        blockSizeLimit: c_int,
        flags: c_uint,
    ) {
        let ask = Potential {
            dynamic_of: blockSizeToDynamicSMemSize,
            dynamic: dynamicSMemSize,
            limit: blockSizeLimit,
            flags,
        };
        potential(minGridSize, blockSize, func, &ask)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(
        dynamicSmemSize: *mut usize,
        func: CUfunction,
        numBlocks: c_int,
        blockSize: c_int,
    ) {
        let loaded = module::function(func)?;
        let (Ok(blocks), true) = (u32::try_from(numBlocks), blockSize > 0) else {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        };
        if blocks == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let each = (SHARED_PER_SM / blocks).saturating_sub(RESERVED_SHARED);
        let free = each.saturating_sub(loaded.function.static_shared);
        out(dynamicSmemSize, free.min(loaded.settings().max_dynamic_shared) as usize)
    }

    fn cuOccupancyMaxPotentialClusterSize(
        clusterSize: *mut c_int,
        func: CUfunction,
        config: *const CUlaunchConfig,
    ) {
        module::function(func)?;
        input(config)?;
        out(clusterSize, CLUSTER.cast_signed())
    }

    fn cuOccupancyMaxActiveClusters(
        numClusters: *mut c_int,
        func: CUfunction,
        config: *const CUlaunchConfig,
    ) {
        let loaded = module::function(func)?;
        let config = input(config)?;
        let threads = config.blockDimX.saturating_mul(config.blockDimY);
        let threads = threads.saturating_mul(config.blockDimZ).max(1);
        let each = blocks(&loaded, threads, config.sharedMemBytes);
        let multiprocessors = device::get(loaded.device)?.card.multiprocessors;
        let all = each.saturating_mul(multiprocessors) / CLUSTER;
        out(numClusters, c_int::try_from(all).unwrap_or(c_int::MAX))
    }
}
