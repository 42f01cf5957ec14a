//! PCI Express and NVLink: one generation-5 slot each, and no NVLink.

use std::ffi::{c_uint, c_ulong};

use cuda_headers::nvml::{
    nvmlDevice_t, nvmlEnableState_t, nvmlGpuFabricInfo_t, nvmlGpuFabricInfoV_t,
    nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t, nvmlIntNvLinkDeviceType_t, nvmlNvLinkCapability_t,
    nvmlPciInfo_t, nvmlPcieUtilCounter_t, nvmlReturn_t,
};

use crate::device;
use crate::entry::{INVALID, NOT_SUPPORTED, Outcome, entry, out};

const GENERATION: c_uint = 5;
const LANES: c_uint = 16;
/// Links that a card of this kind has places for.
const NVLINKS: c_uint = 18;

unsafe fn constant(handle: nvmlDevice_t, target: *mut c_uint, value: c_uint) -> Outcome {
    device::get(handle)?.whole()?;
    // SAFETY: the application's pointer.
    unsafe { out(target, value) }
}

fn link(handle: nvmlDevice_t, link: c_uint) -> Outcome {
    device::get(handle)?.whole()?;
    if link < NVLINKS { Ok(()) } else { Err(INVALID) }
}

entry! {
    fn nvmlDeviceGetCurrPcieLinkGeneration(device: nvmlDevice_t, currLinkGen: *mut c_uint) {
        constant(device, currLinkGen, GENERATION)
    }

    fn nvmlDeviceGetMaxPcieLinkGeneration(device: nvmlDevice_t, maxLinkGen: *mut c_uint) {
        constant(device, maxLinkGen, GENERATION)
    }

    fn nvmlDeviceGetGpuMaxPcieLinkGeneration(
        device: nvmlDevice_t,
        maxLinkGenDevice: *mut c_uint,
    ) {
        constant(device, maxLinkGenDevice, GENERATION)
    }

    fn nvmlDeviceGetCurrPcieLinkWidth(device: nvmlDevice_t, currLinkWidth: *mut c_uint) {
        constant(device, currLinkWidth, LANES)
    }

    fn nvmlDeviceGetMaxPcieLinkWidth(device: nvmlDevice_t, maxLinkWidth: *mut c_uint) {
        constant(device, maxLinkWidth, LANES)
    }

    fn nvmlDeviceGetPcieSpeed(device: nvmlDevice_t, pcieSpeed: *mut c_uint) {
        constant(device, pcieSpeed, 32_000)
    }

    fn nvmlDeviceGetPcieReplayCounter(device: nvmlDevice_t, value: *mut c_uint) {
        constant(device, value, 0)
    }

    /// Copies are not measured on the bus.
    fn nvmlDeviceGetPcieThroughput(
        device: nvmlDevice_t,
        counter: nvmlPcieUtilCounter_t,
        value: *mut c_uint,
    ) {
        if counter.0 >= nvmlPcieUtilCounter_t::NVML_PCIE_UTIL_COUNT.0 {
            return Err(INVALID);
        }
        constant(device, value, 0)
    }

    fn nvmlDeviceGetNvLinkState(
        device: nvmlDevice_t,
        link_number: c_uint,
        isActive: *mut nvmlEnableState_t,
    ) {
        link(device, link_number)?;
        out(isActive, nvmlEnableState_t::NVML_FEATURE_DISABLED)
    }

    fn nvmlDeviceGetNvLinkCapability(
        device: nvmlDevice_t,
        link_number: c_uint,
        capability: nvmlNvLinkCapability_t,
        capResult: *mut c_uint,
    ) {
        let _ = capability;
        link(device, link_number)?;
        out(capResult, 0)
    }

    fn nvmlDeviceGetNvLinkVersion(
        device: nvmlDevice_t,
        link_number: c_uint,
        version: *mut c_uint,
    ) {
        let _ = version;
        link(device, link_number)?;
        Err(NOT_SUPPORTED)
    }

    /// An inactive link has no other end.
    fn nvmlDeviceGetNvLinkRemoteDeviceType(
        device: nvmlDevice_t,
        link_number: c_uint,
        pNvLinkDeviceType: *mut nvmlIntNvLinkDeviceType_t,
    ) {
        let _ = pNvLinkDeviceType;
        link(device, link_number)?;
        Err(NOT_SUPPORTED)
    }

    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
        device: nvmlDevice_t,
        link_number: c_uint,
        pci: *mut nvmlPciInfo_t,
    ) {
        let _ = pci;
        link(device, link_number)?;
        Err(NOT_SUPPORTED)
    }

    fn nvmlDeviceGetNvLinkRemotePciInfo(
        device: nvmlDevice_t,
        link_number: c_uint,
        pci: *mut nvmlPciInfo_t,
    ) {
        let _ = pci;
        link(device, link_number)?;
        Err(NOT_SUPPORTED)
    }

    /// Whole GPUs reach each other over PCI Express.
    fn nvmlDeviceGetP2PStatus(
        device1: nvmlDevice_t,
        device2: nvmlDevice_t,
        p2pIndex: nvmlGpuP2PCapsIndex_t,
        p2pStatus: *mut nvmlGpuP2PStatus_t,
    ) {
        device::get(device1)?.whole()?;
        device::get(device2)?.whole()?;
        out(p2pStatus, if p2pIndex == nvmlGpuP2PCapsIndex_t::NVML_P2P_CAPS_INDEX_NVLINK {
            nvmlGpuP2PStatus_t::NVML_P2P_STATUS_NOT_SUPPORTED
        } else {
            nvmlGpuP2PStatus_t::NVML_P2P_STATUS_OK
        })
    }

    /// No fabric: the state says so.
    fn nvmlDeviceGetGpuFabricInfo(
        device: nvmlDevice_t,
        gpuFabricInfo: *mut nvmlGpuFabricInfo_t,
    ) {
        device::get(device)?.whole()?;
        if gpuFabricInfo.is_null() {
            return Err(INVALID);
        }
        gpuFabricInfo.write_bytes(0, 1);
        Ok(())
    }

    /// All versions of the struct begin alike and are zero but for their version.
    fn nvmlDeviceGetGpuFabricInfoV(
        device: nvmlDevice_t,
        gpuFabricInfo: *mut nvmlGpuFabricInfoV_t,
    ) {
        device::get(device)?.whole()?;
        if gpuFabricInfo.is_null() {
            return Err(INVALID);
        }
        let version = gpuFabricInfo.cast::<c_uint>().read();
        let size = (version & 0x00ff_ffff) as usize;
        if version >> 24 == 0 || !(4..=256).contains(&size) {
            return Err(nvmlReturn_t::NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
        }
        gpuFabricInfo.cast::<u8>().add(4).write_bytes(0, size - 4);
        Ok(())
    }

    /// Every CPU is as near as any.
    fn nvmlDeviceGetCpuAffinity(
        device: nvmlDevice_t,
        cpuSetSize: c_uint,
        cpuSet: *mut c_ulong,
    ) {
        device::get(device)?.whole()?;
        if cpuSet.is_null() || cpuSetSize == 0 {
            return Err(INVALID);
        }
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        for word in 0..cpuSetSize as usize {
            let left = cpus.saturating_sub(word * 64).min(64);
            let mask = if left == 64 { c_ulong::MAX } else { (1 << left) - 1 };
            cpuSet.add(word).write(mask);
        }
        Ok(())
    }

    fn nvmlDeviceGetNumaNodeId(device: nvmlDevice_t, node: *mut c_uint) {
        let _ = node;
        device::get(device)?;
        Err(NOT_SUPPORTED)
    }
}
