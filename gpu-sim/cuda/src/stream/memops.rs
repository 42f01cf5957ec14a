//! Streams that wait for words in memory, and write them.

use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cuda_headers::driver::{
    CUdeviceptr, CUresult, CUstream, CUstreamBatchMemOpParams, CUstreamBatchMemOpType as Type,
    CUstreamWaitValue_flags as WaitFlags, cuuint32_t, cuuint64_t,
};

use super::resolve_here;
use crate::engine::{self, StreamKey, Work};
use crate::entry::entry;
use crate::ops::{self, Op};

/// How a word is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Cyclically greater or equal.
    Geq,
    Eq,
    And,
    Nor,
}

/// One operation on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemOp {
    Wait32(CUdeviceptr, u32, Wait),
    Wait64(CUdeviceptr, u64, Wait),
    Write32(CUdeviceptr, u32),
    Write64(CUdeviceptr, u64),
    /// A barrier or flush: memory is coherent here.
    Fence,
}

impl Wait {
    fn from_flags(flags: c_uint) -> Result<Self, CUresult> {
        match WaitFlags(flags & !WaitFlags::CU_STREAM_WAIT_VALUE_FLUSH.0) {
            WaitFlags::CU_STREAM_WAIT_VALUE_GEQ => Ok(Self::Geq),
            WaitFlags::CU_STREAM_WAIT_VALUE_EQ => Ok(Self::Eq),
            WaitFlags::CU_STREAM_WAIT_VALUE_AND => Ok(Self::And),
            WaitFlags::CU_STREAM_WAIT_VALUE_NOR => Ok(Self::Nor),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn holds_32(self, word: u32, value: u32) -> bool {
        match self {
            Self::Geq => word.wrapping_sub(value).cast_signed() >= 0,
            Self::Eq => word == value,
            Self::And => word & value != 0,
            Self::Nor => !(word | value) != 0,
        }
    }

    fn holds_64(self, word: u64, value: u64) -> bool {
        match self {
            Self::Geq => word.wrapping_sub(value).cast_signed() >= 0,
            Self::Eq => word == value,
            Self::And => word & value != 0,
            Self::Nor => !(word | value) != 0,
        }
    }
}

/// Reads a word that the device, the host and other processes may write.
pub(crate) fn load_32(address: CUdeviceptr) -> u32 {
    // SAFETY: checked to be mapped and aligned when the operation was made; the application keeps
    // it so until the operation is done, as it must with the driver.
    unsafe { &*(address as *const AtomicU32) }.load(Ordering::Acquire)
}

pub(crate) fn store_32(address: CUdeviceptr, value: u32) {
    // SAFETY: as for `load_32`.
    unsafe { &*(address as *const AtomicU32) }.store(value, Ordering::Release);
}

fn load_64(address: CUdeviceptr) -> u64 {
    // SAFETY: as for `load_32`.
    unsafe { &*(address as *const AtomicU64) }.load(Ordering::Acquire)
}

fn store_64(address: CUdeviceptr, value: u64) {
    // SAFETY: as for `load_32`.
    unsafe { &*(address as *const AtomicU64) }.store(value, Ordering::Release);
}

impl MemOp {
    fn check(self) -> Result<Self, CUresult> {
        let (address, size) = match self {
            Self::Wait32(address, ..) | Self::Write32(address, _) => (address, 4_u8),
            Self::Wait64(address, ..) | Self::Write64(address, _) => (address, 8),
            Self::Fence => return Ok(self),
        };
        let aligned = address.is_multiple_of(u64::from(size));
        let found = crate::memory::find(address);
        let mapped = found.is_some_and(|found| found.contains(address, usize::from(size)));
        if aligned && mapped {
            Ok(self)
        } else {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
    }

    pub(crate) fn enqueue(self, key: StreamKey) -> Result<(), CUresult> {
        let work = match self {
            Self::Wait32(address, value, wait) => {
                Work::Poll(Box::new(move || wait.holds_32(load_32(address), value)))
            }
            Self::Wait64(address, value, wait) => {
                Work::Poll(Box::new(move || wait.holds_64(load_64(address), value)))
            }
            Self::Write32(address, value) => {
                Work::Action(Box::new(move || store_32(address, value)))
            }
            Self::Write64(address, value) => {
                Work::Action(Box::new(move || store_64(address, value)))
            }
            Self::Fence => return Ok(()),
        };
        engine::enqueue(key, work)
    }

    /// Reads the driver API's form of an operation.
    pub(crate) fn from_params(params: &CUstreamBatchMemOpParams) -> Result<Self, CUresult> {
        // SAFETY: every member starts with the operation, and each value read below is a plain
        // integer of the member that the operation names.
        let op = unsafe {
            match params.operation {
                Type::CU_STREAM_MEM_OP_WAIT_VALUE_32 => {
                    let wait = &params.waitValue;
                    let how = Wait::from_flags(wait.flags)?;
                    Self::Wait32(wait.address, wait.__bindgen_anon_1.value, how)
                }
                Type::CU_STREAM_MEM_OP_WAIT_VALUE_64 => {
                    let wait = &params.waitValue;
                    let how = Wait::from_flags(wait.flags)?;
                    Self::Wait64(wait.address, wait.__bindgen_anon_1.value64, how)
                }
                Type::CU_STREAM_MEM_OP_WRITE_VALUE_32 => {
                    let write = &params.writeValue;
                    Self::Write32(write.address, write.__bindgen_anon_1.value)
                }
                Type::CU_STREAM_MEM_OP_WRITE_VALUE_64 => {
                    let write = &params.writeValue;
                    Self::Write64(write.address, write.__bindgen_anon_1.value64)
                }
                Type::CU_STREAM_MEM_OP_BARRIER | Type::CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES => {
                    Self::Fence
                }
                Type::CU_STREAM_MEM_OP_ATOMIC_REDUCTION => {
                    return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
                }
                _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            }
        };
        op.check()
    }
}

fn submit(stream: CUstream, per_thread: bool, ops: Vec<MemOp>) -> Result<(), CUresult> {
    let stream = resolve_here(stream, per_thread)?;
    ops::submit(&stream, Op::MemOps(Arc::new(ops)))
}

fn wait_32(
    stream: CUstream,
    per_thread: bool,
    addr: CUdeviceptr,
    value: u32,
    flags: c_uint,
) -> Result<(), CUresult> {
    let op = MemOp::Wait32(addr, value, Wait::from_flags(flags)?).check()?;
    submit(stream, per_thread, vec![op])
}

fn wait_64(
    stream: CUstream,
    per_thread: bool,
    addr: CUdeviceptr,
    value: u64,
    flags: c_uint,
) -> Result<(), CUresult> {
    let op = MemOp::Wait64(addr, value, Wait::from_flags(flags)?).check()?;
    submit(stream, per_thread, vec![op])
}

fn write(stream: CUstream, per_thread: bool, op: MemOp, flags: c_uint) -> Result<(), CUresult> {
    if flags > 1 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    submit(stream, per_thread, vec![op.check()?])
}

/// Most operations of one batch, as documented.
const MOST: c_uint = 256;

/// Reads an array of operations.
pub(crate) unsafe fn read_batch(
    count: c_uint,
    params: *const CUstreamBatchMemOpParams,
    flags: c_uint,
) -> Result<Vec<MemOp>, CUresult> {
    if params.is_null() || count == 0 || count > MOST || flags != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not NULL; the caller vouches for the count.
    let params = unsafe { std::slice::from_raw_parts(params, count as usize) };
    params.iter().map(MemOp::from_params).collect()
}

unsafe fn batch(
    stream: CUstream,
    per_thread: bool,
    count: c_uint,
    params: *const CUstreamBatchMemOpParams,
    flags: c_uint,
) -> Result<(), CUresult> {
    // SAFETY: the caller vouches for the array.
    submit(stream, per_thread, unsafe {
        read_batch(count, params, flags)
    }?)
}

entry! {
    fn cuStreamWaitValue32(stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: c_uint)
    => cuStreamWaitValue32_ptsz {
        wait_32(stream, PER_THREAD, addr, value, flags)
    }

    fn cuStreamWaitValue32_v2(stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: c_uint)
    => cuStreamWaitValue32_v2_ptsz {
        wait_32(stream, PER_THREAD, addr, value, flags)
    }

    fn cuStreamWaitValue64(stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: c_uint)
    => cuStreamWaitValue64_ptsz {
        wait_64(stream, PER_THREAD, addr, value, flags)
    }

    fn cuStreamWaitValue64_v2(stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: c_uint)
    => cuStreamWaitValue64_v2_ptsz {
        wait_64(stream, PER_THREAD, addr, value, flags)
    }

    fn cuStreamWriteValue32(stream: CUstream, addr: CUdeviceptr, value: cuuint32_t, flags: c_uint)
    => cuStreamWriteValue32_ptsz {
        write(stream, PER_THREAD, MemOp::Write32(addr, value), flags)
    }

    fn cuStreamWriteValue32_v2(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint32_t,
        flags: c_uint,
    ) => cuStreamWriteValue32_v2_ptsz {
        write(stream, PER_THREAD, MemOp::Write32(addr, value), flags)
    }

    fn cuStreamWriteValue64(stream: CUstream, addr: CUdeviceptr, value: cuuint64_t, flags: c_uint)
    => cuStreamWriteValue64_ptsz {
        write(stream, PER_THREAD, MemOp::Write64(addr, value), flags)
    }

    fn cuStreamWriteValue64_v2(
        stream: CUstream,
        addr: CUdeviceptr,
        value: cuuint64_t,
        flags: c_uint,
    ) => cuStreamWriteValue64_v2_ptsz {
        write(stream, PER_THREAD, MemOp::Write64(addr, value), flags)
    }

    fn cuStreamBatchMemOp(
        stream: CUstream,
        count: c_uint,
        paramArray: *mut CUstreamBatchMemOpParams,
        flags: c_uint,
    ) => cuStreamBatchMemOp_ptsz {
        batch(stream, PER_THREAD, count, paramArray, flags)
    }

    fn cuStreamBatchMemOp_v2(
        stream: CUstream,
        count: c_uint,
        paramArray: *mut CUstreamBatchMemOpParams,
        flags: c_uint,
    ) => cuStreamBatchMemOp_v2_ptsz {
        batch(stream, PER_THREAD, count, paramArray, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_the_documented_ones() {
        assert!(Wait::Geq.holds_32(5, 5) && Wait::Geq.holds_32(1, u32::MAX));
        assert!(!Wait::Geq.holds_32(4, 5));
        assert!(Wait::And.holds_64(6, 2) && !Wait::And.holds_64(4, 2));
        assert!(Wait::Nor.holds_32(0, 1) && !Wait::Nor.holds_32(u32::MAX, 0));
        assert_eq!(Wait::from_flags(4), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
        assert_eq!(Wait::from_flags(0x4000_0001), Ok(Wait::Eq));
    }
}
