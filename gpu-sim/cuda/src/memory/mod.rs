//! Device memory of this process: who allocated what where. The entry points are in `linear`
//! (`cuMemAlloc` and its kin); pools, arrays and virtual memory build on the same table.

mod arena;
mod entries;
pub(crate) mod file;
mod graph;
mod heap;
mod managed;
mod ranges;
mod table;

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::{CUdevice, CUresult};

use crate::ctx::Context;
use crate::{array, external, ipc, pool, state, vmm};
pub(crate) use arena::{Arena, BLOCK};
pub(crate) use entries::null_address;
pub(crate) use file::zero;
pub(crate) use graph::{graph_commit, graph_forget, graph_in_use, graph_release, graph_reserve};
use heap::Heap;
pub(crate) use ranges::Ranges;
use table::Table;
pub(crate) use table::{Allocation, Family};

/// What the driver rounds every linear allocation to.
pub(crate) const GRAIN: usize = 512;

/// Everything that this process has allocated.
pub(crate) struct Memory {
    pub(crate) arena: Arena,
    pub(crate) table: Table,
    /// Contexts that have ended.
    ended: HashSet<u64>,
    linear: Heap,
    modules: Heap,
    host: Heap,
}

impl Memory {
    fn heap(&mut self, family: Family) -> (&mut Heap, &mut Arena) {
        match family {
            Family::Global => (&mut self.modules, &mut self.arena),
            Family::ManagedHost => (&mut self.host, &mut self.arena),
            _ => (&mut self.linear, &mut self.arena),
        }
    }
}

static MEMORY: Mutex<Option<Memory>> = Mutex::new(None);

/// The memory of this process, locked.
pub(crate) struct Locked(MutexGuard<'static, Option<Memory>>);

impl std::ops::Deref for Locked {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        #[expect(clippy::expect_used, reason = "`lock` fills it")]
        self.0.as_ref().expect("filled when locked")
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Memory {
        #[expect(clippy::expect_used, reason = "`lock` fills it")]
        self.0.as_mut().expect("filled when locked")
    }
}

/// Locks the memory, after setting it up at first use.
pub(crate) fn lock() -> Result<Locked, CUresult> {
    let mut guard = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.is_none() {
        let arena = Arena::new().map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
        *guard = Some(Memory {
            arena,
            table: Table::default(),
            ended: HashSet::new(),
            linear: Heap::linear(),
            modules: Heap::modules(),
            host: Heap::host(),
        });
    }
    Ok(Locked(guard))
}

/// Where memory belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Id of the context with which it dies; 0 for memory that outlives contexts.
    pub(crate) context: u64,
    pub(crate) device: CUdevice,
    /// The device's index in the simulation.
    pub(crate) core: usize,
}

impl Owner {
    pub(crate) fn of(context: &Context) -> Self {
        Self {
            context: context.id,
            device: context.device,
            core: context.core_device,
        }
    }
}

/// Takes `held` bytes of a device, of which the application asked for `requested`.
pub(crate) fn charge(core: usize, held: usize, requested: usize) -> Result<(), CUresult> {
    vmm::collect();
    state::member()?
        .charge(core, held as u64, requested as u64)
        .map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

/// Gives back what [`charge`] took.
pub(crate) fn refund(core: usize, held: usize, requested: usize) {
    if let Ok(member) = state::member() {
        member.refund(core, held as u64, requested as u64);
    }
}

/// Gives back what [`charge`] took for the allocation at `base`, which other processes may have open.
fn refund_allocation(base: usize, core: usize, held: usize, requested: usize) {
    match (ipc::freed(base), state::member()) {
        (Some(key), Ok(member)) => member.refund_shared(key, core, held as u64, requested as u64),
        _ => refund(core, held, requested),
    }
}

/// Takes bytes of a device that the driver reserves ahead of requests, for a pool or a graph.
pub(crate) fn charge_reserve(core: usize, bytes: usize) -> Result<(), CUresult> {
    state::member()?
        .charge_reserve(core, bytes as u64)
        .map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

/// Gives back what [`charge_reserve`] took.
pub(crate) fn refund_reserve(core: usize, bytes: usize) {
    if let Ok(member) = state::member() {
        member.refund_reserve(core, bytes as u64);
    }
}

/// Rounds a size as the driver does; sizes that overflow are out of memory.
pub(crate) fn rounded(size: usize, grain: usize) -> Result<usize, CUresult> {
    size.checked_next_multiple_of(grain)
        .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

/// Allocates linear or managed memory of a context, or a variable of one of its modules.
pub(crate) fn allocate(owner: Owner, size: usize, family: Family) -> Result<usize, CUresult> {
    if size == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let rounded = rounded(size, GRAIN)?;
    let mut memory = lock()?;
    if memory.ended.contains(&owner.context) {
        // By another thread, since this one looked.
        return Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    let (heap, arena) = memory.heap(family);
    let base = heap.take(arena, owner, rounded)?;
    memory
        .table
        .insert(Allocation::new(base, size, rounded, family, owner));
    Ok(base)
}

/// Frees what [`allocate`] gave; `CUDA_ERROR_INVALID_VALUE` for anything else.
pub(crate) fn free(base: usize) -> Result<(), CUresult> {
    free_if(base, |family| {
        family == Family::Linear || family.is_managed()
    })
}

/// Frees a variable of a module that is unloaded.
pub(crate) fn free_global(base: usize) -> Result<(), CUresult> {
    free_if(base, |family| family == Family::Global)
}

/// Frees the memory of an array.
pub(crate) fn free_array(base: usize) -> Result<(), CUresult> {
    free_if(base, |family| family == Family::Array)
}

/// Takes linear or managed memory out of the program's sight; the answer gives it back.
pub(crate) fn detach(base: usize) -> Result<impl FnOnce() + Send, CUresult> {
    let mut memory = lock()?;
    let fits = |found: &&Allocation| found.family == Family::Linear || found.family.is_managed();
    let found = memory
        .table
        .get(base)
        .filter(fits)
        .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let (owner, family, rounded) = (found.owner, found.family, found.rounded);
    memory.table.remove(base);
    Ok(move || {
        if let Ok(mut memory) = lock() {
            let (heap, arena) = memory.heap(family);
            heap.put(arena, owner, base, rounded);
        }
    })
}

fn free_if(base: usize, fits: impl FnOnce(Family) -> bool) -> Result<(), CUresult> {
    let mut memory = lock()?;
    let found = memory.table.get(base).filter(|found| fits(found.family));
    let found = found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let (owner, family, rounded) = (found.owner, found.family, found.rounded);
    memory.table.remove(base);
    let (heap, arena) = memory.heap(family);
    heap.put(arena, owner, base, rounded);
    Ok(())
}

/// The allocation (or mapping) in which an address lies.
pub(crate) fn find(address: u64) -> Option<Allocation> {
    let address = usize::try_from(address).ok()?;
    lock().ok()?.table.find(address).cloned()
}

/// A context begins, which a primary one does more than once.
pub(crate) fn on_context_begin(context: u64) {
    if let Ok(mut memory) = lock() {
        memory.ended.remove(&context);
    }
}

/// Frees the linear and managed memory of a context that ends. Nothing runs on it any more.
pub(crate) fn on_context_destroy(context: u64) {
    array::on_context_destroy(context);
    external::on_context_destroy(context);
    ipc::on_context_destroy(context);
    let Ok(mut memory) = lock() else { return };
    memory.ended.insert(context);
    for gone in memory.table.take_of(context) {
        let (heap, arena) = memory.heap(gone.family);
        heap.put(arena, gone.owner, gone.base, gone.rounded);
    }
    drop(memory);
    pool::on_context_destroy();
}
