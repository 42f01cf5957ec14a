//! Which devices there are, and who they are.

use std::ffi::{CStr, c_char, c_int, c_uint};

use cuda_headers::nvml::{
    NVML_DEVICE_ARCH_HOPPER, nvmlBrandType_t, nvmlDevice_t, nvmlDeviceArchitecture_t,
    nvmlGpuTopologyLevel_t, nvmlPciInfo_t, nvmlPciInfoExt_t, nvmlReturn_t,
};
use gpu_sim_core::{Pci, uuid_text};

use crate::device::{self, Device};
use crate::entry::{INVALID, Outcome, entry, out};
use crate::text;

/// Vendor 10de, and a device number that no real card has; the same as the driver's.
const PCI_ID: u32 = 0xffff_10de;
/// A display controller for computing.
const BASE_CLASS: u32 = 3;
const SUB_CLASS: u32 = 2;

pub(crate) fn uuid(device: &Device) -> String {
    let prefix = if device.is_instance() { "MIG-" } else { "GPU-" };
    uuid_text(prefix, &device.info.uuid)
}

fn serial(device: &Device) -> String {
    format!("13251220{:05}", device.card.minor)
}

fn bus_id(pci: Pci, digits: usize) -> String {
    format!(
        "{:0digits$X}:{:02X}:{:02X}.0",
        pci.domain, pci.bus, pci.device
    )
}

pub(crate) fn pci_info(device: &Device) -> nvmlPciInfo_t {
    let pci = device.card.pci;
    nvmlPciInfo_t {
        busIdLegacy: text::array(&bus_id(pci, 4)),
        domain: pci.domain,
        bus: pci.bus,
        device: pci.device,
        pciDeviceId: PCI_ID,
        pciSubSystemId: PCI_ID,
        busId: text::array(&bus_id(pci, 8)),
    }
}

/// `domain:bus:device.function`, in hexadecimal of any length, or without the domain.
fn parse(id: &str) -> Option<Pci> {
    let (place, function) = id.split_once('.').unwrap_or((id, "0"));
    (u32::from_str_radix(function, 16) == Ok(0)).then_some(())?;
    let parts: Option<Vec<u32>> = place
        .split(':')
        .map(|part| u32::from_str_radix(part, 16).ok())
        .collect();
    match parts?.as_slice() {
        [domain, bus, device] => Some(Pci {
            domain: *domain,
            bus: *bus,
            device: *device,
        }),
        [bus, device] => Some(Pci {
            domain: 0,
            bus: *bus,
            device: *device,
        }),
        _ => None,
    }
}

unsafe fn c_text<'a>(value: *const c_char) -> Result<&'a str, nvmlReturn_t> {
    if value.is_null() {
        return Err(INVALID);
    }
    // SAFETY: not NULL, so a C string, says the application.
    unsafe { CStr::from_ptr(value) }
        .to_str()
        .map_err(|_| nvmlReturn_t::NVML_ERROR_NOT_FOUND)
}

/// The first device for which something holds.
unsafe fn first(target: *mut nvmlDevice_t, fits: impl Fn(&Device) -> bool) -> Outcome {
    let all = device::all();
    let found = all
        .iter()
        .find(|info| fits(&device::describe(**info, &all)));
    let found = found.ok_or(nvmlReturn_t::NVML_ERROR_NOT_FOUND)?;
    // SAFETY: the application's pointer.
    unsafe { out(target, device::handle(found.index)) }
}

unsafe fn by_index(target: *mut nvmlDevice_t, index: c_uint) -> Outcome {
    let found = device::gpus()
        .get(index as usize)
        .map(|info| info.index)
        .ok_or(INVALID)?;
    // SAFETY: the application's pointer.
    unsafe { out(target, device::handle(found)) }
}

unsafe fn by_bus_id(target: *mut nvmlDevice_t, id: *const c_char) -> Outcome {
    // SAFETY: the application's pointers.
    unsafe {
        let place = parse(c_text(id)?).ok_or(INVALID)?;
        first(target, |device| {
            !device.is_instance() && device.card.pci == place
        })
    }
}

unsafe fn count(target: *mut c_uint) -> Outcome {
    // SAFETY: the application's pointer.
    unsafe { out(target, c_uint::try_from(device::gpus().len()).unwrap_or(0)) }
}

unsafe fn pci(target: *mut nvmlPciInfo_t, handle: nvmlDevice_t) -> Outcome {
    // SAFETY: the application's pointer.
    unsafe { out(target, pci_info(&device::get(handle)?)) }
}

entry! {
    /// Whole GPUs only.
    fn nvmlDeviceGetCount_v2(deviceCount: *mut c_uint) {
        count(deviceCount)
    }

    fn nvmlDeviceGetCount(deviceCount: *mut c_uint) {
        count(deviceCount)
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device_out: *mut nvmlDevice_t) {
        by_index(device_out, index)
    }

    fn nvmlDeviceGetHandleByIndex(index: c_uint, device_out: *mut nvmlDevice_t) {
        by_index(device_out, index)
    }

    /// Instances too.
    fn nvmlDeviceGetHandleByUUID(uuid_text: *const c_char, device_out: *mut nvmlDevice_t) {
        let wanted = c_text(uuid_text)?;
        first(device_out, |device| uuid(device).eq_ignore_ascii_case(wanted))
    }

    fn nvmlDeviceGetHandleBySerial(serial_text: *const c_char, device_out: *mut nvmlDevice_t) {
        let wanted = c_text(serial_text)?;
        first(device_out, |device| !device.is_instance() && serial(device) == wanted)
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(pciBusId: *const c_char, device_out: *mut nvmlDevice_t) {
        by_bus_id(device_out, pciBusId)
    }

    fn nvmlDeviceGetHandleByPciBusId(pciBusId: *const c_char, device_out: *mut nvmlDevice_t) {
        by_bus_id(device_out, pciBusId)
    }

    fn nvmlDeviceGetName(device: nvmlDevice_t, name: *mut c_char, length: c_uint) {
        text::copy(name, length, &device::get(device)?.card.name)
    }

    fn nvmlDeviceGetUUID(device: nvmlDevice_t, uuid_out: *mut c_char, length: c_uint) {
        text::copy(uuid_out, length, &uuid(&device::get(device)?))
    }

    fn nvmlDeviceGetSerial(device: nvmlDevice_t, serial_out: *mut c_char, length: c_uint) {
        text::copy(serial_out, length, &serial(&device::get(device)?))
    }

    /// Of an instance: its place among its GPU's.
    fn nvmlDeviceGetIndex(device: nvmlDevice_t, index: *mut c_uint) {
        let device = device::get(device)?;
        let siblings = device::all().into_iter().filter(|d| d.parent == device.info.parent);
        let place = siblings.take_while(|d| d.index != device.info.index).count();
        out(index, c_uint::try_from(place).unwrap_or(0))
    }

    fn nvmlDeviceGetMinorNumber(device: nvmlDevice_t, minorNumber: *mut c_uint) {
        out(minorNumber, device::get(device)?.whole()?.card.minor)
    }

    fn nvmlDeviceGetModuleId(device: nvmlDevice_t, moduleId: *mut c_uint) {
        out(moduleId, device::get(device)?.whole()?.card.minor)
    }

    fn nvmlDeviceGetBoardId(device: nvmlDevice_t, boardId: *mut c_uint) {
        out(boardId, device::get(device)?.card.pci.bus << 8)
    }

    fn nvmlDeviceGetMultiGpuBoard(device: nvmlDevice_t, multiGpuBool: *mut c_uint) {
        device::get(device)?;
        out(multiGpuBool, 0)
    }

    fn nvmlDeviceGetBrand(device: nvmlDevice_t, type_: *mut nvmlBrandType_t) {
        device::get(device)?;
        out(type_, nvmlBrandType_t::NVML_BRAND_NVIDIA)
    }

    fn nvmlDeviceGetArchitecture(device: nvmlDevice_t, arch: *mut nvmlDeviceArchitecture_t) {
        device::get(device)?;
        out(arch, NVML_DEVICE_ARCH_HOPPER)
    }

    fn nvmlDeviceGetCudaComputeCapability(
        device: nvmlDevice_t,
        major: *mut c_int,
        minor: *mut c_int,
    ) {
        let (high, low) = device::get(device)?.card.capability;
        out(major, high)?;
        out(minor, low)
    }

    fn nvmlDeviceGetNumGpuCores(device: nvmlDevice_t, numCores: *mut c_uint) {
        out(numCores, device::get(device)?.card.multiprocessors * 128)
    }

    fn nvmlDeviceGetVbiosVersion(device: nvmlDevice_t, version: *mut c_char, length: c_uint) {
        device::get(device)?;
        text::copy(version, length, "00.00.00.00.01")
    }

    fn nvmlDeviceGetBoardPartNumber(
        device: nvmlDevice_t,
        partNumber: *mut c_char,
        length: c_uint,
    ) {
        device::get(device)?;
        text::copy(partNumber, length, "900-00000-0000-000")
    }

    fn nvmlDeviceGetPciInfo_v3(device: nvmlDevice_t, pci_out: *mut nvmlPciInfo_t) {
        pci(pci_out, device)
    }

    fn nvmlDeviceGetPciInfo_v2(device: nvmlDevice_t, pci_out: *mut nvmlPciInfo_t) {
        pci(pci_out, device)
    }

    /// The oldest form writes the fields before the long bus id only.
    fn nvmlDeviceGetPciInfo(device: nvmlDevice_t, pci_out: *mut nvmlPciInfo_t) {
        let info = pci_info(&device::get(device)?);
        if pci_out.is_null() {
            return Err(INVALID);
        }
        (&raw mut (*pci_out).busIdLegacy).write(info.busIdLegacy);
        (&raw mut (*pci_out).domain).write(info.domain);
        (&raw mut (*pci_out).bus).write(info.bus);
        (&raw mut (*pci_out).device).write(info.device);
        (&raw mut (*pci_out).pciDeviceId).write(info.pciDeviceId);
        Ok(())
    }

    fn nvmlDeviceGetPciInfoExt(device: nvmlDevice_t, pci_out: *mut nvmlPciInfoExt_t) {
        let info = pci_info(&device::get(device)?);
        let version = pci_out.as_ref().ok_or(INVALID)?.version;
        out(pci_out, nvmlPciInfoExt_t {
            version,
            domain: info.domain,
            bus: info.bus,
            device: info.device,
            pciDeviceId: info.pciDeviceId,
            pciSubSystemId: info.pciSubSystemId,
            baseClass: BASE_CLASS,
            subClass: SUB_CLASS,
            busId: info.busId,
        })
    }

    fn nvmlDeviceOnSameBoard(
        device1: nvmlDevice_t,
        device2: nvmlDevice_t,
        onSameBoard: *mut c_int,
    ) {
        let (a, b) = (device::get(device1)?, device::get(device2)?);
        out(onSameBoard, c_int::from(a.card.pci == b.card.pci))
    }

    /// All GPUs hang off one host bridge.
    fn nvmlDeviceGetTopologyCommonAncestor(
        device1: nvmlDevice_t,
        device2: nvmlDevice_t,
        pathInfo: *mut nvmlGpuTopologyLevel_t,
    ) {
        let (a, b) = (device::get(device1)?.whole()?, device::get(device2)?.whole()?);
        out(pathInfo, if a.info.index == b.info.index {
            nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_INTERNAL
        } else {
            nvmlGpuTopologyLevel_t::NVML_TOPOLOGY_NODE
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_are_read_as_written() {
        let place = Pci {
            domain: 0,
            bus: 0x1a,
            device: 3,
        };
        for id in [
            bus_id(place, 8),
            bus_id(place, 4),
            "1A:03.0".to_owned(),
            "0:1a:3".to_owned(),
        ] {
            assert_eq!(parse(&id), Some(place), "{id}");
        }
        assert_eq!(parse("0000:1A:03.1"), None);
        assert_eq!(parse("x"), None);
    }
}
