//! Fills of device memory: charged like launches.

use core::ffi::{c_uchar, c_uint, c_ushort};

use cuda_headers::driver::{CUdeviceptr, CUdeviceptr_v1, CUresult, CUstream};
use cuda_headers::fns;

use crate::guard::Aside;
use crate::hook::hooks;
use crate::time::{self, NULL_STREAM};

hooks! { DRIVER as fns, if time::limited();
    /// Charged by its bytes.
    fn cuMemsetD8(dstDevice: CUdeviceptr_v1, uc: c_uchar, N: c_uint) -> CUresult =
        |call| fill(rows(N, 1_u64, 1), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD8_v2(dstDevice: CUdeviceptr, uc: c_uchar, N: usize) -> CUresult =
        |call| fill(rows(N, 1_u64, 1), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD8_v2_ptds(dstDevice: CUdeviceptr, uc: c_uchar, N: usize) -> CUresult =
        |call| fill(rows(N, 1_u64, 1), (NULL_STREAM, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD8Async(
        dstDevice: CUdeviceptr,
        uc: c_uchar,
        N: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(N, 1_u64, 1), (hStream, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD8Async_ptsz(
        dstDevice: CUdeviceptr,
        uc: c_uchar,
        N: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(N, 1_u64, 1), (hStream, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD16(dstDevice: CUdeviceptr_v1, us: c_ushort, N: c_uint) -> CUresult =
        |call| fill(rows(N, 1_u64, 2), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD16_v2(dstDevice: CUdeviceptr, us: c_ushort, N: usize) -> CUresult =
        |call| fill(rows(N, 1_u64, 2), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD16_v2_ptds(dstDevice: CUdeviceptr, us: c_ushort, N: usize) -> CUresult =
        |call| fill(rows(N, 1_u64, 2), (NULL_STREAM, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD16Async(
        dstDevice: CUdeviceptr,
        us: c_ushort,
        N: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(N, 1_u64, 2), (hStream, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD16Async_ptsz(
        dstDevice: CUdeviceptr,
        us: c_ushort,
        N: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(N, 1_u64, 2), (hStream, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD32(dstDevice: CUdeviceptr_v1, ui: c_uint, N: c_uint) -> CUresult =
        |call| fill(rows(N, 1_u64, 4), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD32_v2(dstDevice: CUdeviceptr, ui: c_uint, N: usize) -> CUresult =
        |call| fill(rows(N, 1_u64, 4), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD32_v2_ptds(dstDevice: CUdeviceptr, ui: c_uint, N: usize) -> CUresult =
        |call| fill(rows(N, 1_u64, 4), (NULL_STREAM, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD32Async(
        dstDevice: CUdeviceptr,
        ui: c_uint,
        N: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(N, 1_u64, 4), (hStream, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD32Async_ptsz(
        dstDevice: CUdeviceptr,
        ui: c_uint,
        N: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(N, 1_u64, 4), (hStream, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D8(
        dstDevice: CUdeviceptr_v1,
        dstPitch: c_uint,
        uc: c_uchar,
        Width: c_uint,
        Height: c_uint,
    ) -> CUresult = |call| fill(rows(Width, Height, 1), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D8_v2(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        uc: c_uchar,
        Width: usize,
        Height: usize,
    ) -> CUresult = |call| fill(rows(Width, Height, 1), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D8_v2_ptds(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        uc: c_uchar,
        Width: usize,
        Height: usize,
    ) -> CUresult = |call| fill(rows(Width, Height, 1), (NULL_STREAM, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D8Async(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        uc: c_uchar,
        Width: usize,
        Height: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(Width, Height, 1), (hStream, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D8Async_ptsz(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        uc: c_uchar,
        Width: usize,
        Height: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(Width, Height, 1), (hStream, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D16(
        dstDevice: CUdeviceptr_v1,
        dstPitch: c_uint,
        us: c_ushort,
        Width: c_uint,
        Height: c_uint,
    ) -> CUresult = |call| fill(rows(Width, Height, 2), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D16_v2(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        us: c_ushort,
        Width: usize,
        Height: usize,
    ) -> CUresult = |call| fill(rows(Width, Height, 2), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D16_v2_ptds(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        us: c_ushort,
        Width: usize,
        Height: usize,
    ) -> CUresult = |call| fill(rows(Width, Height, 2), (NULL_STREAM, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D16Async(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        us: c_ushort,
        Width: usize,
        Height: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(Width, Height, 2), (hStream, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D16Async_ptsz(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        us: c_ushort,
        Width: usize,
        Height: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(Width, Height, 2), (hStream, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D32(
        dstDevice: CUdeviceptr_v1,
        dstPitch: c_uint,
        ui: c_uint,
        Width: c_uint,
        Height: c_uint,
    ) -> CUresult = |call| fill(rows(Width, Height, 4), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D32_v2(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        ui: c_uint,
        Width: usize,
        Height: usize,
    ) -> CUresult = |call| fill(rows(Width, Height, 4), (NULL_STREAM, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D32_v2_ptds(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        ui: c_uint,
        Width: usize,
        Height: usize,
    ) -> CUresult = |call| fill(rows(Width, Height, 4), (NULL_STREAM, true), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D32Async(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        ui: c_uint,
        Width: usize,
        Height: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(Width, Height, 4), (hStream, false), &call);

    /// As `cuMemsetD8`.
    fn cuMemsetD2D32Async_ptsz(
        dstDevice: CUdeviceptr,
        dstPitch: usize,
        ui: c_uint,
        Width: usize,
        Height: usize,
        hStream: CUstream,
    ) -> CUresult = |call| fill(rows(Width, Height, 4), (hStream, true), &call);
}

fn fill(
    bytes: u64,
    (stream, per_thread): (CUstream, bool),
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    time::transfer(bytes, time::stream(stream, per_thread), call)
}

/// Bytes of so many rows of so many elements.
fn rows(width: impl TryInto<u64>, height: impl TryInto<u64>, element: u64) -> u64 {
    let width = width.try_into().unwrap_or(u64::MAX);
    let height = height.try_into().unwrap_or(u64::MAX);
    width.saturating_mul(height).saturating_mul(element)
}
