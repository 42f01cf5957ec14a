//! Copies: within the device charged like launches; others only end measured spans.

use core::ffi::{c_uint, c_void};

use cuda_headers::driver::{CUdeviceptr, CUdeviceptr_v1, CUresult, CUstream};
use cuda_headers::fns;

use crate::guard::Aside;
use crate::hook::hooks;
use crate::time::{self, NULL_STREAM};

hooks! { DRIVER as fns, if time::limited();
    /// Charged by its bytes.
    fn cuMemcpyDtoD(
        dstDevice: CUdeviceptr_v1,
        srcDevice: CUdeviceptr_v1,
        ByteCount: c_uint,
    ) -> CUresult = |call| copy(ByteCount, (NULL_STREAM, false), &call);

    /// As `cuMemcpyDtoD`.
    fn cuMemcpyDtoD_v2(
        dstDevice: CUdeviceptr,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
    ) -> CUresult = |call| copy(ByteCount, (NULL_STREAM, false), &call);

    /// As `cuMemcpyDtoD`.
    fn cuMemcpyDtoD_v2_ptds(
        dstDevice: CUdeviceptr,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
    ) -> CUresult = |call| copy(ByteCount, (NULL_STREAM, true), &call);

    /// As `cuMemcpyDtoD`.
    fn cuMemcpyDtoDAsync(
        dstDevice: CUdeviceptr_v1,
        srcDevice: CUdeviceptr_v1,
        ByteCount: c_uint,
        hStream: CUstream,
    ) -> CUresult = |call| copy(ByteCount, (hStream, false), &call);

    /// As `cuMemcpyDtoD`.
    fn cuMemcpyDtoDAsync_v2(
        dstDevice: CUdeviceptr,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| copy(ByteCount, (hStream, false), &call);

    /// As `cuMemcpyDtoD`.
    fn cuMemcpyDtoDAsync_v2_ptsz(
        dstDevice: CUdeviceptr,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| copy(ByteCount, (hStream, true), &call);

    /// The copy engines work beside the kernels: not charged, and what is open on the stream ends before.
    fn cuMemcpyHtoDAsync(
        dstDevice: CUdeviceptr_v1,
        srcHost: *const c_void,
        ByteCount: c_uint,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpyHtoDAsync`.
    fn cuMemcpyHtoDAsync_v2(
        dstDevice: CUdeviceptr,
        srcHost: *const c_void,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpyHtoDAsync`.
    fn cuMemcpyHtoDAsync_v2_ptsz(
        dstDevice: CUdeviceptr,
        srcHost: *const c_void,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// As `cuMemcpyHtoDAsync`.
    fn cuMemcpyDtoHAsync(
        dstHost: *mut c_void,
        srcDevice: CUdeviceptr_v1,
        ByteCount: c_uint,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpyHtoDAsync`.
    fn cuMemcpyDtoHAsync_v2(
        dstHost: *mut c_void,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpyHtoDAsync`.
    fn cuMemcpyDtoHAsync_v2_ptsz(
        dstHost: *mut c_void,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// As `cuMemcpyHtoDAsync`.
    fn cuMemcpyAsync(
        dst: CUdeviceptr,
        src: CUdeviceptr,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpyHtoDAsync`.
    fn cuMemcpyAsync_ptsz(
        dst: CUdeviceptr,
        src: CUdeviceptr,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// Waits for the work before it, which is settled after.
    fn cuMemcpyDtoH(
        dstHost: *mut c_void,
        srcDevice: CUdeviceptr_v1,
        ByteCount: c_uint,
    ) -> CUresult = |call| waits(false, &call);

    /// As `cuMemcpyDtoH`.
    fn cuMemcpyDtoH_v2(dstHost: *mut c_void, srcDevice: CUdeviceptr, ByteCount: usize) -> CUresult =
        |call| waits(false, &call);

    /// As `cuMemcpyDtoH`.
    fn cuMemcpyDtoH_v2_ptds(
        dstHost: *mut c_void,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
    ) -> CUresult = |call| waits(true, &call);

    /// As `cuMemcpyDtoH`.
    fn cuMemcpyHtoD(
        dstDevice: CUdeviceptr_v1,
        srcHost: *const c_void,
        ByteCount: c_uint,
    ) -> CUresult = |call| waits(false, &call);

    /// As `cuMemcpyDtoH`.
    fn cuMemcpyHtoD_v2(
        dstDevice: CUdeviceptr,
        srcHost: *const c_void,
        ByteCount: usize,
    ) -> CUresult = |call| waits(false, &call);

    /// As `cuMemcpyDtoH`.
    fn cuMemcpyHtoD_v2_ptds(
        dstDevice: CUdeviceptr,
        srcHost: *const c_void,
        ByteCount: usize,
    ) -> CUresult = |call| waits(true, &call);

    /// As `cuMemcpyDtoH`.
    fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize) -> CUresult =
        |call| waits(false, &call);

    /// As `cuMemcpyDtoH`.
    fn cuMemcpy_ptds(dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize) -> CUresult =
        |call| waits(true, &call);
}

fn copy(
    bytes: impl TryInto<u64>,
    (stream, per_thread): (CUstream, bool),
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    // Read once and written once.
    let traffic = bytes.try_into().unwrap_or(u64::MAX).saturating_mul(2);
    time::transfer(traffic, time::stream(stream, per_thread), call)
}

/// The host waits for the default stream.
fn waits(per_thread: bool, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    time::interrupting(time::stream(NULL_STREAM, per_thread), call)
}
