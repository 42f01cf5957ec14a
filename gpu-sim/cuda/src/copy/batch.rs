//! Many copies in one call.

use cuda_headers::driver::{CUdeviceptr, CUmemcpyAttributes, CUresult, CUstream};

use super::linear::any_to_any;
use super::{INVALID, When};
use crate::entry::{entry, input, out_optional};

/// The arrays of a batch.
struct Batch {
    to: *const CUdeviceptr,
    from: *const CUdeviceptr,
    sizes: *const usize,
    count: usize,
}

impl Batch {
    /// Carries the copies out in order; an error names the copy that it came from.
    ///
    /// # Safety
    /// Each array is NULL or valid for `count` reads.
    unsafe fn run(&self, stream: CUstream, per_thread: bool) -> Result<(), (usize, CUresult)> {
        let any = usize::MAX;
        if self.to.is_null() || self.from.is_null() || self.sizes.is_null() || self.count == 0 {
            return Err((any, INVALID));
        }
        // The default streams have no place for a batch.
        if stream.0 as usize <= 1 {
            return Err((any, INVALID));
        }
        for index in 0..self.count {
            // SAFETY: by the caller's promise.
            let (to, from, bytes) = unsafe {
                (
                    self.to.add(index).read(),
                    self.from.add(index).read(),
                    self.sizes.add(index).read(),
                )
            };
            let when = When::In { stream, per_thread };
            any_to_any(to, from, bytes, when).map_err(|error| (index, error))?;
        }
        Ok(())
    }
}

entry! {
    fn cuMemcpyBatchAsync(
        dsts: *mut CUdeviceptr,
        srcs: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        attrs: *mut CUmemcpyAttributes,
        attrsIdxs: *mut usize,
        numAttrs: usize,
        failIdx: *mut usize,
        hStream: CUstream,
    ) => cuMemcpyBatchAsync_ptsz {
        let _ = (attrs, attrsIdxs, numAttrs);
        let batch = Batch { to: dsts, from: srcs, sizes, count };
        batch.run(hStream, PER_THREAD).map_err(|(index, error)| {
            out_optional(failIdx, index);
            error
        })
    }

    fn cuMemcpyBatchAsync_v2(
        dsts: *mut CUdeviceptr,
        srcs: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        attrs: *mut CUmemcpyAttributes,
        attrsIdxs: *mut usize,
        numAttrs: usize,
        hStream: CUstream,
    ) => cuMemcpyBatchAsync_v2_ptsz {
        let _ = (attrs, attrsIdxs, numAttrs);
        let batch = Batch { to: dsts, from: srcs, sizes, count };
        batch.run(hStream, PER_THREAD).map_err(|(_, error)| error)
    }

    fn cuMemcpyWithAttributesAsync(
        dst: CUdeviceptr,
        src: CUdeviceptr,
        size: usize,
        attr: *mut CUmemcpyAttributes,
        hStream: CUstream,
    ) => cuMemcpyWithAttributesAsync_ptsz {
        input(attr.cast_const())?;
        any_to_any(dst, src, size, When::In { stream: hStream, per_thread: PER_THREAD })
    }
}
