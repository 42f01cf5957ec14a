//! The primary context of a device, and green contexts, which are parts of it: their memory is the primary one's, and
//! each keeps it as a retain does.

use cuda_headers::driver::{CUcontext, CUdevice, CUgreenCtx, CUresult};

use super::known::green_key;
use super::{begin, end};
use crate::device::Device;
use crate::driver::{call, relaxed};
use crate::guard::Aside;
use crate::memory;
use crate::process::{self, Process};
use crate::time;

/// `cuDevicePrimaryCtxRetain`.
pub(crate) fn retain(
    context: *mut CUcontext,
    device: CUdevice,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if context.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let device = process.devices.get(device).ok_or(Aside::Unknown)?;
    let answer = keep(process, device, call);
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        let handle = unsafe { context.read() };
        process.contexts.add_primary(handle, device);
    }
    Ok(answer)
}

/// Calls what makes the primary context, or keeps it.
fn keep(process: &Process, device: &Device, call: &impl Fn() -> CUresult) -> CUresult {
    if !begin(process, device) {
        return CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    }
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        device.contexts.lock().primary_is_there(device);
    } else {
        end(device);
    }
    answer
}

/// `cuDevicePrimaryCtxRelease`: the driver says whether the context is gone.
pub(crate) fn release(device: CUdevice, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let device = process.devices.get(device).ok_or(Aside::Unknown)?;
    time::contexts_may_go();
    let id = process.contexts.primary_id(device);
    let paused = process.memory.deferred.pause(id);
    let _leaving = process.contexts.primary_may_go(device);
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        look(process, device);
    }
    drop(paused);
    Ok(answer)
}

/// `cuDevicePrimaryCtxReset`: its memory is gone in any case, and the context if nobody had retained it.
pub(crate) fn reset(device: CUdevice, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let device = process.devices.get(device).ok_or(Aside::Unknown)?;
    time::contexts_may_go();
    let id = process.contexts.primary_id(device);
    let _paused = process.memory.deferred.pause(id);
    let _leaving = process.contexts.primary_may_go(device);
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS
        && !look(process, device)
        && let Some(id) = id
    {
        memory::drop_context(process, id);
    }
    Ok(answer)
}

/// Looks whether the primary context is gone, and gives back what went with it. `true` if so.
fn look(process: &Process, device: &Device) -> bool {
    let id = {
        // Asked under the lock: a thread that retains it again meanwhile counts itself before and after.
        let mut contexts = device.contexts.lock();
        if !contexts.primary || is_active(device.handle()) {
            return false;
        }
        contexts.primary_has_ended()
    };
    if let Some(id) = id {
        process.contexts.forget_all(id);
        memory::drop_context(process, id);
    }
    end(device);
    true
}

fn is_active(device: CUdevice) -> bool {
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

/// `cuGreenCtxCreate`: retains the primary context.
pub(crate) fn create_green(
    green: *mut CUgreenCtx,
    device: CUdevice,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if green.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let device = process.devices.get(device).ok_or(Aside::Unknown)?;
    let answer = keep(process, device, call);
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        let green = unsafe { green.read() };
        let number = u16::try_from(device.number).unwrap_or(0);
        let _ = process.contexts.greens.insert(green_key(green), number);
    }
    Ok(answer)
}

/// `cuCtxFromGreenCtx`: another handle of the primary context, as far as memory goes.
pub(crate) fn from_green(
    context: *mut CUcontext,
    green: CUgreenCtx,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let number = process.contexts.greens.get(green_key(green));
    let device = number.and_then(|number| process.devices.by_number(number.into()));
    let device = device.ok_or(Aside::Unknown)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS && !context.is_null() {
        // SAFETY: the driver has just written it for its caller.
        let handle = unsafe { context.read() };
        process.contexts.add_primary(handle, device);
    }
    Ok(answer)
}

/// `cuGreenCtxDestroy`: releases the primary context.
pub(crate) fn destroy_green(
    green: CUgreenCtx,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let contexts = &process.contexts;
    let number = contexts.greens.remove(green_key(green));
    let number = number.ok_or(Aside::Unknown)?;
    let mut handle = CUcontext(core::ptr::null_mut());
    // SAFETY: a live out-pointer and the caller's own handle.
    let found = relaxed(|| unsafe { call!(cuCtxFromGreenCtx(&raw mut handle, green)) });
    let known = if found == CUresult::CUDA_SUCCESS {
        time::context_goes(handle);
        contexts.take(handle)
    } else {
        time::contexts_may_go();
        None
    };
    let id = known.as_ref().map(|known| known.id);
    let _paused = process.memory.deferred.pause(id);
    let device = process.devices.by_number(number.into());
    let _leaving = device.map(|device| contexts.primary_may_go(device));
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        let _ = contexts.greens.insert(green_key(green), number);
        if let Some(known) = known {
            contexts.put_back(handle, known);
        }
        return Ok(answer);
    }
    if let Some(known) = known {
        process.memory.deferred.context_gone(process, known.id);
    }
    if let Some(device) = device {
        look(process, device);
    }
    Ok(answer)
}
