//! Contexts: which device the calling thread works on, what a context is charged, what goes when it is destroyed.
//!
//! A process is charged one constant for each device on which it has contexts, from before the first is made until the last
//! is gone. Further contexts of the same process on the same device add little to the first one (page tables, a default
//! stream) and are within the constant; so are code, small module variables, and the defaults of `cuCtxSetLimit`.

mod known;
pub(crate) mod limits;
pub(crate) mod primary;

use cuda_headers::driver::{CUcontext, CUdevice, CUresult, CUstream};

use self::known::Known;
pub(crate) use self::known::{Contexts, DeviceContexts};
use crate::device::Device;
use crate::driver::call;
use crate::guard::Aside;
use crate::memory;
use crate::process::{self, Process};
use crate::time;

/// A context as a hook sees it.
#[derive(Copy, Clone)]
pub(crate) struct Context<'a> {
    /// Its number in this process, never used again: a new context may get an old handle.
    pub(crate) id: u32,
    pub(crate) device: &'a Device,
    /// How many contexts had ended when it was looked at.
    ends: u32,
}

/// The context that is current on the calling thread.
#[inline]
pub(crate) fn current(process: &'static Process) -> Result<Context<'static>, Aside> {
    let ends = process.contexts.ends();
    let mut handle = CUcontext(core::ptr::null_mut());
    // SAFETY: a live out-pointer; reads the calling thread's state and nothing else.
    let answer = unsafe { call!(cuCtxGetCurrent(&raw mut handle)) };
    if answer != CUresult::CUDA_SUCCESS || handle.0.is_null() {
        return Err(Aside::NoContext);
    }
    let contexts = &process.contexts;
    let known = match contexts.recent(handle) {
        Some(known) => known,
        None => contexts
            .find(handle)
            .map_or_else(|| meet(process, handle), Ok)?,
    };
    let device = process.devices.by_number(known.device.into());
    Ok(Context {
        id: known.id,
        device: device.ok_or(Aside::Unknown)?,
        ends,
    })
}

impl Context<'_> {
    /// Whether it has ended since: what another thread allocated in it meanwhile is gone with it, and was perhaps not yet
    /// known when its memory was given back.
    #[inline]
    pub(crate) fn is_gone(&self, process: &Process) -> bool {
        process.contexts.ends() != self.ends && has_ended(process, self.id)
    }
}

/// Whether the context of a number is gone. The primary one may live without a handle that is known, by a green one.
#[cold]
pub(crate) fn has_ended(process: &Process, id: u32) -> bool {
    let is_primary = |device: &Device| device.contexts.lock().primary_id() == id;
    process.contexts.is_unknown(id) && !process.devices.iter().any(is_primary)
}

/// Whether the context of a number lives and nothing is under way that may end it.
#[cold]
pub(crate) fn stays(process: &Process, id: u32) -> bool {
    for device in process.devices.iter() {
        let contexts = device.contexts.lock();
        if contexts.primary_id() == id {
            return contexts.primary_stays();
        }
    }
    process.contexts.stays(id)
}

/// The device of a context that may not be current, if it is known.
pub(crate) fn device_of(process: &'static Process, handle: CUcontext) -> Option<&'static Device> {
    let known = process.contexts.find(handle)?;
    process.devices.by_number(known.device.into())
}

/// The context of a stream and its number here; the current one of a default stream.
pub(crate) fn of_stream(process: &'static Process, stream: CUstream) -> Option<(CUcontext, u32)> {
    let mut handle = CUcontext(core::ptr::null_mut());
    // SAFETY: a live out-pointer, and a stream that lives.
    let answer = unsafe { call!(cuStreamGetCtx(stream, &raw mut handle)) };
    let known = process
        .contexts
        .find(handle)
        .filter(|_| answer == CUresult::CUDA_SUCCESS)?;
    Some((handle, known.id))
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
        let counted = process.contexts.add(handle, device);
        if let Some(device) = counted.and_then(|number| process.devices.by_number(number.into())) {
            end(device);
        }
        time::context_changed();
    } else {
        end(device);
    }
    Ok(answer)
}

/// `cuCtxDestroy`: with a context go the linear, managed and array memory allocated in it.
pub(crate) fn destroy(handle: CUcontext, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    // Known until the driver has destroyed it: another thread that has it current would take it for one made unseen.
    let known = process.contexts.find(handle).ok_or(Aside::Unknown)?;
    time::context_goes(handle);
    let paused = process.memory.deferred.pause(Some(known.id));
    process.contexts.goes(handle, known.id);
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        process.contexts.ended(handle, known.id);
        gone(process, known);
    } else {
        process.contexts.stays_after_all(handle, known.id);
    }
    drop(paused);
    Ok(answer)
}

/// `cuCtxAttach`: one more user of the current context.
pub(crate) fn attach(call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let context = current(process)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        process.contexts.attached(context.id);
    }
    Ok(answer)
}

/// `cuCtxDetach`: a user less; with the last one goes the context.
pub(crate) fn detach(handle: CUcontext, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    if !process.contexts.is_shared(handle) {
        return destroy(handle, call);
    }
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        process.contexts.detached(handle);
    }
    Ok(answer)
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
    let device = device_now(process)?;
    {
        // Counted before it is known: whoever makes it and finds it known counts it once less.
        let mut contexts = device.contexts.lock();
        if !contexts.join() {
            let charge = device.context_charge();
            device.charge(charge);
            contexts.charged = Some(charge);
            contexts.count = 1;
        }
    }
    let (known, new) = process.contexts.meet(handle, device);
    if !new {
        // Of several threads that meet it, one counts it.
        end(device);
        return Ok(known);
    }
    if device_now(process).is_ok_and(|other| core::ptr::eq(other, device)) {
        return Ok(known);
    }
    // It has ended since the driver was asked, and its handle may be another's.
    if process.contexts.unmeet(handle, known.id) {
        end(device);
    }
    meet(process, handle)
}

/// The device of the current context, if that lives.
fn device_now(process: &'static Process) -> Result<&'static Device, Aside> {
    let mut number: CUdevice = 0;
    // SAFETY: a live out-pointer; reads the calling thread's state and nothing else.
    let answer = unsafe { call!(cuCtxGetDevice(&raw mut number)) };
    if answer != CUresult::CUDA_SUCCESS {
        return Err(Aside::NoContext);
    }
    process.devices.get(number).ok_or(Aside::Unknown)
}

/// Counts a context in the making, and charges the first one. `false` if it does not fit.
fn begin(process: &Process, device: &Device) -> bool {
    if device.contexts.lock().join() {
        return true;
    }
    // Not under the lock: the memory may have to be waited for.
    let Some(reservation) = memory::reserve(process, device, device.context_charge()) else {
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
    contexts.charged = Some(reservation.bytes());
    reservation.keep();
    true
}

fn end(device: &Device) {
    device.contexts.lock().end(device);
}
