//! Pools from their making to their end, and what they give back in between.

use cuda_headers::driver::{
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPoolProps, CUmemoryPool, CUresult,
    CUstream,
};

use super::super::deferred;
use super::super::number_of;
use super::account::knows_streams;
use super::ask;
use super::charge::Place;
use crate::context;
use crate::device::Device;
use crate::driver::relaxed;
use crate::guard::Aside;
use crate::process::{self, Process};

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
        let (pool, properties) = unsafe { (pool.read(), &*properties) };
        if let Some(place) = place_of(process, &properties.location, properties.allocType) {
            process.memory.pools.add(pool, place);
        }
    }
    Ok(answer)
}

/// `cuMemGetDefaultMemPool` and `cuMemGetMemPool`: the pool of a place, which may be the host.
pub(crate) fn name(
    pool: *mut CUmemoryPool,
    location: *const CUmemLocation,
    kind: CUmemAllocationType,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if pool.is_null() || location.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just read the one and written the other for its caller.
        let (pool, location) = unsafe { (pool.read(), &*location) };
        let known = process.memory.pools.handles.get(ask::key(pool)).is_some();
        // A device's own is told by what the driver names as such, when it is first used.
        if !known && place_of(process, location, kind) == Some(Place::Host) {
            process.memory.pools.add(pool, Place::Host);
        }
    }
    Ok(answer)
}

/// `cuMemPoolImportFromShareableHandle`: nothing is allocated from it, and its memory is imported piece by piece.
pub(crate) fn import(
    pool: *mut CUmemoryPool,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if pool.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        process
            .memory
            .pools
            .add(unsafe { pool.read() }, Place::Imported);
    }
    Ok(answer)
}

/// `cuMemPoolTrimTo`: the driver holds less now.
pub(crate) fn trim(pool: CUmemoryPool, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let (id, device) = known(process, pool)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        process.memory.pools.settle(device, id);
    }
    Ok(answer)
}

/// `cuMemPoolDestroy`: what the pool has handed out stays until it is freed, and with it what the driver holds for the pool;
/// nobody can ask for that any more, so it is asked now, without what is not in use.
pub(crate) fn destroy(pool: CUmemoryPool, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let (id, device) = match known(process, pool) {
        Ok(known) => known,
        Err(Aside::NotDeviceMemory) => return Ok(forget(process, pool, call())),
        Err(aside) => return Err(aside),
    };
    let held = relaxed(|| {
        ask::trim(pool);
        ask::reserved(pool)
    });
    let held = held.unwrap_or(0);
    // What it still holds, with nothing handed out, waits for streams to get to where it was freed.
    let streams = process.memory.pools.emptied_on(id).filter(|_| held > 0);
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        let refund = process.memory.pools.destroyed(id, held);
        match streams {
            Some(streams) => deferred::keep(process, device, refund, held, streams.all()),
            None => device.refund(refund),
        }
    } else {
        process.memory.pools.settle(device, id);
    }
    Ok(answer)
}

/// `cuStreamDestroy`: its handle may come to stand for another stream.
pub(crate) fn stream_goes(stream: CUstream) {
    if knows_streams()
        && let Ok(process) = process::limited()
    {
        process.memory.pools.stream_goes(stream);
    }
}

/// Nothing was charged for such a pool.
fn forget(process: &Process, pool: CUmemoryPool, answer: CUresult) -> CUresult {
    let pools = &process.memory.pools;
    if answer == CUresult::CUDA_SUCCESS
        && let Some(id) = pools.handles.get(ask::key(pool))
    {
        pools.destroyed(id, 0);
    }
    answer
}

fn known(process: &Process, pool: CUmemoryPool) -> Result<(u64, &Device), Aside> {
    let pools = &process.memory.pools;
    let id = pools.handles.get(ask::key(pool)).ok_or(Aside::Unknown)?;
    match pools.place(id) {
        Some(Place::Device(number)) => {
            let device = process.devices.by_number(number.into());
            Ok((id, device.ok_or(Aside::Unknown)?))
        }
        _ => Err(Aside::NotDeviceMemory),
    }
}

/// Where the memory of a pool lies that is described so. `None`: to be asked when it is first used.
fn place_of(
    process: &'static Process,
    location: &CUmemLocation,
    kind: CUmemAllocationType,
) -> Option<Place> {
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
            // SAFETY: a plain number whatever the union holds.
            let id = unsafe { location.__bindgen_anon_1.id };
            let device = process.devices.get(id)?;
            Some(Place::Device(number_of(device)))
        }
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN => {
            // SAFETY: as above.
            let id = unsafe { location.__bindgen_anon_1.localized.deviceId };
            let device = process.devices.get(id.into())?;
            Some(Place::Device(number_of(device)))
        }
        // Managed memory is charged in full, wherever it prefers to be.
        _ if kind == CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED => {
            let device = context::current(process).ok()?.device;
            Some(Place::Device(number_of(device)))
        }
        host if ask::is_host(host) => Some(Place::Host),
        _ => None,
    }
}
