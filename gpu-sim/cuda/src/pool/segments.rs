//! The memory that a pool holds reserved.

use std::collections::BTreeMap;

use cuda_headers::driver::CUresult;

use crate::memory::{self, BLOCK, Ranges, charge_reserve, refund_reserve};

/// What pools grow by, while the device has that much.
const STEP: usize = 32 << 20;

pub(crate) struct Segments {
    /// `None`: the host's memory, which nobody counts.
    core: Option<usize>,
    /// Most bytes to reserve; 0: what the device has.
    pub(crate) max: usize,
    segments: BTreeMap<usize, usize>,
    free: Ranges,
    pub(crate) reserved: u64,
    pub(crate) reserved_high: u64,
}

impl Segments {
    pub(crate) fn new(core: Option<usize>, max: usize) -> Self {
        Self {
            core,
            max,
            segments: BTreeMap::new(),
            free: Ranges::default(),
            reserved: 0,
            reserved_high: 0,
        }
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<usize> {
        self.free.take(len, 1)
    }

    pub(crate) fn put(&mut self, start: usize, len: usize) {
        self.free.put(start, len);
    }

    /// Reserves a segment with room for `len` bytes: whole steps, else just what is needed.
    pub(crate) fn grow(&mut self, len: usize) -> Result<(), CUresult> {
        let wide = memory::rounded(len, STEP)?;
        let narrow = memory::rounded(len, BLOCK)?;
        let allowed = |len: usize| self.max == 0 || self.reserved + len as u64 <= self.max as u64;
        let size = [wide, narrow].into_iter().filter(|size| allowed(*size));
        for size in size {
            if self
                .core
                .is_some_and(|core| charge_reserve(core, size).is_err())
            {
                continue;
            }
            let mut memory = memory::lock()?;
            let start = memory.arena.reserve(size, BLOCK);
            if let Some(start) = start
                && memory.arena.commit(start, size).is_ok()
            {
                self.segments.insert(start, size);
                self.free.put(start, size);
                self.reserved += size as u64;
                self.reserved_high = self.reserved_high.max(self.reserved);
                return Ok(());
            }
            if let Some(start) = start {
                memory.arena.unreserve(start, size);
            }
            self.refund(size);
        }
        Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
    }

    /// Gives back segments in which nothing is in use, until no more than `keep` bytes remain.
    pub(crate) fn release_down_to(&mut self, keep: u64) {
        let segments: Vec<(usize, usize)> = self
            .segments
            .iter()
            .map(|(start, len)| (*start, *len))
            .collect();
        for (start, len) in segments {
            if self.reserved <= keep {
                break;
            }
            if self.free.take_at(start, len) {
                self.release(start, len);
            }
        }
    }

    /// Gives everything back, in use or not.
    pub(crate) fn release_all(&mut self) {
        while let Some((start, len)) = self.segments.first_key_value().map(|(s, l)| (*s, *l)) {
            self.release(start, len);
        }
        self.free = Ranges::default();
    }

    fn release(&mut self, start: usize, len: usize) {
        self.segments.remove(&start);
        self.reserved -= len as u64;
        if let Ok(mut memory) = memory::lock() {
            memory.arena.decommit(start, len);
            memory.arena.unreserve(start, len);
        }
        self.refund(len);
    }

    fn refund(&self, len: usize) {
        if let Some(core) = self.core {
            refund_reserve(core, len);
        }
    }
}
