//! Copies of bytes in a row to and from one-dimensional arrays.

use std::ffi::c_void;

use cuda_headers::driver::{CUarray, CUdeviceptr, CUresult, CUstream};

use super::{INVALID, When, array, copy, host, known};
use crate::entry::entry;
use crate::ops::{Region, Transfer};

/// `bytes` bytes of an array's first row from `offset` on.
fn part(handle: CUarray, offset: usize, bytes: usize) -> Result<Region, CUresult> {
    let (array, element) = array(handle)?;
    let whole = offset.is_multiple_of(element) && bytes.is_multiple_of(element);
    if !whole || offset + bytes > array.pitch {
        return Err(INVALID);
    }
    Ok(Region {
        address: array.address + offset,
        pitch: 0,
        rows: 0,
        ..array
    })
}

fn run(
    to: Result<Region, CUresult>,
    from: Result<Region, CUresult>,
    bytes: usize,
    when: When,
) -> Result<(), CUresult> {
    crate::state::current()?;
    copy(Transfer::linear(to?, from?, bytes), when)
}

entry! {
    fn cuMemcpyDtoA_v2(
        dstArray: CUarray,
        dstOffset: usize,
        srcDevice: CUdeviceptr,
        ByteCount: usize,
    ) => cuMemcpyDtoA_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        let to = part(dstArray, dstOffset, ByteCount);
        run(to, known(srcDevice, ByteCount), ByteCount, when)
    }

    fn cuMemcpyAtoD_v2(
        dstDevice: CUdeviceptr,
        srcArray: CUarray,
        srcOffset: usize,
        ByteCount: usize,
    ) => cuMemcpyAtoD_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        let from = part(srcArray, srcOffset, ByteCount);
        run(known(dstDevice, ByteCount), from, ByteCount, when)
    }

    fn cuMemcpyHtoA_v2(
        dstArray: CUarray,
        dstOffset: usize,
        srcHost: *const c_void,
        ByteCount: usize,
    ) => cuMemcpyHtoA_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        let to = part(dstArray, dstOffset, ByteCount);
        run(to, host(srcHost as u64), ByteCount, when)
    }

    fn cuMemcpyHtoAAsync_v2(
        dstArray: CUarray,
        dstOffset: usize,
        srcHost: *const c_void,
        ByteCount: usize,
        hStream: CUstream,
    ) => cuMemcpyHtoAAsync_v2_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        let to = part(dstArray, dstOffset, ByteCount);
        run(to, host(srcHost as u64), ByteCount, when)
    }

    fn cuMemcpyAtoH_v2(
        dstHost: *mut c_void,
        srcArray: CUarray,
        srcOffset: usize,
        ByteCount: usize,
    ) => cuMemcpyAtoH_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        let from = part(srcArray, srcOffset, ByteCount);
        run(host(dstHost as u64), from, ByteCount, when)
    }

    fn cuMemcpyAtoHAsync_v2(
        dstHost: *mut c_void,
        srcArray: CUarray,
        srcOffset: usize,
        ByteCount: usize,
        hStream: CUstream,
    ) => cuMemcpyAtoHAsync_v2_ptsz {
        let when = When::In { stream: hStream, per_thread: PER_THREAD };
        let from = part(srcArray, srcOffset, ByteCount);
        run(host(dstHost as u64), from, ByteCount, when)
    }

    fn cuMemcpyAtoA_v2(
        dstArray: CUarray,
        dstOffset: usize,
        srcArray: CUarray,
        srcOffset: usize,
        ByteCount: usize,
    ) => cuMemcpyAtoA_v2_ptds {
        let when = When::Now { per_thread: PER_THREAD };
        let to = part(dstArray, dstOffset, ByteCount);
        run(to, part(srcArray, srcOffset, ByteCount), ByteCount, when)
    }
}
