//! Contexts: which device the calling thread works on, what a context is charged, what goes when it is destroyed.
//!
//! A process is charged one constant for each device on which it has contexts, from before the first is made until the last
//! is gone.

use cuda_headers::driver::{CUcontext, CUdevice, CUgreenCtx, CUresult};
use quota_abi::sync::{AtomicU32, Ordering};

use crate::device::Device;
use crate::driver::{call, relaxed};
use crate::guard::Aside;
use crate::memory;
use crate::process::{self, Process};
use crate::recent::Recent;
use crate::table::Table;
use crate::time;

/// The contexts of this process by handle.
pub(crate) struct Contexts {
    known: Table<Known>,
    recent: Recent,
    next: AtomicU32,
}

/// What is known of a handle.
#[derive(Copy, Clone)]
struct Known {
    id: u32,
    device: u16,
    primary: bool,
}

/// A context as a hook sees it.
#[derive(Copy, Clone)]
pub(crate) struct Context<'a> {
    /// Its number in this process, never used again: a new context may get an old handle.
    pub(crate) id: u32,
    pub(crate) device: &'a Device,
}

/// This process's contexts on one device.
#[derive(Default)]
pub(crate) struct DeviceContexts {
    /// How many there are, those in the making included.
    count: u32,
    /// Whether the primary one is among them.
    primary: bool,
    /// Whether they are charged.
    charged: bool,
}

/// The context that is current on the calling thread.
#[inline]
pub(crate) fn current(process: &'static Process) -> Result<Context<'static>, Aside> {
    let mut handle = CUcontext(core::ptr::null_mut());
    // SAFETY: a live out-pointer; reads the calling thread's state and nothing else.
    let answer = unsafe { call!(cuCtxGetCurrent(&raw mut handle)) };
    if answer != CUresult::CUDA_SUCCESS || handle.0.is_null() {
        return Err(Aside::NoContext);
    }
    let contexts = &process.contexts;
    let known = match contexts.recent.get(key(handle)) {
        Some(facts) => Known::unpack(facts),
        None => contexts
            .find(handle)
            .map_or_else(|| meet(process, handle), Ok)?,
    };
    let device = process.devices.by_number(known.device.into());
    Ok(Context {
        id: known.id,
        device: device.ok_or(Aside::Unknown)?,
    })
}

/// The device of a context that may not be current, if it is known.
pub(crate) fn device_of(process: &'static Process, handle: CUcontext) -> Option<&'static Device> {
    let known = process.contexts.known.get(key(handle))?;
    process.devices.by_number(known.device.into())
}

/// `cuCtxCreate` in all its forms.
pub(crate) fn create(
    context: *mut CUcontext,
    device: CUdevice,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if context.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let device = process.devices.get(device).ok_or(Aside::Unknown)?;
    if !begin(process, device) {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        let handle = unsafe { context.read() };
        process.contexts.add(handle, device, false);
        time::context_changed();
    } else {
        end(device);
    }
    Ok(answer)
}

/// `cuCtxDestroy`: with a context go the linear, managed and array memory allocated in it.
pub(crate) fn destroy(handle: CUcontext, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    // Forgotten before the driver is called: afterwards another thread may get the same handle for a new context.
    let known = process.contexts.take(handle).ok_or(Aside::Unknown)?;
    time::context_goes(handle);
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        gone(process, known);
    } else {
        let _ = process.contexts.known.get_or_insert(key(handle), known);
    }
    Ok(answer)
}

/// `cuGreenCtxDestroy`: the context that was made from a green one goes with it.
pub(crate) fn destroy_green(
    green: CUgreenCtx,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    process::limited()?;
    let mut handle = CUcontext(core::ptr::null_mut());
    // SAFETY: a live out-pointer and the caller's own handle.
    let answer = relaxed(|| unsafe { call!(cuCtxFromGreenCtx(&raw mut handle, green)) });
    if answer != CUresult::CUDA_SUCCESS {
        return Err(Aside::Unknown);
    }
    destroy(handle, call)
}

/// `cuDevicePrimaryCtxRetain`.
pub(crate) fn retain_primary(
    context: *mut CUcontext,
    device: CUdevice,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if context.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let device = process.devices.get(device).ok_or(Aside::Unknown)?;
    if !begin(process, device) {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        end(device);
        return Ok(answer);
    }
    // SAFETY: the driver has just written it for its caller.
    process
        .contexts
        .add(unsafe { context.read() }, device, true);
    let mut contexts = device.contexts.lock();
    if core::mem::replace(&mut contexts.primary, true) {
        // It was there already; only the count of this call goes.
        contexts.end(device);
    }
    Ok(answer)
}

/// `cuDevicePrimaryCtxRelease`: the driver says whether the context is gone.
pub(crate) fn release_primary(
    device: CUdevice,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    primary_may_be_gone(device, false, call)
}

/// `cuDevicePrimaryCtxReset`: its memory is gone in any case, and the context if nobody had retained it.
pub(crate) fn reset_primary(
    device: CUdevice,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    primary_may_be_gone(device, true, call)
}

fn primary_may_be_gone(
    number: CUdevice,
    emptied: bool,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let device = process.devices.get(number).ok_or(Aside::Unknown)?;
    time::contexts_may_go();
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        return Ok(answer);
    }
    let ended = {
        // Asked under the lock: a thread that retains it again meanwhile counts itself before and after.
        let mut contexts = device.contexts.lock();
        let ended = contexts.primary && !is_primary_active(number);
        if ended {
            contexts.primary = false;
        }
        ended
    };
    let is_it = |known: &Known| known.primary && usize::from(known.device) == device.number;
    if ended {
        let goes = |_: u64, known: &Known| is_it(known);
        process.contexts.known.sweep(goes, |handle, known| {
            process.contexts.recent.forget(handle);
            gone(process, known);
        });
    } else if emptied {
        process.contexts.known.for_each(|_, known| {
            if is_it(known) {
                memory::drop_context(process, known.id);
            }
        });
    }
    Ok(answer)
}

fn is_primary_active(device: CUdevice) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: live out-pointers.
    let answer = relaxed(|| unsafe {
        call!(cuDevicePrimaryCtxGetState(
            device,
            &raw mut flags,
            &raw mut active
        ))
    });
    answer != CUresult::CUDA_SUCCESS || active != 0
}

/// What a destroyed context leaves: its memory is gone, and its charge if it was the last.
fn gone(process: &Process, known: Known) {
    memory::drop_context(process, known.id);
    if let Some(device) = process.devices.by_number(known.device.into()) {
        end(device);
    }
}

/// A current context that no hook has seen being made: charged now, whether it fits or not.
#[cold]
fn meet(process: &'static Process, handle: CUcontext) -> Result<Known, Aside> {
    let mut number: CUdevice = 0;
    // SAFETY: a live out-pointer; reads the calling thread's state and nothing else.
    let answer = unsafe { call!(cuCtxGetDevice(&raw mut number)) };
    if answer != CUresult::CUDA_SUCCESS {
        return Err(Aside::NoContext);
    }
    let device = process.devices.get(number).ok_or(Aside::Unknown)?;
    {
        let mut contexts = device.contexts.lock();
        if !contexts.join() {
            device.charge(device.context_charge);
            contexts.charged = true;
            contexts.count = 1;
        }
    }
    Ok(process.contexts.add(handle, device, false))
}

/// Counts a context in the making, and charges the first one. `false` if it does not fit.
fn begin(process: &Process, device: &Device) -> bool {
    if device.contexts.lock().join() {
        return true;
    }
    // Not under the lock: the memory may have to be waited for.
    let Some(reservation) = memory::reserve(process, device, device.context_charge) else {
        return false;
    };
    let mut contexts = device.contexts.lock();
    if contexts.join() {
        // Another thread was first.
        drop(contexts);
        drop(reservation);
        return true;
    }
    contexts.count = 1;
    contexts.charged = true;
    reservation.keep();
    true
}

fn end(device: &Device) {
    device.contexts.lock().end(device);
}

impl DeviceContexts {
    /// Counts one more if there are any.
    fn join(&mut self) -> bool {
        if self.charged {
            self.count += 1;
        }
        self.charged
    }

    /// Counts one less, and gives the charge back with the last.
    fn end(&mut self, device: &Device) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 && core::mem::take(&mut self.charged) {
            device.refund(device.context_charge);
        }
    }
}

impl Contexts {
    pub(crate) const fn new() -> Self {
        Self {
            known: Table::new(),
            recent: Recent::new(),
            next: AtomicU32::new(1),
        }
    }

    /// Finds a context, and keeps it at hand. Kept under the table's lock, so that what is being taken is not kept.
    #[cold]
    fn find(&self, handle: CUcontext) -> Option<Known> {
        let key = key(handle);
        self.known.with(key, |known| {
            self.recent.put(key, known.pack());
            *known
        })
    }

    /// Forgets a context that is about to be destroyed.
    fn take(&self, handle: CUcontext) -> Option<Known> {
        let known = self.known.remove(key(handle));
        self.recent.forget(key(handle));
        known
    }

    /// Adds a context, or finds the one of the same handle.
    fn add(&self, handle: CUcontext, device: &Device, primary: bool) -> Known {
        let fresh = Known {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            device: u16::try_from(device.number).unwrap_or(0),
            primary,
        };
        self.known
            .get_or_insert(key(handle), fresh)
            .unwrap_or(fresh)
    }
}

impl Known {
    fn pack(self) -> u64 {
        u64::from(self.id) << 32 | u64::from(self.device) << 1 | u64::from(self.primary)
    }

    fn unpack(facts: u64) -> Self {
        Self {
            id: u32::try_from(facts >> 32).unwrap_or(0),
            device: u16::try_from(facts >> 1 & 0xffff).unwrap_or(0),
            primary: facts & 1 != 0,
        }
    }
}

fn key(handle: CUcontext) -> u64 {
    u64::try_from(handle.0.addr()).unwrap_or(0)
}
