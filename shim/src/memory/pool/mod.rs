//! Stream-ordered memory: the driver takes it from the device pool by pool, ahead of what it hands out.
//!
//! A pool is charged the larger of what has been handed out and what the driver holds for it. Requests reserve what they
//! add to that before the driver is called, and are corrected by what the driver then holds. What the driver holds without
//! need is given back before anybody is refused. High marks, which the program can reset, are not looked at.

mod account;
mod ask;
mod charge;
mod life;
mod streams;
mod turns;

use cuda_headers::driver::{CUdeviceptr, CUmemoryPool, CUresult, CUstream};

pub(crate) use self::account::{Pools, has_slack, knows_streams};
pub(in crate::memory) use self::ask::is_capturing;
use self::charge::Place;
pub(crate) use self::life::{create, destroy, import, name, stream_goes, trim};
pub(in crate::memory) use self::streams::STREAMS;
use super::{Owner, Record, make_room, remember, reserve, rounded};
use crate::device::{Device, step_back};
use crate::driver::relaxed;
use crate::guard::Aside;
use crate::process::{self, Process};

/// `CU_STREAM_PER_THREAD`: this number and those below stand for default streams.
const PER_THREAD_STREAM: usize = 2;

/// No device has so much, and sums of a few of these do not overflow.
const MOST: u64 = 1 << 60;
/// Tries to be the only one whom a pool serves near the limit: half a second.
const TRIES: u32 = 300;

/// Which default stream a null stream means.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Default {
    Legacy,
    PerThread,
}

/// `cuMemAllocAsync`, and with a pool `cuMemAllocFromPoolAsync`.
pub(crate) fn allocate(
    address: *mut CUdeviceptr,
    bytes: usize,
    pool: Option<CUmemoryPool>,
    stream: (CUstream, Default),
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if address.is_null() || bytes == 0 {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let (id, device) = relaxed(|| source(process, pool, stream))?;
    let bytes = rounded(u64::try_from(bytes).unwrap_or(u64::MAX));
    if bytes > MOST {
        device.denied(bytes);
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let pools = &process.memory.pools;
    let enters = |tries| {
        let served = pools.enter(device, bytes);
        if served.is_none() {
            step_back(tries);
        }
        served
    };
    let served = (0..TRIES)
        .find_map(enters)
        .unwrap_or_else(|| pools.insist());
    let answer = serve(process, (id, device), bytes, address, stream, call);
    drop(served);
    Ok(answer)
}

/// Serves a request. What did not fit the first time has left slack trimmed, so that it may fit now.
fn serve(
    process: &Process,
    (id, device): (u64, &Device),
    bytes: u64,
    address: *mut CUdeviceptr,
    stream: (CUstream, Default),
    call: &impl Fn() -> CUresult,
) -> CUresult {
    let pools = &process.memory.pools;
    for _ in 0..2 {
        if is_over(process, device) {
            break;
        }
        let Some(answer) = hand_out(process, (id, device), bytes, call) else {
            return CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        };
        if answer != CUresult::CUDA_SUCCESS {
            return answer;
        }
        // SAFETY: the driver has just written it for its caller.
        let address = unsafe { address.read() };
        if pools.admit(process, device, id) {
            let record = Record::new(bytes, device, Owner::Pool(id));
            remember(process, &process.memory.addresses, address, record);
            return answer;
        }
        // SAFETY: an address that the driver has just given and nobody has seen, on the stream it was given for.
        relaxed(|| unsafe { ask::free_again(address, stream) });
        pools.frees_on(id, stream);
        pools.freed(device, id, bytes);
        pools.undone(device, id);
    }
    device.denied(bytes);
    CUresult::CUDA_ERROR_OUT_OF_MEMORY
}

/// Reserves what a request adds to its pool's charge, and calls the driver. `None`: refused, the driver is not called.
fn hand_out(
    process: &Process,
    (id, device): (u64, &Device),
    bytes: u64,
    call: &impl Fn() -> CUresult,
) -> Option<CUresult> {
    let pools = &process.memory.pools;
    pools.clear_way(device, id, bytes);
    let growth = pools.change(id, |pool| pool.hand_out(bytes));
    let take_back = || device.refund(pools.change(id, |pool| pool.take_back(bytes, growth)));
    let Some(reservation) = reserve(process, device, growth) else {
        take_back();
        return None;
    };
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        reservation.keep();
    } else {
        take_back();
    }
    Some(answer)
}

/// Whether the group is over its limit, even after slack has been given back. Then nothing is handed out of what a pool holds
/// either: the driver may take more for it than anybody asked for, when what has been freed is still waited for by a stream.
fn is_over(process: &Process, device: &Device) -> bool {
    let over = || device.bound().is_some_and(|limit| device.usage() > limit);
    if over() {
        make_room(process, device, &mut || !over());
    }
    over()
}

/// The pool that a request is served from, and the device that it is charged to.
fn source(
    process: &'static Process,
    pool: Option<CUmemoryPool>,
    stream: (CUstream, Default),
) -> Result<(u64, &'static Device), Aside> {
    if ask::is_capturing(stream) {
        // A node of a graph, which takes memory when the graph is launched.
        return Err(Aside::Capturing);
    }
    let device = ask::device_of(process, stream.0)?;
    let pool = pool.or_else(|| ask::current_pool(device));
    let pools = &process.memory.pools;
    let id = pools
        .find(process, pool.ok_or(Aside::DriverDecides)?, device)
        .ok_or(Aside::Unknown)?;
    match pools.place(id) {
        Some(Place::Device(number)) => {
            let device = process.devices.by_number(number.into());
            Ok((id, device.ok_or(Aside::Unknown)?))
        }
        Some(Place::Host) => Err(Aside::NotDeviceMemory),
        // The driver refuses to allocate from one that was imported.
        Some(Place::Imported) | None => Err(Aside::Unknown),
    }
}
