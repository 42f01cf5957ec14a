//! NVML's view of a device's memory: the same figures as the driver's, in a process that need not use CUDA at all.

use core::ffi::{CStr, c_char, c_uint};

use cuda_headers::nvml::{nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlReturn_t};
use quota_abi::region::Mapped;
use quota_abi::settings::Settings;
use quota_abi::sync::{AtomicPtr, Ordering};
use quota_abi::{devices, spelling};

use crate::attach;
use crate::guard::Aside;
use crate::memory::view::View;
use crate::nvml::real;

/// Longest UUID that NVML writes, with its terminator.
const UUID_LENGTH: usize = 96;

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

/// `nvmlDeviceGetMemoryInfo`: NVML is asked, and its answer cut to the quota. Variables that cannot be followed are said
/// once, and answered with "no permission".
pub(crate) fn memory<I: Info>(
    device: nvmlDevice_t,
    memory: *mut I,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if memory.is_null() {
        return Err(Aside::DriverDecides);
    }
    let viewer = match Viewer::get() {
        Some(Viewer::Limits(limits)) => limits,
        Some(Viewer::Refused) => return Ok(nvmlReturn_t::NVML_ERROR_NO_PERMISSION),
        Some(Viewer::NotLimited) | None => return Err(Aside::NotLimited),
    };
    let answer = call();
    if answer != nvmlReturn_t::NVML_SUCCESS {
        return Ok(answer);
    }
    let Some((limit, usage)) = viewer.of(device) else {
        return Ok(answer);
    };
    // SAFETY: NVML has just written it for its caller.
    let memory = unsafe { &mut *memory };
    let view = View::new(memory.total(), memory.free(), limit, usage);
    memory.show(view, usage);
    Ok(answer)
}

/// What this process may see.
enum Viewer {
    Limits(Box<Limits>),
    NotLimited,
    Refused,
}

struct Limits {
    settings: Settings,
    path: std::ffi::CString,
    region: AtomicPtr<Mapped>,
    /// `CUDA_VISIBLE_DEVICES`, which decides what number a device has.
    visible: Option<String>,
}

/// Made by the first question, and never changed.
static VIEWER: AtomicPtr<Viewer> = AtomicPtr::new(core::ptr::null_mut());

impl Viewer {
    /// Two threads that ask first may both read the variables; one's view is kept.
    fn get() -> Option<&'static Self> {
        // SAFETY: null, or never freed.
        if let Some(known) = unsafe { VIEWER.load(Ordering::Acquire).as_ref() } {
            return Some(known);
        }
        let viewer = match attach::view() {
            Ok(Some((settings, group, visible))) => Self::Limits(Box::new(Limits {
                settings,
                path: group.path(),
                region: AtomicPtr::new(core::ptr::null_mut()),
                visible,
            })),
            Ok(None) => Self::NotLimited,
            Err(()) => Self::Refused,
        };
        let fresh = Box::into_raw(Box::new(viewer));
        let first = VIEWER.compare_exchange(
            core::ptr::null_mut(),
            fresh,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        let kept = match first {
            Ok(_) => fresh,
            Err(other) => {
                // SAFETY: made above, seen by nobody.
                drop(unsafe { Box::from_raw(fresh) });
                other
            }
        };
        // SAFETY: never freed.
        unsafe { kept.as_ref() }
    }
}

impl Limits {
    /// Limit and usage of a device; `None` if it is not limited.
    fn of(&self, device: nvmlDevice_t) -> Option<(u64, u64)> {
        let mut buffer = [0; UUID_LENGTH];
        let text = uuid_text(device, &mut buffer)?;
        let uuid = spelling::uuid(text).ok()?;
        let number = self
            .settings
            .memory
            .by_number()
            .then(|| self.number(device, text))
            .flatten();
        let limit = self.settings.memory.of(number, &uuid)?;
        let usage = self
            .region()
            .and_then(|region| {
                let index = devices::find(region, &uuid)?;
                Some(devices::ledger(region, index)?.usage())
            })
            .unwrap_or(0);
        Some((limit, usage))
    }

    /// The group's region, once any process of it has made one.
    fn region(&self) -> Option<&Mapped> {
        let known = self.region.load(Ordering::Acquire);
        // SAFETY: null, or never freed.
        if let Some(region) = unsafe { known.as_ref() } {
            return Some(region);
        }
        let region = Mapped::open(&self.path).ok().flatten()?;
        // Two threads that come at once map it twice, and one mapping is forgotten.
        let region = Box::into_raw(Box::new(region));
        self.region.store(region, Ordering::Release);
        // SAFETY: never freed.
        unsafe { region.as_ref() }
    }

    /// The number under which CUDA would show a device to this process. CUDA numbers what `CUDA_VISIBLE_DEVICES` lists, in its
    /// order; NVML numbers everything.
    fn number(&self, device: nvmlDevice_t, uuid: &str) -> Option<u32> {
        let mut index: c_uint = 0;
        // SAFETY: the caller's own handle and a live out-pointer.
        let answer = unsafe { real::nvmlDeviceGetIndex.get()?(device, &raw mut index) };
        if answer != nvmlReturn_t::NVML_SUCCESS {
            return None;
        }
        let Some(visible) = &self.visible else {
            return Some(index);
        };
        let place = visible.split(',').map(str::trim).position(|item| {
            item.parse() == Ok(index) || (item.starts_with(['G', 'M']) && uuid.starts_with(item))
        });
        u32::try_from(place?).ok()
    }
}

fn uuid_text(device: nvmlDevice_t, buffer: &mut [c_char; UUID_LENGTH]) -> Option<&str> {
    let length = c_uint::try_from(UUID_LENGTH).ok()?;
    // SAFETY: the caller's own handle, a buffer and its length.
    let answer = unsafe { real::nvmlDeviceGetUUID.get()?(device, buffer.as_mut_ptr(), length) };
    if answer != nvmlReturn_t::NVML_SUCCESS {
        return None;
    }
    // SAFETY: NVML has written a terminated string.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_adds_up() {
        // SAFETY: plain numbers.
        let mut memory: nvmlMemory_v2_t = unsafe { core::mem::zeroed() };
        for (real_free, usage) in [
            (20 << 30, 1 << 20),
            (10 << 20, 1 << 20),
            (20 << 30, 9 << 30),
        ] {
            let view = View::new(24 << 30, real_free, 1 << 30, usage);
            memory.show(view, usage);
            assert_eq!(memory.total, 1 << 30);
            assert_eq!(memory.used + memory.free + memory.reserved, memory.total);
        }
    }
}
