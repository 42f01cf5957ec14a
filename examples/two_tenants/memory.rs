//! The tenant's memory: what it holds, and how it tries to take more than it may.

use crate::driver::{Address, AllocationProp, Code, OUT_OF_MEMORY, check};
use crate::gpu::Gpu;

/// Allocations are made in blocks of this size.
pub(crate) const BLOCK: usize = 64 << 20;

/// What a tenant holds and what it was refused.
#[derive(Default)]
pub(crate) struct Memory {
    blocks: Vec<Address>,
    /// Allocations that were answered out of memory.
    pub(crate) refused: u64,
    /// Allocations over the quota that were not refused: there must be none.
    pub(crate) leaked: u64,
}

/// One way to allocate, and how it answered.
pub(crate) struct Attempt {
    pub(crate) call: &'static str,
    pub(crate) bytes: usize,
    pub(crate) code: Code,
}

impl Memory {
    /// Bytes held.
    pub(crate) fn held(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// Takes or gives back blocks until `bytes` are held, or no more are given.
    pub(crate) fn hold(&mut self, gpu: &Gpu, bytes: usize) -> Result<(), String> {
        while self.held() > bytes {
            let Some(block) = self.blocks.pop() else {
                break;
            };
            // SAFETY: the block is ours and no launched work uses it.
            check("cuMemFree", unsafe { (gpu.driver.cuMemFree)(block) })?;
        }
        while self.held() + BLOCK <= bytes {
            match self.take(gpu)? {
                0 => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Asks for one block more; answers the driver's code where that is success or out of memory.
    fn take(&mut self, gpu: &Gpu) -> Result<Code, String> {
        let mut block = 0;
        // SAFETY: the out-pointer is valid.
        let code = unsafe { (gpu.driver.cuMemAlloc)(&raw mut block, BLOCK) };
        match code {
            0 => self.blocks.push(block),
            OUT_OF_MEMORY => self.refused += 1,
            other => check("cuMemAlloc", other)?,
        }
        Ok(code)
    }

    /// Takes blocks until no more is given: the attempt that found the end.
    pub(crate) fn fill(&mut self, gpu: &Gpu) -> Result<Attempt, String> {
        loop {
            let code = self.take(gpu)?;
            if code != 0 {
                return Ok(Attempt {
                    call: "cuMemAlloc",
                    bytes: BLOCK,
                    code,
                });
            }
        }
    }

    /// With the quota full, tries every other way to get more. What is given all the same is
    /// given back and counted.
    pub(crate) fn overrun(&mut self, gpu: &Gpu, limit: usize) -> Result<Vec<Attempt>, String> {
        let attempts = vec![
            linear(gpu, "cuMemAlloc", limit + 1)?,
            managed(gpu, BLOCK)?,
            stream_ordered(gpu, BLOCK)?,
            physical(gpu, BLOCK)?,
        ];
        for attempt in &attempts {
            match attempt.code {
                0 => self.leaked += 1,
                OUT_OF_MEMORY => self.refused += 1,
                _ => {}
            }
        }
        Ok(attempts)
    }
}

fn linear(gpu: &Gpu, call: &'static str, bytes: usize) -> Result<Attempt, String> {
    let mut address = 0;
    // SAFETY: the out-pointer is valid; only what was given is freed.
    unsafe {
        let code = (gpu.driver.cuMemAlloc)(&raw mut address, bytes);
        if code == 0 {
            check("cuMemFree", (gpu.driver.cuMemFree)(address))?;
        }
        Ok(Attempt { call, bytes, code })
    }
}

fn managed(gpu: &Gpu, bytes: usize) -> Result<Attempt, String> {
    let mut address = 0;
    // SAFETY: as in `linear`; 1 attaches the memory to every stream.
    unsafe {
        let code = (gpu.driver.cuMemAllocManaged)(&raw mut address, bytes, 1);
        if code == 0 {
            check("cuMemFree", (gpu.driver.cuMemFree)(address))?;
        }
        Ok(Attempt {
            call: "cuMemAllocManaged",
            bytes,
            code,
        })
    }
}

fn stream_ordered(gpu: &Gpu, bytes: usize) -> Result<Attempt, String> {
    let mut address = 0;
    // SAFETY: as in `linear`, in the order of the tenant's stream.
    unsafe {
        let code = (gpu.driver.cuMemAllocAsync)(&raw mut address, bytes, gpu.stream);
        if code == 0 {
            let code = (gpu.driver.cuMemFreeAsync)(address, gpu.stream);
            check("cuMemFreeAsync", code)?;
        }
        Ok(Attempt {
            call: "cuMemAllocAsync",
            bytes,
            code,
        })
    }
}

fn physical(gpu: &Gpu, bytes: usize) -> Result<Attempt, String> {
    let prop = AllocationProp::on(gpu.device);
    let mut handle = 0;
    // SAFETY: as in `linear`; the properties outlive the call.
    unsafe {
        let code = (gpu.driver.cuMemCreate)(&raw mut handle, bytes, &raw const prop, 0);
        if code == 0 {
            check("cuMemRelease", (gpu.driver.cuMemRelease)(handle))?;
        }
        Ok(Attempt {
            call: "cuMemCreate",
            bytes,
            code,
        })
    }
}
