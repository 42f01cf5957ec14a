//! Linear, pitched and managed memory: reserved before the driver is called, given back after it has freed.

use cuda_headers::driver::{CUdeviceptr, CUresult};

use super::{
    Owner, Record, external, freed, ipc, put_back, remember_in, reserve, reserve_quickly, rounded,
    take_beside, waited,
};
use crate::context::{self, Context};
use crate::driver::{call, relaxed};
use crate::guard::{Aside, outside};
use crate::process::{self, Process};

/// Where the driver puts an address; its first version has addresses of 32 bits.
pub(crate) trait Address: Copy + Into<u64> {}
impl Address for u64 {}
impl Address for u32 {}

/// A size or pitch, as wide as the version of the call.
pub(crate) trait Size: Copy + TryInto<u64> {}
impl Size for usize {}
impl Size for u32 {}

fn wide(size: impl Size) -> u64 {
    size.try_into().unwrap_or(u64::MAX)
}

/// `cuMemAlloc` and `cuMemAllocManaged`. The driver is not called for what does not fit.
pub(crate) fn allocate<A: Address>(
    address: *mut A,
    bytes: impl Size,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let bytes = wide(bytes);
    if address.is_null() || bytes == 0 {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let context = context::current(process)?;
    let bytes = rounded(bytes);
    let Some(reservation) = reserve_quickly(process, context.device, bytes) else {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        reservation.keep();
        // SAFETY: the driver has just written it for its caller.
        record(process, context, unsafe { address.read() }.into(), bytes);
    }
    Ok(answer)
}

/// `cuMemAllocPitch`: only the driver knows the pitch. An upper bound is reserved, and corrected by what it answers.
pub(crate) fn allocate_pitch<A: Address, S: Size>(
    address: *mut A,
    pitch: *mut S,
    width: S,
    height: S,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let (width, height) = (wide(width), wide(height));
    if address.is_null() || pitch.is_null() || width == 0 || height == 0 {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let context = context::current(process)?;
    let bound = rounded(width).saturating_mul(height);
    let Some(reservation) = reserve(process, context.device, bound) else {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        return Ok(answer);
    }
    // SAFETY: the driver has just written both for its caller.
    let (address, pitch) = unsafe { (address.read().into(), wide(pitch.read())) };
    let bytes = rounded(pitch.saturating_mul(height));
    if bytes > bound {
        let Some(more) = reserve(process, context.device, bytes - bound) else {
            free_again(address);
            return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        };
        more.keep();
    }
    reservation.keep();
    context.device.refund(bound.saturating_sub(bytes));
    record(process, context, address, bytes);
    Ok(answer)
}

/// `cuMemFree`, of whatever kind the memory is: on the device that owns it, whichever context is
/// current.
///
/// The record goes before the driver is called, because another thread may get the address as soon as the driver has freed
/// it; the charge goes after, because until then the memory is held.
pub(crate) fn free(address: u64, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let addresses = &process.memory.addresses;
    let record = addresses.take(address);
    let Some(record) = record.or_else(|| take_beside(addresses, address)) else {
        return free_others(process, address, call);
    };
    // It waits for work that uses the memory.
    let answer = outside(call);
    if answer == CUresult::CUDA_SUCCESS {
        freed(process, address, record);
        waited::perhaps(process);
    } else {
        put_back(process, addresses, address, record);
    }
    Ok(answer)
}

/// Frees what this process has not allocated by any of the calls that make records: imported from another process's pool or
/// from another API, or nothing that we know.
pub(super) fn free_others(
    process: &'static Process,
    address: u64,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    match ipc::close(process, address, call) {
        Err(Aside::Unknown) => external::free(process, address, call),
        answered => answered,
    }
}

#[inline(always)]
fn record(process: &Process, context: Context<'_>, address: u64, bytes: u64) {
    let record = Record::new(bytes, context.device, Owner::Context(context.id));
    let addresses = &process.memory.addresses;
    remember_in(process, addresses, address, record, &context);
}

/// Undoes an allocation that turned out too large.
fn free_again(address: CUdeviceptr) {
    // SAFETY: an address that the driver has just given and nobody has seen.
    let _ = relaxed(|| unsafe { call!(cuMemFree_v2(address)) });
}
