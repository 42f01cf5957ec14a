//! Stream-ordered memory: the driver takes it from the device pool by pool, ahead of what it hands out.
//!
//! A pool is charged the larger of what has been handed out and what the driver holds for it. Requests reserve what they
//! add to that before the driver is called, and are corrected by what the driver then holds. What the driver holds without
//! need is given back before anybody is refused.

use cuda_headers::driver::{
    CUdeviceptr, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUresult,
    CUstream, CUstreamCaptureStatus,
};

use super::{Owner, Record, number_of, remember, reserve, rounded};
use crate::context;
use crate::device::Device;
use crate::driver::{call, relaxed};
use crate::guard::Aside;
use crate::process::{self, Process};
use crate::table::Table;

/// Pools that are looked at before a refusal; a program has one or two for each device.
const LOOKED_AT: usize = 64;

/// The pools that this process has allocated from.
pub(crate) struct Pools {
    known: Table<Pool>,
}

#[derive(Copy, Clone)]
struct Pool {
    /// Number of its device; `None` if its memory is not a device's.
    device: Option<u16>,
    /// Bytes handed out.
    handed: u64,
    /// Bytes that the driver held when it was last asked.
    reserved: u64,
    /// Bytes charged.
    charged: u64,
    /// Destroyed; what it has handed out stays until it is freed.
    destroyed: bool,
}

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

impl Pools {
    pub(crate) const fn new() -> Self {
        Self {
            known: Table::new(),
        }
    }

    /// Takes note of memory that went back to its pool.
    pub(super) fn freed(&self, device: &Device, key: u64, bytes: u64) {
        let refund = self.change(key, |pool| {
            pool.handed = pool.handed.saturating_sub(bytes);
            pool.lower()
        });
        device.refund(refund);
        self.forget(key);
    }

    /// Gives the device's pools' slack back to it. `true` if that made room.
    pub(super) fn trim(&self, device: &Device) -> bool {
        let mut room = false;
        self.each_of(device, |key, handle| {
            trim(handle);
            room |= self.settle(device, key) > 0;
        });
        room
    }

    /// Asks the driver what it holds for the device's pools now.
    pub(super) fn refresh(&self, device: &Device) {
        self.each_of(device, |key, _| {
            self.settle(device, key);
        });
    }

    /// Corrects a pool's charge by what the driver holds for it, whether it fits or not. Bytes given back.
    fn settle(&self, device: &Device, key: u64) -> u64 {
        let (refund, growth) = self.learn(key);
        device.refund(refund);
        if growth > 0 {
            device.charge(growth);
            self.grow(key, growth);
        }
        refund
    }

    /// The same where what has just been allocated can still be undone: `false` if it does not fit.
    fn admit(&self, device: &Device, key: u64) -> bool {
        for make_room in [true, false] {
            let (refund, growth) = self.learn(key);
            device.refund(refund);
            if growth == 0 {
                return true;
            }
            if let Some(reservation) = device.reserve(growth) {
                reservation.keep();
                self.grow(key, growth);
                return true;
            }
            if make_room {
                process::reap();
                trim(handle(key));
                self.each_of(device, |other, handle| {
                    if other != key {
                        trim(handle);
                        self.settle(device, other);
                    }
                });
            } else {
                device.denied(growth);
            }
        }
        false
    }

    /// Asks the driver what it holds for a pool, and lowers its charge. What to give back, and what is charged too little.
    fn learn(&self, key: u64) -> (u64, u64) {
        let Some(reserved) = reserved(handle(key)) else {
            return (0, 0);
        };
        let correct = |pool: &mut Pool| {
            pool.reserved = reserved;
            (pool.lower(), pool.wanted().saturating_sub(pool.charged))
        };
        self.known.with(key, correct).unwrap_or((0, 0))
    }

    fn grow(&self, key: u64, growth: u64) {
        self.change(key, |pool| {
            pool.charged = pool.charged.saturating_add(growth);
            0
        });
    }

    /// The pool that an allocation is taken from, and its device.
    fn find<'a>(
        &self,
        process: &'a Process,
        pool: Option<CUmemoryPool>,
        current: &'a Device,
    ) -> Result<(u64, &'a Device), Aside> {
        let pool = pool.or_else(|| current_pool(current));
        // A driver that does not tell the pool: a name for it that is no handle.
        let key = pool.map_or(u64::from(number_of(current)) + 1, key);
        let owner = || {
            process
                .devices
                .iter()
                .find(|device| pool.is_some() && default_pool(device) == pool)
                .unwrap_or(current)
        };
        let known = match self.known.get(key) {
            Some(known) if !known.destroyed => known,
            _ => self
                .known
                .get_or_insert(key, Pool::new(Some(number_of(owner()))))
                .map_err(|_| Aside::Unknown)?,
        };
        let number = known.device.ok_or(Aside::NotDeviceMemory)?;
        let device = process.devices.by_number(number.into());
        Ok((key, device.ok_or(Aside::Unknown)?))
    }

    fn change(&self, key: u64, change: impl FnOnce(&mut Pool) -> u64) -> u64 {
        self.known.with(key, change).unwrap_or(0)
    }

    /// Forgets a destroyed pool that has nothing left.
    fn forget(&self, key: u64) {
        self.known
            .remove_if(key, |pool| pool.destroyed && pool.handed == 0);
    }

    /// Calls `visit` for each living pool of a device; not under the table's lock.
    fn each_of(&self, device: &Device, mut visit: impl FnMut(u64, CUmemoryPool)) {
        if self.known.is_empty() {
            return;
        }
        let mut keys = [0; LOOKED_AT];
        let mut count = 0;
        self.known.for_each(|key, pool| {
            if pool.device == Some(number_of(device))
                && !pool.destroyed
                && let Some(place) = keys.get_mut(count)
            {
                *place = key;
                count += 1;
            }
        });
        for key in keys.into_iter().take(count) {
            visit(key, handle(key));
        }
    }
}

impl Pool {
    fn new(device: Option<u16>) -> Self {
        Self {
            device,
            handed: 0,
            reserved: 0,
            charged: 0,
            destroyed: false,
        }
    }

    /// What it should be charged.
    fn wanted(&self) -> u64 {
        self.handed.max(self.reserved)
    }

    /// Hands out `bytes`; what that adds to the charge.
    fn hand_out(&mut self, bytes: u64) -> u64 {
        self.handed = self.handed.saturating_add(bytes);
        let growth = self.handed.saturating_sub(self.charged);
        self.charged = self.charged.saturating_add(growth);
        growth
    }

    /// Undoes [`Self::hand_out`], whose growth was not admitted.
    fn take_back(&mut self, bytes: u64, growth: u64) -> u64 {
        self.handed = self.handed.saturating_sub(bytes);
        self.charged = self.charged.saturating_sub(growth);
        0
    }

    /// Lowers the charge to what is wanted; what to give back.
    fn lower(&mut self) -> u64 {
        let refund = self.charged.saturating_sub(self.wanted());
        self.charged -= refund;
        refund
    }

    fn destroy(&mut self) -> u64 {
        self.destroyed = true;
        self.reserved = 0;
        self.lower()
    }
}

/// Whether a stream is being captured. One that may not be asked now is not: the driver will refuse the call itself.
fn is_capturing((stream, default): (CUstream, Default)) -> bool {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a live out-pointer and the caller's own stream.
    let answer = relaxed(|| unsafe {
        match default {
            Default::Legacy => call!(cuStreamIsCapturing(stream, &raw mut status)),
            Default::PerThread => call!(cuStreamIsCapturing_ptsz(stream, &raw mut status)),
        }
    });
    answer == CUresult::CUDA_SUCCESS
        && status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}

/// # Safety
/// `address` is the caller's to free, `stream` alive.
unsafe fn free_again(address: CUdeviceptr, (stream, default): (CUstream, Default)) {
    // SAFETY: the caller's promise.
    let _ = relaxed(|| unsafe {
        match default {
            Default::Legacy => call!(cuMemFreeAsync(address, stream)),
            Default::PerThread => call!(cuMemFreeAsync_ptsz(address, stream)),
        }
    });
}

fn trim(pool: CUmemoryPool) {
    // SAFETY: the handle of a pool that has not been destroyed.
    let _ = relaxed(|| unsafe { call!(cuMemPoolTrimTo(pool, 0)) });
}

fn current_pool(device: &Device) -> Option<CUmemoryPool> {
    let mut pool = CUmemoryPool(core::ptr::null_mut());
    // SAFETY: a live out-pointer.
    let answer = relaxed(|| unsafe { call!(cuDeviceGetMemPool(&raw mut pool, device.handle())) });
    (answer == CUresult::CUDA_SUCCESS && !pool.0.is_null()).then_some(pool)
}

fn default_pool(device: &Device) -> Option<CUmemoryPool> {
    let mut pool = CUmemoryPool(core::ptr::null_mut());
    // SAFETY: a live out-pointer.
    let answer =
        relaxed(|| unsafe { call!(cuDeviceGetDefaultMemPool(&raw mut pool, device.handle())) });
    (answer == CUresult::CUDA_SUCCESS && !pool.0.is_null()).then_some(pool)
}

/// Bytes that the driver holds for a pool.
fn reserved(pool: CUmemoryPool) -> Option<u64> {
    if pool.0.addr() <= usize::from(u16::MAX) + 1 {
        // The name of a pool that the driver did not tell.
        return None;
    }
    let mut bytes = 0_u64;
    let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    // SAFETY: a pool's handle and room for the attribute, which is 64 bits wide.
    let answer = relaxed(|| unsafe {
        call!(cuMemPoolGetAttribute(
            pool,
            attribute,
            (&raw mut bytes).cast()
        ))
    });
    (answer == CUresult::CUDA_SUCCESS).then_some(bytes)
}

fn key(pool: CUmemoryPool) -> u64 {
    u64::try_from(pool.0.expose_provenance()).unwrap_or(0)
}

fn handle(key: u64) -> CUmemoryPool {
    CUmemoryPool(core::ptr::with_exposed_provenance_mut(
        usize::try_from(key).unwrap_or(0),
    ))
}
