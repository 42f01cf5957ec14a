//! Setting memory: `cuMemset*`.

use cuda_headers::driver::CUresult;

use super::{GpuWork, costs, enqueue_gpu_work};
use crate::engine::StreamKey;

/// `height` rows of `width` elements, `pitch` bytes apart, are set to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) address: usize,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    /// 1, 2 or 4.
    pub(crate) element: usize,
    /// In elements.
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Fill {
    pub(super) fn gpu_work(&self) -> GpuWork {
        let fill = *self;
        GpuWork {
            duration: costs().memory((self.element * self.width * self.height) as u64),
            effect: Some(Box::new(move || fill.run())),
        }
    }

    pub(super) fn enqueue(&self, key: StreamKey) -> Result<(), CUresult> {
        enqueue_gpu_work(key, self.gpu_work())
    }

    fn run(&self) {
        for row in 0..self.height {
            let start = self.address + row * self.pitch;
            // SAFETY: the range was checked to be accessible memory when the fill was made, and the
            // application keeps it so until it is done, as it must with the driver.
            unsafe { fill_row(start, self.element, self.width, self.value) };
        }
    }
}

/// # Safety
/// `start` is valid for writes of `count` elements.
unsafe fn fill_row(start: usize, element: usize, count: usize, value: u32) {
    let bytes = value.to_ne_bytes();
    let uniform = bytes[..element].iter().all(|byte| *byte == bytes[0]);
    // SAFETY: by the caller's promise; unaligned writes are used throughout.
    unsafe {
        if value == 0 {
            crate::memory::zero(start, count * element);
            return;
        }
        if uniform {
            std::ptr::write_bytes(start as *mut u8, bytes[0], count * element);
            return;
        }
        for index in 0..count {
            let target = (start + index * element) as *mut u8;
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, element);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_what_lies_between_them() {
        let mut memory = [0_u8; 16];
        let fill = Fill {
            address: memory.as_mut_ptr() as usize,
            pitch: 8,
            value: 0x0201,
            element: 2,
            width: 3,
            height: 2,
        };
        fill.run();
        let row = [1, 2, 1, 2, 1, 2, 0, 0];
        assert_eq!(memory[..8], row);
        assert_eq!(memory[8..], row);
    }
}
