//! Stream-ordered memory: the driver takes it from the device pool by pool, ahead of what it hands out.
//!
//! A pool is charged the larger of what has been handed out and what the driver holds for it. Requests reserve what they
//! add to that before the driver is called, and are corrected by what the driver then holds. What the driver holds without
//! need is given back before anybody is refused.

mod account;
mod ask;

use cuda_headers::driver::{
    CUdeviceptr, CUmemLocationType, CUmemPoolProps, CUmemoryPool, CUresult, CUstream,
};

use self::account::Pool;
pub(crate) use self::account::Pools;
use self::ask::{free_again, is_capturing, key};
use super::{Owner, Record, number_of, remember, reserve, rounded};
use crate::context;
use crate::guard::Aside;
use crate::process;

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
    let current = context::current(process)?.device;
    if is_capturing(stream) {
        // A node of a graph, which takes memory when the graph is launched.
        return Err(Aside::Capturing);
    }
    let bytes = rounded(u64::try_from(bytes).unwrap_or(u64::MAX));
    let pools = &process.memory.pools;
    let (key, device) = pools.find(process, pool, current)?;
    let growth = pools.change(key, |pool| pool.hand_out(bytes));
    let Some(reservation) = reserve(process, device, growth) else {
        pools.change(key, |pool| pool.take_back(bytes, growth));
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        pools.change(key, |pool| pool.take_back(bytes, growth));
        return Ok(answer);
    }
    reservation.keep();
    // SAFETY: the driver has just written it for its caller.
    let address = unsafe { address.read() };
    if !pools.admit(device, key) {
        // SAFETY: an address that the driver has just given and nobody has seen, on the stream it was given for.
        unsafe { free_again(address, stream) };
        pools.freed(device, key, bytes);
        pools.settle(device, key);
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let record = Record::new(bytes, device, Owner::Pool(key));
    remember(process, &process.memory.addresses, address, record);
    Ok(answer)
}

/// `cuMemPoolCreate`: where the pool's memory lies.
pub(crate) fn create(
    pool: *mut CUmemoryPool,
    properties: *const CUmemPoolProps,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if pool.is_null() || properties.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just read the one and written the other for its caller.
        let (pool, location) = unsafe { (pool.read(), (*properties).location) };
        let device = match location.type_ {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
                // SAFETY: a plain number whatever the union holds.
                let number = unsafe { location.__bindgen_anon_1.id };
                process.devices.get(number).map(number_of)
            }
            _ => None,
        };
        let _ = process
            .memory
            .pools
            .known
            .insert(key(pool), Pool::new(device));
    }
    Ok(answer)
}

/// `cuMemPoolDestroy` and `cuMemPoolTrimTo`: the driver holds less now.
pub(crate) fn shrunk(
    pool: CUmemoryPool,
    destroyed: bool,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let pools = &process.memory.pools;
    let key = key(pool);
    let number = pools
        .known
        .get(key)
        .and_then(|pool| pool.device)
        .ok_or(Aside::Unknown)?;
    let device = process.devices.by_number(number.into());
    let device = device.ok_or(Aside::Unknown)?;
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        return Ok(answer);
    }
    if destroyed {
        let refund = pools.change(key, Pool::destroy);
        device.refund(refund);
        pools.forget(key);
    } else {
        pools.settle(device, key);
    }
    Ok(answer)
}
