//! Copies of bytes in a row.

use std::ffi::c_void;

use cuda_headers::driver::{CUcontext, CUdeviceptr, CUresult, CUstream};

use super::{When, anything, copy, host, known};
use crate::ctx;
use crate::entry::entry;
use crate::ops::{Region, Transfer};

fn linear(to: Region, from: Region, bytes: usize, when: When) -> Result<(), CUresult> {
    copy(Transfer::linear(to, from, bytes), when)
}

/// Nothing is copied, and no address is looked at, but the call must be allowed.
fn nothing(when: When) -> Result<(), CUresult> {
    when.stream().map(|_| ())
}

pub(super) fn any_to_any(
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    when: When,
) -> Result<(), CUresult> {
    if bytes == 0 {
        return nothing(when);
    }
    crate::state::current()?;
    linear(anything(to, bytes)?, anything(from, bytes)?, bytes, when)
}

fn to_device(
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    when: When,
) -> Result<(), CUresult> {
    if bytes == 0 {
        return nothing(when);
    }
    crate::state::current()?;
    linear(known(to, bytes)?, host(from as u64)?, bytes, when)
}

fn to_host(to: *mut c_void, from: CUdeviceptr, bytes: usize, when: When) -> Result<(), CUresult> {
    if bytes == 0 {
        return nothing(when);
    }
    crate::state::current()?;
    linear(host(to as u64)?, known(from, bytes)?, bytes, when)
}

fn within(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, when: When) -> Result<(), CUresult> {
    if bytes == 0 {
        return nothing(when);
    }
    crate::state::current()?;
    linear(known(to, bytes)?, known(from, bytes)?, bytes, when)
}

fn between(
    (to, to_context): (CUdeviceptr, CUcontext),
    (from, from_context): (CUdeviceptr, CUcontext),
    bytes: usize,
    when: When,
) -> Result<(), CUresult> {
    ctx::from_handle(to_context)?;
    ctx::from_handle(from_context)?;
    within(to, from, bytes, when)
}

entry! {
    fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize) => cuMemcpy_ptds {
        any_to_any(dst, src, ByteCount, When::Now { per_thread: PER_THREAD })
    }

    fn cuMemcpyAsync(dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize, hStream: CUstream)
    => cuMemcpyAsync_ptsz {
        any_to_any(dst, src, ByteCount, When::In { stream: hStream, per_thread: PER_THREAD })
    }

    fn cuMemcpyHtoD_v2(dstDevice: CUdeviceptr, srcHost: *const c_void, ByteCount: usize)
    => cuMemcpyHtoD_v2_ptds {
        to_device(dstDevice, srcHost, ByteCount, When::Now { per_thread: PER_THREAD })
    }

    fn cuMemcpyHtoDAsync_v2(
        dstDevice: CUdeviceptr,
        srcHost: *const c_void,
        ByteCount: usize,
        hStream: CUstream,
    ) => cuMemcpyHtoDAsync_v2_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        to_device(dstDevice, srcHost, ByteCount, when)
    }

    fn cuMemcpyDtoH_v2(dstHost: *mut c_void, srcDevice: CUdeviceptr, ByteCount: usize)
    => cuMemcpyDtoH_v2_ptds {
        to_host(dstHost, srcDevice, ByteCount, When::Now { per_thread: PER_THREAD })
    }

    fn cuMemcpyDtoHAsync_v2(
        dstHost: *mut c_void,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
        hStream: CUstream,
    ) => cuMemcpyDtoHAsync_v2_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        to_host(dstHost, srcDevice, ByteCount, when)
    }

    fn cuMemcpyDtoD_v2(dstDevice: CUdeviceptr, srcDevice: CUdeviceptr, ByteCount: usize)
    => cuMemcpyDtoD_v2_ptds {
        within(dstDevice, srcDevice, ByteCount, When::Now { per_thread: PER_THREAD })
    }

    fn cuMemcpyDtoDAsync_v2(
        dstDevice: CUdeviceptr,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
        hStream: CUstream,
    ) => cuMemcpyDtoDAsync_v2_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        within(dstDevice, srcDevice, ByteCount, when)
    }

    fn cuMemcpyPeer(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
    ) => cuMemcpyPeer_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        between((dstDevice, dstContext), (srcDevice, srcContext), ByteCount, when)
    }

    fn cuMemcpyPeerAsync(
        dstDevice: CUdeviceptr,
        dstContext: CUcontext,
        srcDevice: CUdeviceptr,
        srcContext: CUcontext,
        ByteCount: usize,
        hStream: CUstream,
    ) => cuMemcpyPeerAsync_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        between((dstDevice, dstContext), (srcDevice, srcContext), ByteCount, when)
    }
}
