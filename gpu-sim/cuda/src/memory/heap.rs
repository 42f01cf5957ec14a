//! Linear memory as the driver deals it out: small allocations share blocks of 2 MiB, larger ones
//! have blocks of their own. Blocks belong to a context.

use std::collections::{BTreeMap, HashMap};

use cuda_headers::driver::CUresult;

use crate::memory::{Arena, BLOCK, Owner, Ranges, charge, refund, refund_allocation, rounded};

/// Up to this size allocations share a block.
const SMALL: usize = 1 << 20;
/// Of the shared blocks of a context, so many are searched for room, newest first.
const SEARCHED: usize = 16;

#[derive(Debug)]
struct Shared {
    free: Ranges,
    live: usize,
}

/// What a heap's memory counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// What the application allocates: blocks are held, and what it asked for is counted.
    Linear,
    /// Variables of modules: small ones lie in what the context holds anyway, and none was asked
    /// for by an allocation call.
    Modules,
    /// Managed memory that stays with the host.
    Host,
}

/// Blocks in use.
#[derive(Debug)]
pub(crate) struct Heap {
    purpose: Purpose,
    shared: BTreeMap<usize, Shared>,
    /// Starts of shared blocks by (context, device of the simulation).
    by_owner: HashMap<(u64, usize), Vec<usize>>,
}

impl Heap {
    fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            shared: BTreeMap::new(),
            by_owner: HashMap::new(),
        }
    }

    pub(crate) fn linear() -> Self {
        Self::new(Purpose::Linear)
    }

    pub(crate) fn modules() -> Self {
        Self::new(Purpose::Modules)
    }

    pub(crate) fn host() -> Self {
        Self::new(Purpose::Host)
    }

    /// (held, requested) as this heap charges them.
    fn amounts(&self, held: usize, len: usize) -> (usize, usize) {
        match self.purpose {
            Purpose::Linear => (held, len),
            Purpose::Modules if len > SMALL => (held, 0),
            Purpose::Modules | Purpose::Host => (0, 0),
        }
    }

    /// `len` bytes (a multiple of the grain), charged and with memory behind them.
    pub(crate) fn take(
        &mut self,
        arena: &mut Arena,
        owner: Owner,
        len: usize,
    ) -> Result<usize, CUresult> {
        if len > SMALL {
            let size = rounded(len, BLOCK)?;
            return blocks(arena, owner, size, self.amounts(size, len));
        }
        if let Some(start) = self.take_shared(owner, len) {
            let (held, requested) = self.amounts(0, len);
            let charged = charge(owner.core, held, requested);
            if charged.is_err() {
                self.put_shared(start, len);
            }
            return charged.map(|()| start);
        }
        let start = blocks(arena, owner, BLOCK, self.amounts(BLOCK, len))?;
        let mut free = Ranges::new(start, BLOCK);
        free.take(len, 1);
        self.shared.insert(start, Shared { free, live: 1 });
        self.by_owner
            .entry((owner.context, owner.core))
            .or_default()
            .push(start);
        Ok(start)
    }

    /// Returns what [`Heap::take`] gave.
    pub(crate) fn put(&mut self, arena: &mut Arena, owner: Owner, start: usize, len: usize) {
        if len > SMALL {
            let size = len.next_multiple_of(BLOCK);
            release(arena, start, size);
            let (held, requested) = self.amounts(size, len);
            return refund_allocation(start, owner.core, held, requested);
        }
        let Some(block) = self.put_shared(start, len) else {
            let (held, requested) = self.amounts(0, len);
            return refund_allocation(start, owner.core, held, requested);
        };
        self.shared.remove(&block);
        if let Some(blocks) = self.by_owner.get_mut(&(owner.context, owner.core)) {
            blocks.retain(|start| *start != block);
        }
        release(arena, block, BLOCK);
        let (held, requested) = self.amounts(BLOCK, len);
        refund_allocation(start, owner.core, held, requested);
    }

    fn take_shared(&mut self, owner: Owner, len: usize) -> Option<usize> {
        let blocks = self.by_owner.get(&(owner.context, owner.core))?;
        blocks.iter().rev().take(SEARCHED).find_map(|start| {
            let block = self.shared.get_mut(start)?;
            let at = block.free.take(len, 1)?;
            block.live += 1;
            Some(at)
        })
    }

    /// Start of the block, if nothing is left in it.
    fn put_shared(&mut self, start: usize, len: usize) -> Option<usize> {
        let (at, block) = self.shared.range_mut(..=start).next_back()?;
        block.free.put(start, len);
        block.live -= 1;
        (block.live == 0).then_some(*at)
    }
}

/// `size` bytes of whole blocks with memory behind them, charged as (held, requested).
fn blocks(
    arena: &mut Arena,
    owner: Owner,
    size: usize,
    (held, requested): (usize, usize),
) -> Result<usize, CUresult> {
    charge(owner.core, held, requested)?;
    let start = arena.reserve(size, BLOCK);
    let committed = start.filter(|start| match arena.commit(*start, size) {
        Ok(()) => true,
        Err(_) => {
            arena.unreserve(*start, size);
            false
        }
    });
    committed.ok_or_else(|| {
        refund(owner.core, held, requested);
        CUresult::CUDA_ERROR_OUT_OF_MEMORY
    })
}

/// Gives whole blocks back.
fn release(arena: &mut Arena, start: usize, size: usize) {
    arena.decommit(start, size);
    arena.unreserve(start, size);
}
