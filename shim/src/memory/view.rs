//! What a program sees of a device's memory: its quota, wherever it asks.

use cuda_headers::driver::{CUdevice, CUresult};

use super::linear::Size;
use crate::context;
use crate::device::Device;
use crate::guard::Aside;
use crate::process::{self, Process};

/// A device's memory as it is shown.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct View {
    pub(crate) total: u64,
    pub(crate) free: u64,
}

impl View {
    /// Of a device with so much memory and so much of it free, under a limit of which `usage` is in use.
    pub(crate) fn new(real_total: u64, real_free: u64, limit: u64, usage: u64) -> Self {
        Self {
            total: real_total.min(limit),
            free: real_free.min(limit.saturating_sub(usage)),
        }
    }
}

/// `cuMemGetInfo`: the driver is asked, and its answer cut to the quota.
pub(crate) fn info<S: Size + TryFrom<u64>>(
    free: *mut S,
    total: *mut S,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let device = context::current(process)?.device;
    let limit = device.shown_limit().ok_or(Aside::NotLimited)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        let usage = usage(process, device);
        // SAFETY: the driver has just written for its caller what is not NULL.
        unsafe {
            let real = (read(total), read(free));
            let view = View::new(real.0, real.1, limit, usage);
            write(total, view.total);
            write(free, view.free);
        }
    }
    Ok(answer)
}

/// What the group holds of a device, pools and graphs as the driver holds them now, and what no ledger knows of: the same
/// wherever it is shown.
pub(crate) fn usage(process: &Process, device: &Device) -> u64 {
    super::refresh(process, device);
    device.shown_usage().saturating_add(device.overhead())
}

/// `cuDeviceTotalMem`.
pub(crate) fn total<S: Size + TryFrom<u64>>(
    bytes: *mut S,
    device: CUdevice,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if bytes.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let device = process.devices.get(device).ok_or(Aside::Unknown)?;
    let limit = device.shown_limit().ok_or(Aside::NotLimited)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        unsafe { write(bytes, read(bytes).min(limit)) };
    }
    Ok(answer)
}

/// # Safety
/// `place` is NULL or may be read.
unsafe fn read<S: Size>(place: *mut S) -> u64 {
    if place.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { place.read() }.try_into().unwrap_or(u64::MAX)
}

/// Writes a size that is never larger than the one the driver wrote, and so fits.
///
/// # Safety
/// `place` is NULL or may be written.
unsafe fn write<S: TryFrom<u64>>(place: *mut S, size: u64) {
    if let Ok(size) = S::try_from(size)
        && !place.is_null()
    {
        // SAFETY: the caller's promise.
        unsafe { place.write(size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_above_the_limit_leaves_nothing_free() {
        let view = View::new(24 << 30, 20 << 30, 1 << 30, 2 << 30);
        assert_eq!((view.total, view.free), (1 << 30, 0));
    }

    #[test]
    fn a_limit_above_the_device_shows_the_device() {
        let view = View::new(24 << 30, 20 << 30, 80 << 30, 1 << 30);
        assert_eq!((view.total, view.free), (24 << 30, 20 << 30));
    }
}
