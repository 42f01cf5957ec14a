//! Copies, of whatever shape.

use std::sync::Arc;

use cuda_headers::driver::CUresult;

use super::{GpuWork, costs, enqueue_gpu_work};
use crate::engine::{self, CopyEngine, StreamKey, Work};

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Device,
    /// The device reads and writes it by itself.
    PinnedHost,
    /// The driver has to stage it.
    PageableHost,
}

/// One end of a copy: rows of `pitch` bytes, planes of `rows` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) address: usize,
    pub(crate) pitch: usize,
    pub(crate) rows: usize,
    pub(crate) side: Side,
    /// The device whose memory it is, as the simulation counts.
    pub(crate) device: Option<usize>,
    /// The array that it belongs to, or 0.
    pub(crate) array: usize,
}

/// A copy of `depth` planes of `height` rows of `width` bytes.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) to: Region,
    pub(crate) from: Region,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    /// The bytes, row by row, where they had to be taken when the copy was asked for.
    staged: Option<Arc<Vec<u8>>>,
}

impl Region {
    pub(crate) fn new(address: usize, side: Side) -> Self {
        Self {
            address,
            pitch: 0,
            rows: 0,
            side,
            device: None,
            array: 0,
        }
    }
}

impl Transfer {
    /// A copy of `bytes` bytes in a row.
    pub(crate) fn linear(to: Region, from: Region, bytes: usize) -> Self {
        Self::new(to, from, [bytes, 1, 1])
    }

    pub(crate) fn new(to: Region, from: Region, extent: [usize; 3]) -> Self {
        let [width, height, depth] = extent;
        Self {
            to,
            from,
            width,
            height,
            depth,
            staged: None,
        }
    }

    /// A copy of nothing.
    pub(crate) fn empty() -> Self {
        let nowhere = Region::new(0, Side::PageableHost);
        Self::new(nowhere, nowhere, [0; 3])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Whether the memory of one device is all that it needs.
    pub(crate) fn within_device(&self) -> bool {
        let (from, to) = (&self.from, &self.to);
        (from.side, to.side) == (Side::Device, Side::Device) && from.device == to.device
    }

    fn bytes(&self) -> usize {
        self.width * self.height * self.depth
    }

    /// Takes the source's bytes now, so that the caller may change them: what drivers do with
    /// memory that the device cannot read by itself.
    pub(crate) fn stage(&mut self) {
        let mut staged = vec![0; self.bytes()];
        let mut rows = staged.chunks_exact_mut(self.width.max(1));
        self.for_each_row(|_, from| {
            if let Some(row) = rows.next() {
                // SAFETY: the caller of the driver API vouches for the source.
                unsafe {
                    std::ptr::copy_nonoverlapping(from as *const u8, row.as_mut_ptr(), self.width);
                }
            }
        });
        self.staged = Some(Arc::new(staged));
    }

    /// Calls with the addresses of each row, target first.
    fn for_each_row(&self, mut row: impl FnMut(usize, usize)) {
        for plane in 0..self.depth {
            for line in 0..self.height {
                let at =
                    |region: &Region| region.address + (plane * region.rows + line) * region.pitch;
                row(at(&self.to), at(&self.from));
            }
        }
    }

    fn run(&self) {
        match &self.staged {
            Some(staged) => {
                let mut rows = staged.chunks_exact(self.width.max(1));
                self.for_each_row(|to, _| {
                    if let Some(row) = rows.next() {
                        // SAFETY: the target was checked when the copy was made, and the
                        // application keeps it valid until the copy is done.
                        unsafe { std::ptr::copy(row.as_ptr(), to as *mut u8, row.len()) };
                    }
                });
            }
            None => self.for_each_row(|to, from| {
                // SAFETY: as above, for both ends.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, self.width) };
            }),
        }
    }

    /// Copies within device memory use the device, not the bus.
    pub(super) fn gpu_work(&self) -> Option<GpuWork> {
        if !self.within_device() {
            return None;
        }
        let transfer = self.clone();
        Some(GpuWork {
            duration: costs().memory(2 * self.bytes() as u64),
            effect: Some(Box::new(move || transfer.run())),
        })
    }

    pub(super) fn enqueue(&self, key: StreamKey) -> Result<(), CUresult> {
        if let Some(work) = self.gpu_work() {
            return enqueue_gpu_work(key, work);
        }
        let transfer = self.clone();
        let effect = Box::new(move || transfer.run());
        let engine = match (self.from.side, self.to.side) {
            (_, Side::Device) => CopyEngine::ToDevice,
            (Side::Device, _) => CopyEngine::ToHost,
            // Between host buffers no engine is needed.
            _ => return engine::enqueue(key, Work::Action(effect)),
        };
        let duration = costs().bus(self.bytes() as u64);
        let copy = Work::Copy {
            engine,
            duration,
            effect,
        };
        engine::enqueue(key, copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(memory: &mut [u8], pitch: usize, rows: usize) -> Region {
        Region {
            pitch,
            rows,
            ..Region::new(memory.as_mut_ptr() as usize, Side::PageableHost)
        }
    }

    #[test]
    fn boxes_are_cut_out_and_put_in() {
        let mut from: Vec<u8> = (0..24).collect();
        let mut to = [0; 16];
        let mut transfer = Transfer::new(region(&mut to, 4, 2), region(&mut from, 4, 3), [2, 2, 2]);
        transfer.run();
        let expected = [0, 1, 0, 0, 4, 5, 0, 0, 12, 13, 0, 0, 16, 17, 0, 0];
        assert_eq!(to, expected);

        transfer.stage();
        from.fill(0xff);
        to.fill(0);
        transfer.run();
        assert_eq!(to, expected);
    }
}
