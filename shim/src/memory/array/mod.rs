//! Arrays and mipmapped arrays: charged what the driver needs for them.
//!
//! The driver tells that only of arrays whose memory is mapped later (`cuArrayGetMemoryRequirements`). So a twin is made
//! that has the same descriptor and no memory, and is asked; once for each shape. Where the device has no such arrays, what
//! the descriptor says is charged.

mod requirement;
mod shape;

use cuda_headers::driver::{CUarray, CUmipmappedArray, CUresult};

pub(super) use self::requirement::Told;
pub(crate) use self::shape::Descriptor;
use self::shape::wide;
use super::{Owner, Record, external, give_back, put_back, remember_in, reserve, rounded};
use crate::context;
use crate::guard::Aside;
use crate::memory::vmm::tiles;
use crate::process;

/// No device holds as much: the driver says itself what is wrong with the descriptor.
const ABSURD: u64 = 1 << 48;

/// `cuArrayCreate` and `cuArray3DCreate`.
pub(crate) fn create<D: Descriptor>(
    handle: *mut CUarray,
    descriptor: *const D,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    create_levels(handle, descriptor, None, call)
}

/// The same with a number of levels for `cuMipmappedArrayCreate`.
pub(crate) fn create_levels<H: Handle, D: Descriptor>(
    handle: *mut H,
    descriptor: *const D,
    levels: Option<u32>,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if handle.is_null() || descriptor.is_null() {
        return Err(Aside::DriverDecides);
    }
    // SAFETY: not null, and the driver is about to read it.
    let shape = unsafe { descriptor.read() }.shape();
    let process = process::limited()?;
    let context = context::current(process)?;
    if shape.has_no_memory() {
        let answer = call();
        if answer == CUresult::CUDA_SUCCESS {
            // SAFETY: the driver has just written it for its caller.
            let key = unsafe { handle.read() }.key();
            tiles::array_made(process, key, context.id, shape.is_deferred());
        }
        return Ok(answer);
    }
    let device = context.device;
    let least = rounded(shape.bytes(levels.unwrap_or(1)));
    if least > ABSURD {
        return Err(Aside::DriverDecides);
    }
    let Some(reservation) = reserve(process, device, least) else {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    let told = process.memory.array_sizes.of(&shape, levels, device);
    let bytes = told.map_or(least, rounded);
    let Some(rest) = reserve(process, device, bytes.saturating_sub(least)) else {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        reservation.keep();
        rest.keep();
        device.refund(least.saturating_sub(bytes));
        let record = Record::new(bytes, device, Owner::Context(context.id));
        // SAFETY: the driver has just written it for its caller.
        let key = unsafe { handle.read() }.key();
        remember_in(process, &process.memory.arrays, key, record, &context);
    }
    Ok(answer)
}

/// `cuArrayDestroy` and `cuMipmappedArrayDestroy`.
pub(crate) fn destroy(
    handle: impl Handle,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let arrays = &process.memory.arrays;
    let Some(record) = arrays.remove(handle.key()) else {
        return without_record(process, handle.key(), call);
    };
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        give_back(process, record);
    } else {
        put_back(process, arrays, handle.key(), record);
    }
    Ok(answer)
}

/// An array that was made without memory, or of memory of another API.
fn without_record(
    process: &process::Process,
    key: u64,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if !tiles::is_array(process, key) {
        return external::free(process, key, call);
    }
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        tiles::array_gone(process, key);
    }
    Ok(answer)
}

/// An array's handle, plain or mipmapped.
pub(crate) trait Handle: Copy {
    fn key(self) -> u64;
}

impl Handle for CUarray {
    fn key(self) -> u64 {
        wide(self.0.addr())
    }
}

impl Handle for CUmipmappedArray {
    fn key(self) -> u64 {
        wide(self.0.addr())
    }
}
