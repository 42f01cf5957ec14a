//! The one context of a device that the runtime API shares: retained and released, not created.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_headers::driver::{CUcontext, CUdevice, CUresult};

use super::lifecycle::NULL_MODE_HANDLE;
use super::{Context, allocate, bring_to_life, check_flags, end};
use crate::entry::{answer, entry, out};
use crate::{capture, device};

struct Primary {
    context: &'static Context,
    retained: u32,
}

static PRIMARIES: Mutex<Option<HashMap<CUdevice, Primary>>> = Mutex::new(None);

fn primaries() -> MutexGuard<'static, Option<HashMap<CUdevice, Primary>>> {
    PRIMARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device's record; its handle stays the same over retain and release.
fn primary(
    primaries: &mut Option<HashMap<CUdevice, Primary>>,
    dev: CUdevice,
) -> Result<&mut Primary, CUresult> {
    device::core_index(dev)?;
    match primaries.get_or_insert_default().entry(dev) {
        Entry::Occupied(found) => Ok(found.into_mut()),
        Entry::Vacant(free) => {
            let context = allocate(dev, 0, true)?;
            let retained = 0;
            Ok(free.insert(Primary { context, retained }))
        }
    }
}

/// One more user, who may be the first.
pub(super) fn retain(dev: CUdevice) -> Result<&'static Context, CUresult> {
    let mut all = primaries();
    let primary = primary(&mut all, dev)?;
    if !primary.context.is_alive() {
        capture::check_unsafe_call()?;
        bring_to_life(primary.context)?;
    }
    primary.retained += 1;
    Ok(primary.context)
}

pub(super) fn release(dev: CUdevice) -> Result<(), CUresult> {
    let mut all = primaries();
    let primary = primary(&mut all, dev)?;
    if primary.retained == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
    }
    primary.retained -= 1;
    if primary.retained == 0 {
        let context = primary.context;
        drop(all);
        end(context);
    }
    Ok(())
}

/// Ends the context, whoever uses it. It stays retained, and the next to retain it gets it back empty.
fn reset(dev: CUdevice) -> Result<(), CUresult> {
    let mut all = primaries();
    let context = primary(&mut all, dev)?.context;
    drop(all);
    end(context);
    Ok(())
}

fn set_flags(dev: CUdevice, flags: c_uint) -> Result<(), CUresult> {
    check_flags(flags)?;
    let mut all = primaries();
    let primary = primary(&mut all, dev)?;
    primary.context.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

entry! {
    fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice),
    null { answer(out(pctx, CUcontext(NULL_MODE_HANDLE as *mut _))) } {
        if pctx.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(pctx, retain(dev)?.handle)
    }

    fn cuDevicePrimaryCtxRelease(dev: CUdevice) {
        release(dev)
    }

    fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) {
        release(dev)
    }

    fn cuDevicePrimaryCtxReset(dev: CUdevice) {
        reset(dev)
    }

    fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) {
        reset(dev)
    }

    fn cuDevicePrimaryCtxSetFlags(dev: CUdevice, flags: c_uint) {
        set_flags(dev, flags)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: c_uint) {
        set_flags(dev, flags)
    }

    fn cuDevicePrimaryCtxGetState(dev: CUdevice, flags: *mut c_uint, active: *mut c_int),
    null { answer(out(flags, 0).and_then(|()| out(active, 1))) } {
        if flags.is_null() || active.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut all = primaries();
        let primary = primary(&mut all, dev)?;
        out(flags, primary.context.flags.load(Ordering::Relaxed))?;
        out(active, c_int::from(primary.context.is_alive()))
    }
}
