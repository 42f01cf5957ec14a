//! Device attributes: those of a present-day data-centre card, where the simulator does what they
//! promise; and zero where it does not (compression, multicast, fabric handles,
//! external semaphores, RDMA, tensor maps, persisting L2).

use std::ffi::c_int;
use std::sync::OnceLock;

use cuda_headers::driver::{
    CUdevice, CUdevice_attribute as Attribute, CUdevprop, CUexecAffinityType, CUresult,
};

use gpu_sim_core::{Bandwidth, MEMORY_BUS_BITS};

use crate::device::{self, Device};
use crate::entry::{answer, entry, out};

const MAX_THREADS: c_int = 1024;
const MAX_BLOCK: [c_int; 3] = [1024, 1024, 64];
const MAX_GRID: [c_int; 3] = [c_int::MAX, 65535, 65535];
const SHARED_PER_BLOCK: c_int = 48 << 10;
const SHARED_PER_BLOCK_OPTIN: c_int = 227 << 10;
const SHARED_PER_MULTIPROCESSOR: c_int = 228 << 10;
const CONSTANT: c_int = 64 << 10;
const WARP: c_int = 32;
const REGISTERS: c_int = 65536;
const CLOCK_KHZ: c_int = 1_980_000;
const L2: c_int = 60 << 20;
const TEXTURE_ALIGNMENT: c_int = 512;
/// Vendor 10de, and a device number that no real card has.
const PCI_ID: u32 = 0xffff_10de;

pub(crate) fn properties(device: &Device) -> CUdevprop {
    let _ = device;
    CUdevprop {
        maxThreadsPerBlock: MAX_THREADS,
        maxThreadsDim: MAX_BLOCK,
        maxGridSize: MAX_GRID,
        sharedMemPerBlock: SHARED_PER_BLOCK,
        totalConstantMemory: CONSTANT,
        SIMDWidth: WARP,
        memPitch: c_int::MAX,
        regsPerBlock: REGISTERS,
        clockRate: CLOCK_KHZ,
        textureAlign: TEXTURE_ALIGNMENT,
    }
}

/// The value of an attribute; `None` for a number that the header does not define.
pub(crate) fn value(device: &Device, attribute: Attribute) -> Option<c_int> {
    let small = |number: u32| c_int::try_from(number).unwrap_or(c_int::MAX);
    let card = &device.card;
    Some(match attribute {
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK => MAX_THREADS,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X => MAX_BLOCK[0],
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => MAX_BLOCK[1],
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => MAX_BLOCK[2],
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X => MAX_GRID[0],
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y => MAX_GRID[1],
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => MAX_GRID[2],
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => SHARED_PER_BLOCK,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => SHARED_PER_BLOCK_OPTIN,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => {
            SHARED_PER_MULTIPROCESSOR
        }
        Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK => 1024,
        Attribute::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY => CONSTANT,
        Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE => WARP,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH => c_int::MAX,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
        | Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR => REGISTERS,
        Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE => CLOCK_KHZ,
        Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE => {
            small(Bandwidth::from_env().clock_khz())
        }
        Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH => small(MEMORY_BUS_BITS),
        Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE => L2,
        Attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT
        | Attribute::CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT => TEXTURE_ALIGNMENT,
        Attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT => WARP,
        Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => small(card.multiprocessors),
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR => 2048,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR => 32,
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => card.capability.0,
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => card.capability.1,
        Attribute::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => 2,
        Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => 3,
        Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID => small(card.pci.domain),
        Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID => small(card.pci.bus),
        Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID => small(card.pci.device),
        Attribute::CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID => PCI_ID.cast_signed(),
        Attribute::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID => small(card.minor),
        Attribute::CU_DEVICE_ATTRIBUTE_NUMA_ID => -1,
        // Handle type bits: a file descriptor.
        Attribute::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES => 1,
        Attribute::CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED => {
            c_int::from(deferred_arrays())
        }
        Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED => c_int::from(multicast()),
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE => 0,
        Attribute::CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT => 1,
        Attribute::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP
        | Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY
        | Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS
        | Attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED
        | Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING
        | Attribute::CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER
        | Attribute::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY
        | Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
        | Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        | Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
        | Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH
        | Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
        | Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR
        | Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS
        | Attribute::CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED => 1,
        other => return texture(other),
    })
}

/// Whether arrays can be made that get their memory later: not by older drivers (`GPU_SIM_DEFERRED_ARRAYS=0`).
pub(crate) fn deferred_arrays() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    let none = || std::env::var_os("GPU_SIM_DEFERRED_ARRAYS").is_some_and(|value| value == "0");
    *WANTED.get_or_init(|| !none())
}

/// Whether there are multicast objects (`GPU_SIM_MULTICAST=1`): they can be made and bound, but not written to, which is too
/// little for programs that look for them.
pub(crate) fn multicast() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os("GPU_SIM_MULTICAST").is_some_and(|value| value == "1"))
}

/// Limits of textures and surfaces; what is left is a feature that this device does not have.
fn texture(attribute: Attribute) -> Option<c_int> {
    let wide = 1 << 17;
    let number = attribute.0;
    Some(match number {
        21 | 22 | 56 | 70 => wide,
        23 | 57 => 65536,
        24..=26 | 58..=60 => 16384,
        27 | 28 | 42 | 45 | 46 | 49 | 52 | 53 | 55 | 61 | 63 | 64 | 66 | 67 | 73 | 74 | 77 => 32768,
        29 | 43 | 62 | 65 => 2048,
        47 | 48 => 8192,
        54 | 68 => 2046,
        69 => 1 << 28,
        71 => 65000,
        72 => 2_097_120,
        1.. if number < Attribute::CU_DEVICE_ATTRIBUTE_MAX.0 => 0,
        _ => return None,
    })
}

/// Widest 1-D texture over linear memory, in elements.
const LINEAR_TEXELS: usize = 1 << 28;

unsafe fn attribute(pi: *mut c_int, attrib: Attribute, dev: CUdevice) -> Result<(), CUresult> {
    let value = value(device::get(dev)?, attrib).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the callers', who got `pi` from the application.
    unsafe { out(pi, value) }
}

entry! {
    /// An unknown attribute is an invalid value.
    fn cuDeviceGetAttribute(pi: *mut c_int, attrib: Attribute, dev: CUdevice),
    null { answer(attribute(pi, attrib, dev)) } {
        attribute(pi, attrib, dev)
    }

    /// Neither limits on multiprocessors nor anything else of the kind.
    fn cuDeviceGetExecAffinitySupport(pi: *mut c_int, type_: CUexecAffinityType, dev: CUdevice) {
        device::get(dev)?;
        if type_.0 >= CUexecAffinityType::CU_EXEC_AFFINITY_TYPE_MAX.0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(pi, 0)
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(
        maxWidthInElements: *mut usize,
        format: cuda_headers::driver::CUarray_format,
        numChannels: std::ffi::c_uint,
        dev: CUdevice,
    ) {
        device::get(dev)?;
        let _ = format;
        if !matches!(numChannels, 1 | 2 | 4) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        out(maxWidthInElements, LINEAR_TEXELS)
    }
}
