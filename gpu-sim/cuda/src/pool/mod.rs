//! Stream-ordered memory: pools that reserve device memory in large segments, hand it out in stream
//! order, and give unused segments back at synchronisation, as far as their threshold says.

mod attributes;
mod entries;
mod segments;
mod share;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cuda_headers::driver::{
    CUdevice, CUdeviceptr, CUmemLocation, CUmemLocationType, CUmemoryPool, CUresult, CUstream,
};

use crate::ctx::Context;
use crate::handles::{Kind, Table};
use crate::memory::{self, Allocation, Family, GRAIN, Owner};
use crate::{ctx, device, order};
use segments::Segments;
pub(crate) use share::detach_import;

/// A stream as far as reuse goes: (context, handle, thread for the per-thread default stream).
pub(crate) type StreamKey = (u64, usize, u64);

/// Stands for the host among device numbers.
const HOST: CUdevice = -1;

fn host_location() -> CUmemLocation {
    // SAFETY: integers, for which zero is valid.
    let mut location: CUmemLocation = unsafe { std::mem::zeroed() };
    location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST;
    location
}

/// A pool.
pub(crate) struct Pool {
    /// Its device; -1 for memory of the host.
    pub(crate) device: CUdevice,
    /// The device's index in the simulation.
    pub(crate) core: Option<usize>,
    pub(crate) location: CUmemLocation,
    /// The device's own pool, which cannot be destroyed.
    pub(crate) built_in: bool,
    /// Other processes may import it.
    pub(crate) exportable: bool,
    /// The memory file of the process that it was imported from.
    imported: Option<OwnedFd>,
    pub(crate) state: Mutex<State>,
}

/// What changes in a pool.
pub(crate) struct State {
    pub(crate) segments: Segments,
    /// Freed in some stream's order, and not yet reached there.
    pending: Vec<Pending>,
    /// Live allocations with their rounded sizes.
    live: HashMap<usize, usize>,
    pub(crate) used: u64,
    pub(crate) used_high: u64,
    pub(crate) threshold: u64,
    /// `CU_MEMPOOL_ATTR_REUSE_*`, in the header's order; all on.
    pub(crate) reuse: [i32; 3],
    /// Access of other devices (`CUmemAccess_flags`).
    pub(crate) access: HashMap<CUdevice, u32>,
    /// Destroyed while memory was out.
    destroyed: bool,
    /// Nothing of it is left either.
    gone: bool,
}

struct Pending {
    start: usize,
    len: usize,
    stream: StreamKey,
    reached: Arc<AtomicBool>,
}

static POOLS: Table<Pool> = Table::new(Kind::Pool);
/// (current pool, built-in pool) of each device.
static OF_DEVICE: Mutex<Option<HashMap<CUdevice, (usize, usize)>>> = Mutex::new(None);

impl Pool {
    fn new(device: CUdevice, core: usize, built_in: bool, max: usize) -> Self {
        let mut location = host_location();
        location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        location.__bindgen_anon_1.id = device;
        Self::at(location, device, Some(core), built_in, max)
    }

    /// In the host's memory, of which the simulation keeps no account.
    fn on_host(location: CUmemLocation, max: usize) -> Self {
        Self::at(location, HOST, None, false, max)
    }

    fn at(
        location: CUmemLocation,
        device: CUdevice,
        core: Option<usize>,
        built_in: bool,
        max: usize,
    ) -> Self {
        Self {
            device,
            core,
            location,
            built_in,
            exportable: false,
            imported: None,
            state: Mutex::new(State {
                segments: Segments::new(core, max),
                pending: Vec::new(),
                live: HashMap::new(),
                used: 0,
                used_high: 0,
                threshold: 0,
                reuse: [1; 3],
                access: HashMap::new(),
                destroyed: false,
                gone: false,
            }),
        }
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Memory whose frees have been reached is free for everybody.
    fn reclaim(&mut self) {
        let segments = &mut self.segments;
        self.pending.retain(|pending| {
            let reached = pending.reached.load(Ordering::Acquire);
            if reached {
                segments.put(pending.start, pending.len);
            }
            !reached
        });
    }

    fn take(&mut self, len: usize, stream: StreamKey) -> Result<usize, CUresult> {
        self.reclaim();
        if let Some(start) = self.segments.take(len) {
            return Ok(start);
        }
        // What was freed in this very stream's order may be used next in it.
        let same = |pending: &&mut Pending| pending.stream == stream && pending.len >= len;
        if let Some(pending) = self.pending.iter_mut().find(same) {
            let start = pending.start;
            pending.start += len;
            pending.len -= len;
            self.pending.retain(|pending| pending.len > 0);
            return Ok(start);
        }
        self.segments.grow(len)?;
        self.segments
            .take(len)
            .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
    }

    /// Gives unused segments back until no more than `keep` bytes are reserved.
    pub(crate) fn trim(&mut self, keep: u64) {
        self.reclaim();
        self.segments.release_down_to(keep);
    }
}

/// A pool by its handle.
pub(crate) fn get(pool: CUmemoryPool) -> Result<Arc<Pool>, CUresult> {
    let found = POOLS
        .get(pool.0.addr())
        .filter(|pool| !pool.lock().destroyed);
    found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

fn of_device(device: CUdevice) -> Result<(usize, usize), CUresult> {
    let core = device::core_index(device)?;
    let mut pools = OF_DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(*pools
        .get_or_insert_default()
        .entry(device)
        .or_insert_with(|| {
            let built_in = POOLS.insert(Pool::new(device, core, true, 0));
            (built_in, built_in)
        }))
}

fn handle(pool: usize) -> CUmemoryPool {
    CUmemoryPool(std::ptr::without_provenance_mut(pool))
}

/// The pool that `cuMemAllocAsync` takes from.
pub(crate) fn current(device: CUdevice) -> Result<CUmemoryPool, CUresult> {
    of_device(device).map(|(current, _)| handle(current))
}

/// The device's own pool.
pub(crate) fn built_in(device: CUdevice) -> Result<CUmemoryPool, CUresult> {
    of_device(device).map(|(_, built_in)| handle(built_in))
}

fn set_current(device: CUdevice, pool: CUmemoryPool) -> Result<(), CUresult> {
    of_device(device)?;
    if get(pool)?.device != device {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut pools = OF_DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = pools.get_or_insert_default().get_mut(&device) {
        entry.0 = pool.0.addr();
    }
    Ok(())
}

/// Allocates in stream order.
pub(crate) fn allocate(
    pool: CUmemoryPool,
    size: usize,
    stream: StreamKey,
    context: &Context,
) -> Result<CUdeviceptr, CUresult> {
    if size == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let len = memory::rounded(size, GRAIN)?;
    let found = get(pool)?;
    if found.imported.is_some() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // Memory of the host is told of as of the device that it was asked for on.
    let home = match found.core {
        Some(core) => Owner {
            context: 0,
            device: found.device,
            core,
        },
        None => Owner::of(context),
    };
    let mut state = found.lock();
    let start = state.take(len, stream)?;
    state.live.insert(start, len);
    state.used += len as u64;
    state.used_high = state.used_high.max(state.used);
    let owner = Owner { context: 0, ..home };
    let family = Family::Pool(pool.0.addr());
    memory::lock()?
        .table
        .insert(Allocation::new(start, size, len, family, owner));
    Ok(start as CUdeviceptr)
}

/// The handle of the pool that an address is of.
fn pool_of(address: usize) -> Result<usize, CUresult> {
    let memory = memory::lock()?;
    match memory.table.get(address).map(|found| found.family) {
        Some(Family::Pool(pool)) => Ok(pool),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

/// Takes an allocation out of the program's sight; gives its size. Both under the pool's lock: the pool may have been emptied
/// with the last context of its device since it was found.
fn take_live(address: usize, pool: usize, state: &mut State) -> Result<usize, CUresult> {
    let mut memory = memory::lock()?;
    let is_of = |found: &&Allocation| found.family == Family::Pool(pool);
    if memory.table.get(address).filter(is_of).is_none() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    memory.table.remove(address);
    let len = state.live.remove(&address);
    let len = len.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    state.used -= len as u64;
    Ok(len)
}

/// Frees in stream order.
pub(crate) fn free(
    address: usize,
    stream: CUstream,
    per_thread: bool,
    key: StreamKey,
) -> Result<(), CUresult> {
    let pool = pool_of(address)?;
    let reached = Arc::new(AtomicBool::new(false));
    if let Some(found) = POOLS.get(pool) {
        let mut state = found.lock();
        let len = take_live(address, pool, &mut state)?;
        let reached = Arc::clone(&reached);
        state.pending.push(Pending {
            start: address,
            len,
            stream: key,
            reached,
        });
    }
    let mark = move || {
        reached.store(true, Ordering::Release);
        finish(pool);
    };
    order::when_reached(stream, per_thread, Box::new(mark))
}

/// Frees at once: all work on the memory is done.
pub(crate) fn free_now(address: usize) -> Result<(), CUresult> {
    let pool = pool_of(address)?;
    if let Some(found) = POOLS.get(pool) {
        let mut state = found.lock();
        let len = take_live(address, pool, &mut state)?;
        state.segments.put(address, len);
    }
    finish(pool);
    Ok(())
}

/// A destroyed pool goes when its last memory comes back.
fn finish(handle: usize) {
    let Some(pool) = POOLS.get(handle) else {
        return;
    };
    let mut state = pool.lock();
    if state.destroyed && state.live.is_empty() {
        state.trim(0);
        // Once: afterwards the handle may be another pool's.
        if state.segments.reserved == 0 && !std::mem::replace(&mut state.gone, true) {
            drop(state);
            POOLS.remove(handle);
        }
    }
}

fn destroy(pool: CUmemoryPool) -> Result<(), CUresult> {
    let found = get(pool)?;
    if found.built_in {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    found.lock().destroyed = true;
    // A device whose current pool goes falls back to its own.
    let mut pools = OF_DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = pools.get_or_insert_default().get_mut(&found.device)
        && entry.0 == pool.0.addr()
    {
        entry.0 = entry.1;
    }
    drop(pools);
    drop(found);
    finish(pool.0.addr());
    Ok(())
}

/// At the end of a synchronising call: what is unused above the thresholds goes back.
pub(crate) fn on_synchronize() {
    for (_, pool) in POOLS.all() {
        let mut state = pool.lock();
        if state.segments.reserved > state.threshold {
            let keep = state.threshold;
            state.trim(keep);
        }
    }
}

/// The built-in pool of a device without contexts starts afresh. Explicit pools live on.
pub(crate) fn on_context_destroy() {
    let contexts = ctx::all();
    for (handle, pool) in POOLS.all() {
        let used = contexts
            .iter()
            .any(|context| Some(context.core_device) == pool.core);
        if used || !pool.built_in {
            continue;
        }
        let mut state = pool.lock();
        if let Ok(mut memory) = memory::lock() {
            memory.table.take_family(Family::Pool(handle));
        }
        state.live.clear();
        state.pending.clear();
        state.used = 0;
        state.segments.release_all();
    }
}
