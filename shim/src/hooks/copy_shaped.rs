//! Copies of two and three dimensions, of arrays, and between devices.

use core::ffi::c_uint;

use cuda_headers::driver::{
    CUDA_MEMCPY2D, CUDA_MEMCPY2D_v1, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUDA_MEMCPY3D_v1, CUarray,
    CUcontext, CUdeviceptr, CUdeviceptr_v1, CUresult, CUstream,
};
use cuda_headers::fns;

use crate::guard::Aside;
use crate::hook::hooks;
use crate::time::{self, Block, NULL_STREAM, traffic};

hooks! { DRIVER as fns, if time::limited();
    /// Charged by its bytes where both ends are on the device.
    fn cuMemcpy2D(pCopy: *const CUDA_MEMCPY2D_v1) -> CUresult =
        |call| block(pCopy, None, false, &call);

    /// As `cuMemcpy2D`.
    fn cuMemcpy2D_v2(pCopy: *const CUDA_MEMCPY2D) -> CUresult =
        |call| block(pCopy, None, false, &call);

    /// As `cuMemcpy2D`.
    fn cuMemcpy2D_v2_ptds(pCopy: *const CUDA_MEMCPY2D) -> CUresult =
        |call| block(pCopy, None, true, &call);

    /// As `cuMemcpy2D`.
    fn cuMemcpy2DUnaligned(pCopy: *const CUDA_MEMCPY2D_v1) -> CUresult =
        |call| block(pCopy, None, false, &call);

    /// As `cuMemcpy2DUnaligned`.
    fn cuMemcpy2DUnaligned_v2(pCopy: *const CUDA_MEMCPY2D) -> CUresult =
        |call| block(pCopy, None, false, &call);

    /// As `cuMemcpy2DUnaligned`.
    fn cuMemcpy2DUnaligned_v2_ptds(pCopy: *const CUDA_MEMCPY2D) -> CUresult =
        |call| block(pCopy, None, true, &call);

    /// As `cuMemcpy2D`.
    fn cuMemcpy3D(pCopy: *const CUDA_MEMCPY3D_v1) -> CUresult =
        |call| block(pCopy, None, false, &call);

    /// As `cuMemcpy3D`.
    fn cuMemcpy3D_v2(pCopy: *const CUDA_MEMCPY3D) -> CUresult =
        |call| block(pCopy, None, false, &call);

    /// As `cuMemcpy3D`.
    fn cuMemcpy3D_v2_ptds(pCopy: *const CUDA_MEMCPY3D) -> CUresult =
        |call| block(pCopy, None, true, &call);

    /// As `cuMemcpy2D`.
    fn cuMemcpy3DPeer(pCopy: *const CUDA_MEMCPY3D_PEER) -> CUresult =
        |call| block(pCopy, None, false, &call);

    /// As `cuMemcpy3DPeer`.
    fn cuMemcpy3DPeer_ptds(pCopy: *const CUDA_MEMCPY3D_PEER) -> CUresult =
        |call| block(pCopy, None, true, &call);

    /// As `cuMemcpy2D`.
    fn cuMemcpy2DAsync(pCopy: *const CUDA_MEMCPY2D_v1, hStream: CUstream) -> CUresult =
        |call| block(pCopy, Some(hStream), false, &call);

    /// As `cuMemcpy2DAsync`.
    fn cuMemcpy2DAsync_v2(pCopy: *const CUDA_MEMCPY2D, hStream: CUstream) -> CUresult =
        |call| block(pCopy, Some(hStream), false, &call);

    /// As `cuMemcpy2DAsync`.
    fn cuMemcpy2DAsync_v2_ptsz(pCopy: *const CUDA_MEMCPY2D, hStream: CUstream) -> CUresult =
        |call| block(pCopy, Some(hStream), true, &call);

    /// As `cuMemcpy2D`.
    fn cuMemcpy3DAsync(pCopy: *const CUDA_MEMCPY3D_v1, hStream: CUstream) -> CUresult =
        |call| block(pCopy, Some(hStream), false, &call);

    /// As `cuMemcpy3DAsync`.
    fn cuMemcpy3DAsync_v2(pCopy: *const CUDA_MEMCPY3D, hStream: CUstream) -> CUresult =
        |call| block(pCopy, Some(hStream), false, &call);

    /// As `cuMemcpy3DAsync`.
    fn cuMemcpy3DAsync_v2_ptsz(pCopy: *const CUDA_MEMCPY3D, hStream: CUstream) -> CUresult =
        |call| block(pCopy, Some(hStream), true, &call);

    /// As `cuMemcpy2D`.
    fn cuMemcpy3DPeerAsync(pCopy: *const CUDA_MEMCPY3D_PEER, hStream: CUstream) -> CUresult =
        |call| block(pCopy, Some(hStream), false, &call);

    /// As `cuMemcpy3DPeerAsync`.
    fn cuMemcpy3DPeerAsync_ptsz(pCopy: *const CUDA_MEMCPY3D_PEER, hStream: CUstream) -> CUresult =
        |call| block(pCopy, Some(hStream), true, &call);

    /// Charged by its bytes.
    fn cuMemcpyAtoA(
        dstArray: CUarray,
        dstOffset: c_uint,
        srcArray: CUarray,
        srcOffset: c_uint,
        ByteCount: c_uint,
    ) -> CUresult = |call| line(ByteCount, true, NULL_STREAM, false, &call);

    /// As `cuMemcpyAtoA`.
    fn cuMemcpyAtoA_v2(
        dstArray: CUarray,
        dstOffset: usize,
        srcArray: CUarray,
        srcOffset: usize,
        ByteCount: usize,
    ) -> CUresult = |call| line(ByteCount, true, NULL_STREAM, false, &call);

    /// As `cuMemcpyAtoA`.
    fn cuMemcpyAtoA_v2_ptds(
        dstArray: CUarray,
        dstOffset: usize,
        srcArray: CUarray,
        srcOffset: usize,
        ByteCount: usize,
    ) -> CUresult = |call| line(ByteCount, true, NULL_STREAM, true, &call);

    /// Charged by its bytes.
    fn cuMemcpyAtoD(
        dstDevice: CUdeviceptr_v1,
        srcArray: CUarray,
        srcOffset: c_uint,
        ByteCount: c_uint,
    ) -> CUresult = |call| line(ByteCount, true, NULL_STREAM, false, &call);

    /// As `cuMemcpyAtoD`.
    fn cuMemcpyAtoD_v2(
        dstDevice: CUdeviceptr,
        srcArray: CUarray,
        srcOffset: usize,
        ByteCount: usize,
    ) -> CUresult = |call| line(ByteCount, true, NULL_STREAM, false, &call);

    /// As `cuMemcpyAtoD`.
    fn cuMemcpyAtoD_v2_ptds(
        dstDevice: CUdeviceptr,
        srcArray: CUarray,
        srcOffset: usize,
        ByteCount: usize,
    ) -> CUresult = |call| line(ByteCount, true, NULL_STREAM, true, &call);

    /// Charged by its bytes.
    fn cuMemcpyDtoA(
        dstArray: CUarray,
        dstOffset: c_uint,
        srcDevice: CUdeviceptr_v1,
        ByteCount: c_uint,
    ) -> CUresult = |call| line(ByteCount, true, NULL_STREAM, false, &call);

    /// As `cuMemcpyDtoA`.
    fn cuMemcpyDtoA_v2(
        dstArray: CUarray,
        dstOffset: usize,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
    ) -> CUresult = |call| line(ByteCount, true, NULL_STREAM, false, &call);

    /// As `cuMemcpyDtoA`.
    fn cuMemcpyDtoA_v2_ptds(
        dstArray: CUarray,
        dstOffset: usize,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
    ) -> CUresult = |call| line(ByteCount, true, NULL_STREAM, true, &call);

    /// Charged by its bytes: those of the device whose context is current.
    fn cuMemcpyPeer(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
    ) -> CUresult = |call| line(ByteCount, dstContext == srcContext, NULL_STREAM, false, &call);

    /// As `cuMemcpyPeer`.
    fn cuMemcpyPeer_ptds(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
    ) -> CUresult = |call| line(ByteCount, dstContext == srcContext, NULL_STREAM, true, &call);

    /// As `cuMemcpyPeer`.
    fn cuMemcpyPeerAsync(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| line(ByteCount, dstContext == srcContext, hStream, false, &call);

    /// As `cuMemcpyPeerAsync`.
    fn cuMemcpyPeerAsync_ptsz(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
        hStream: CUstream,
    ) -> CUresult = |call| line(ByteCount, dstContext == srcContext, hStream, true, &call);
}

/// On a stream, or by a call that waits if an end is on the host.
fn block<B: Block>(
    block: *const B,
    stream: Option<CUstream>,
    per_thread: bool,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    // SAFETY: the driver reads it next; NULL it refuses itself.
    let block = unsafe { block.as_ref() }.ok_or(Aside::DriverDecides)?;
    let on = time::stream(stream.unwrap_or(NULL_STREAM), per_thread);
    match (traffic::of(block), stream) {
        (Some(traffic), _) => time::transfer(traffic, on, call),
        (None, None) => time::interrupting(on, call),
        (None, Some(stream)) => time::ends(stream, per_thread, call),
    }
}

fn line(
    bytes: impl TryInto<u64>,
    local: bool,
    stream: CUstream,
    per_thread: bool,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let bytes = bytes.try_into().unwrap_or(u64::MAX);
    let on = time::stream(stream, per_thread);
    time::transfer(traffic::between(bytes, local), on, call)
}
