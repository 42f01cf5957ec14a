//! Devices as the application sees them: those of the simulation that `CUDA_VISIBLE_DEVICES` names,
//! in its order.

mod attributes;
mod pci;
mod peer;
mod visible;

use std::ffi::{c_char, c_int, c_uint};
use std::sync::{Arc, OnceLock};

use cuda_headers::driver::{CUdevice, CUdevprop, CUresult, CUuuid};
use gpu_sim_core::{Card, DeviceInfo, Simulation, uuid_text};

use crate::entry::{answer, early_entry, entry, null_mode, out};
use crate::state;

pub(crate) use attributes::{deferred_arrays, multicast};
pub(crate) use peer::{accessible, on_context_destroy};

/// A device that the application sees.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    /// As the simulation counts devices.
    pub(crate) core: usize,
    pub(crate) uuid: [u8; 16],
    /// Of the whole GPU, which is the device itself unless it is a MIG instance.
    whole_uuid: [u8; 16],
    pub(crate) total: u64,
    pub(crate) mig: bool,
    pub(crate) card: Card,
}

static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();

/// Chooses the visible devices; `CUDA_ERROR_NO_DEVICE` when there are none.
pub(crate) fn initialise(simulation: &Arc<Simulation>) -> Result<(), CUresult> {
    let all = simulation.devices();
    let list = gpu_sim_core::variable("CUDA_VISIBLE_DEVICES");
    let devices = DEVICES.get_or_init(|| choose(&all, list.as_deref()));
    if devices.is_empty() {
        Err(CUresult::CUDA_ERROR_NO_DEVICE)
    } else {
        Ok(())
    }
}

fn choose(all: &[DeviceInfo], list: Option<&str>) -> Vec<Device> {
    let candidates: Vec<visible::Candidate> = all
        .iter()
        .map(|info| {
            let prefix = if info.parent.is_some() {
                "MIG-"
            } else {
                "GPU-"
            };
            visible::Candidate {
                name: uuid_text(prefix, &info.uuid),
                parent: info.parent,
            }
        })
        .collect();
    let chosen = visible::visible(&candidates, list);
    chosen
        .into_iter()
        .filter_map(|index| Some(describe(all.get(index)?, all)))
        .collect()
}

fn describe(info: &DeviceInfo, all: &[DeviceInfo]) -> Device {
    let whole = info
        .parent
        .and_then(|parent| all.get(parent))
        .unwrap_or(info);
    Device {
        core: info.index,
        uuid: info.uuid,
        whole_uuid: whole.uuid,
        total: info.total,
        mig: info.parent.is_some(),
        card: Card::of(info, all),
    }
}

/// All visible devices. In null mode there is one, which belongs to no simulation.
pub(crate) fn all() -> &'static [Device] {
    if null_mode() {
        return DEVICES.get_or_init(|| {
            let info = DeviceInfo {
                index: 0,
                uuid: *b"gpu-sim null dev",
                total: 24 << 30,
                parent: None,
            };
            vec![describe(&info, std::slice::from_ref(&info))]
        });
    }
    DEVICES.get().map_or(&[], Vec::as_slice)
}

/// A visible device; `CUDA_ERROR_INVALID_DEVICE`.
pub(crate) fn get(device: CUdevice) -> Result<&'static Device, CUresult> {
    usize::try_from(device)
        .ok()
        .and_then(|index| all().get(index))
        .ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

/// The simulation's index of a visible device; `CUDA_ERROR_INVALID_DEVICE`.
pub(crate) fn core_index(device: CUdevice) -> Result<usize, CUresult> {
    get(device).map(|device| device.core)
}

/// The visible device with this index in the simulation.
pub(crate) fn of_core(core: usize) -> Option<CUdevice> {
    all()
        .iter()
        .position(|device| device.core == core)
        .and_then(|index| index.try_into().ok())
}

/// The driver's CUDA version.
pub(crate) fn driver_version() -> i32 {
    static VERSION: OnceLock<i32> = OnceLock::new();
    // A value that is not understood is reported by `cuInit`; here it counts as unset.
    *VERSION.get_or_init(|| {
        let only = |name: &str| (name == "GPU_SIM_DRIVER").then(|| gpu_sim_core::variable(name))?;
        let config = gpu_sim_core::Config::from_lookup(only)
            .or_else(|_| gpu_sim_core::Config::from_lookup(|_| None));
        config.map_or(0, |config| config.driver)
    })
}

/// Copies text as `snprintf` would: cut short where the buffer ends, always terminated.
///
/// # Safety
/// `target` is NULL or valid for `len` bytes.
pub(crate) unsafe fn copy_text(
    target: *mut c_char,
    len: c_int,
    text: &str,
) -> Result<(), CUresult> {
    let room = usize::try_from(len)
        .ok()
        .filter(|len| *len > 0 && !target.is_null());
    let room = room.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)? - 1;
    let kept = text.len().min(room);
    // SAFETY: `kept` + 1 <= len bytes are written; the caller vouches for them.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), target.cast::<u8>(), kept);
        target.add(kept).write(0);
    }
    Ok(())
}

early_entry! {
    /// `CUDA_ERROR_INVALID_VALUE` for flags other than 0.
    fn cuInit(Flags: c_uint) {
        if Flags == 0 { state::initialise() } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) }
    }

    /// `GPU_SIM_DRIVER`, else the header's version.
    fn cuDriverGetVersion(driverVersion: *mut c_int),
    null { answer(out(driverVersion, driver_version())) } {
        out(driverVersion, driver_version())
    }
}

unsafe fn count(target: *mut c_int) -> Result<(), CUresult> {
    // SAFETY: the callers', who got `target` from the application.
    unsafe { out(target, c_int::try_from(all().len()).unwrap_or(c_int::MAX)) }
}

unsafe fn ordinal(device: *mut CUdevice, ordinal: c_int) -> Result<(), CUresult> {
    get(ordinal)?;
    // SAFETY: as in `count`.
    unsafe { out(device, ordinal) }
}

unsafe fn uuid(target: *mut CUuuid, dev: CUdevice, whole: bool) -> Result<(), CUresult> {
    let device = get(dev)?;
    let bytes = if whole {
        &device.whole_uuid
    } else {
        &device.uuid
    };
    // SAFETY: as in `count`.
    unsafe {
        out(
            target,
            CUuuid {
                bytes: bytes.map(|byte| byte.cast_signed()),
            },
        )
    }
}

unsafe fn total(bytes: *mut usize, dev: CUdevice) -> Result<(), CUresult> {
    let total = get(dev)?.total;
    // SAFETY: as in `count`.
    unsafe { out(bytes, usize::try_from(total).unwrap_or(usize::MAX)) }
}

entry! {
    fn cuDeviceGetCount(count_out: *mut c_int), null { answer(count(count_out)) } {
        count(count_out)
    }

    fn cuDeviceGet(device: *mut CUdevice, number: c_int), null { answer(ordinal(device, number)) } {
        ordinal(device, number)
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, dev: CUdevice) {
        copy_text(name, len, &get(dev)?.card.name)
    }

    /// Under MIG this is the whole GPU's, as documented.
    fn cuDeviceGetUuid(uuid_out: *mut CUuuid, dev: CUdevice),
    null { answer(uuid(uuid_out, dev, true)) } {
        uuid(uuid_out, dev, true)
    }

    fn cuDeviceGetUuid_v2(uuid_out: *mut CUuuid, dev: CUdevice),
    null { answer(uuid(uuid_out, dev, false)) } {
        uuid(uuid_out, dev, false)
    }

    /// Memory beyond 4 GiB does not fit this old form's 32 bits.
    fn cuDeviceTotalMem(bytes: *mut c_uint, dev: CUdevice) {
        out(bytes, c_uint::try_from(get(dev)?.total).unwrap_or(c_uint::MAX))
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice), null { answer(total(bytes, dev)) } {
        total(bytes, dev)
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, dev: CUdevice) {
        let (high, low) = get(dev)?.card.capability;
        out(major, high)?;
        out(minor, low)
    }

    fn cuDeviceGetProperties(prop: *mut CUdevprop, dev: CUdevice) {
        out(prop, attributes::properties(get(dev)?))
    }
}
