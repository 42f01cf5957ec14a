//! NVML's view of a device's memory: the same figures as the driver's.

use cuda_headers::nvml::{
    nvmlDevice_t, nvmlDeviceAttributes_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlReturn_t,
};

use super::viewer::Viewer;
use crate::guard::Aside;
use crate::memory::view::View;

/// A memory info of either version.
pub(crate) trait Info: Copy {
    fn total(&self) -> u64;
    fn free(&self) -> u64;
    /// Shows `view`, of which `usage` is in use.
    fn show(&mut self, view: View, usage: u64);
}

impl Info for nvmlMemory_t {
    fn total(&self) -> u64 {
        self.total
    }

    fn free(&self) -> u64 {
        self.free
    }

    fn show(&mut self, view: View, _usage: u64) {
        self.total = view.total;
        self.free = view.free;
        self.used = view.total - view.free.min(view.total);
    }
}

impl Info for nvmlMemory_v2_t {
    fn total(&self) -> u64 {
        self.total
    }

    fn free(&self) -> u64 {
        self.free
    }

    /// What is neither free nor ours is what others have taken of the device: reserved, as far as this program goes.
    fn show(&mut self, view: View, usage: u64) {
        let taken = view.total - view.free.min(view.total);
        self.total = view.total;
        self.free = view.free;
        self.used = usage.min(taken);
        self.reserved = taken - self.used;
    }
}

/// `nvmlDeviceGetMemoryInfo`: NVML is asked, and its answer cut to the quota.
pub(crate) fn info<I: Info>(
    device: nvmlDevice_t,
    memory: *mut I,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if memory.is_null() {
        return Err(Aside::DriverDecides);
    }
    let viewer = Viewer::get()?;
    let answer = call();
    if answer != nvmlReturn_t::NVML_SUCCESS {
        return Ok(answer);
    }
    if let Some(share) = viewer.share(device)
        && let Some(limit) = share.limit
    {
        // SAFETY: NVML has just written it for its caller.
        let memory = unsafe { &mut *memory };
        let view = View::new(memory.total(), memory.free(), limit, share.usage);
        memory.show(view, share.usage);
    }
    Ok(answer)
}

/// `nvmlDeviceGetAttributes`: what an instance says of its own size.
pub(crate) fn attributes(
    device: nvmlDevice_t,
    attributes: *mut nvmlDeviceAttributes_t,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if attributes.is_null() {
        return Err(Aside::DriverDecides);
    }
    let viewer = Viewer::get()?;
    let answer = call();
    if answer == nvmlReturn_t::NVML_SUCCESS
        && let Some(limit) = viewer.share(device).and_then(|share| share.limit)
    {
        // SAFETY: NVML has just written it for its caller.
        let size = unsafe { &mut (*attributes).memorySizeMB };
        *size = (*size).min(limit >> 20);
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// At the limit, over it, with a device that others fill, with a limit larger than the device, and with words that no
    /// sane process wrote: nothing wraps, and the parts make the whole.
    #[test]
    fn both_versions_add_up() {
        // SAFETY: plain numbers.
        let (mut one, mut two): (nvmlMemory_t, nvmlMemory_v2_t) = unsafe { core::mem::zeroed() };
        for limit in [1, GIB, 24 * GIB, 80 * GIB, u64::MAX] {
            for real_free in [0, 10 << 20, 20 * GIB, 24 * GIB] {
                for usage in [0, 1 << 20, GIB, 9 * GIB, 90 * GIB, u64::MAX] {
                    let view = View::new(24 * GIB, real_free, limit, usage);
                    one.show(view, usage);
                    two.show(view, usage);
                    assert_eq!(one.total, limit.min(24 * GIB));
                    assert_eq!(one.used.checked_add(one.free), Some(one.total));
                    let parts = two.used.checked_add(two.free);
                    let parts = parts.and_then(|sum| sum.checked_add(two.reserved));
                    assert_eq!(parts, Some(two.total));
                    assert_eq!((two.total, two.free), (one.total, one.free));
                    assert!(two.free <= limit.saturating_sub(usage));
                }
            }
        }
    }
}
