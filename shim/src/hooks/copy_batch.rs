//! Copies in batches and with attributes, which do not tell in the call where they copy to.

use core::ffi::{c_uint, c_ulonglong};

use cuda_headers::driver::{
    CUDA_FABRIC_COPY_BATCH_OP, CUDA_MEMCPY3D_BATCH_OP, CUdeviceptr, CUmemDecompressParams,
    CUmemcpyAttributes, CUresult, CUstream,
};
use cuda_headers::fns;

use crate::hook::hooks;
use crate::time;

hooks! { DRIVER as fns, if time::limited();
    /// Not charged; what is open on the stream ends before.
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
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpyBatchAsync`.
    fn cuMemcpyBatchAsync_ptsz(
        dsts: *mut CUdeviceptr,
        srcs: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        attrs: *mut CUmemcpyAttributes,
        attrsIdxs: *mut usize,
        numAttrs: usize,
        failIdx: *mut usize,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// As `cuMemcpyBatchAsync`.
    fn cuMemcpyBatchAsync_v2(
        dsts: *mut CUdeviceptr,
        srcs: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        attrs: *mut CUmemcpyAttributes,
        attrsIdxs: *mut usize,
        numAttrs: usize,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpyBatchAsync`.
    fn cuMemcpyBatchAsync_v2_ptsz(
        dsts: *mut CUdeviceptr,
        srcs: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        attrs: *mut CUmemcpyAttributes,
        attrsIdxs: *mut usize,
        numAttrs: usize,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// As `cuMemcpyBatchAsync`.
    fn cuMemcpy3DBatchAsync(
        numOps: usize,
        opList: *mut CUDA_MEMCPY3D_BATCH_OP,
        failIdx: *mut usize,
        flags: c_ulonglong,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpy3DBatchAsync`.
    fn cuMemcpy3DBatchAsync_ptsz(
        numOps: usize,
        opList: *mut CUDA_MEMCPY3D_BATCH_OP,
        failIdx: *mut usize,
        flags: c_ulonglong,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// As `cuMemcpy3DBatchAsync`.
    fn cuMemcpy3DBatchAsync_v2(
        numOps: usize,
        opList: *mut CUDA_MEMCPY3D_BATCH_OP,
        flags: c_ulonglong,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpy3DBatchAsync`.
    fn cuMemcpy3DBatchAsync_v2_ptsz(
        numOps: usize,
        opList: *mut CUDA_MEMCPY3D_BATCH_OP,
        flags: c_ulonglong,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// As `cuMemcpyBatchAsync`.
    fn cuMemcpyWithAttributesAsync(
        dst: CUdeviceptr,
        src: CUdeviceptr,
        size: usize,
        attr: *mut CUmemcpyAttributes,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpyWithAttributesAsync`.
    fn cuMemcpyWithAttributesAsync_ptsz(
        dst: CUdeviceptr,
        src: CUdeviceptr,
        size: usize,
        attr: *mut CUmemcpyAttributes,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// As `cuMemcpyBatchAsync`.
    fn cuMemcpy3DWithAttributesAsync(
        op: *mut CUDA_MEMCPY3D_BATCH_OP,
        flags: c_ulonglong,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuMemcpy3DWithAttributesAsync`.
    fn cuMemcpy3DWithAttributesAsync_ptsz(
        op: *mut CUDA_MEMCPY3D_BATCH_OP,
        flags: c_ulonglong,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// As `cuMemcpyBatchAsync`.
    fn cuFabricCpyBatchAsync(
        numOps: usize,
        opList: *mut CUDA_FABRIC_COPY_BATCH_OP,
        flags: c_ulonglong,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, false, &call);

    /// As `cuFabricCpyBatchAsync`.
    fn cuFabricCpyBatchAsync_ptsz(
        numOps: usize,
        opList: *mut CUDA_FABRIC_COPY_BATCH_OP,
        flags: c_ulonglong,
        hStream: CUstream,
    ) -> CUresult = |call| time::ends(hStream, true, &call);

    /// Another engine of the device does it: not charged, and what is open on the stream ends before.
    fn cuMemBatchDecompressAsync(
        paramsArray: *mut CUmemDecompressParams,
        count: usize,
        flags: c_uint,
        errorIndex: *mut usize,
        stream: CUstream,
    ) -> CUresult = |call| time::ends(stream, false, &call);

    /// As `cuMemBatchDecompressAsync`.
    fn cuMemBatchDecompressAsync_ptsz(
        paramsArray: *mut CUmemDecompressParams,
        count: usize,
        flags: c_uint,
        errorIndex: *mut usize,
        stream: CUstream,
    ) -> CUresult = |call| time::ends(stream, true, &call);
}
