//! What is to be known of memory that another process allocated.

use core::ffi::{c_char, c_int};

use cuda_headers::driver::{CUdeviceptr, CUpointer_attribute, CUresult};

use super::super::rounded;
use crate::device::Device;
use crate::driver::call;
use crate::process::Process;

/// Rows of handles and pointers have this bit in their keys; other rows do not.
const OPAQUE: u64 = 1 << 63;

/// A C `char`, which has a sign on some machines and none on others.
pub(super) fn unsigned(byte: c_char) -> u8 {
    let [byte] = byte.to_ne_bytes();
    byte
}

/// The key of an exported allocation: a hash of what the driver calls it in front of other processes.
pub(super) fn key(handle: [u8; 64]) -> u64 {
    let words = handle.chunks_exact(8).map(|chunk| {
        let bytes = chunk.try_into().unwrap_or([0; 8]);
        u64::from_le_bytes(bytes)
    });
    let hash = words.fold(0xcbf2_9ce4_8422_2325_u64, |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    });
    hash | OPAQUE
}

/// Bytes of the allocation at an address, as they are charged.
pub(super) fn size(address: CUdeviceptr) -> Option<u64> {
    let (mut base, mut bytes) = (0, 0_usize);
    // SAFETY: live out-pointers.
    let answer = unsafe {
        call!(cuMemGetAddressRange_v2(
            &raw mut base,
            &raw mut bytes,
            address
        ))
    };
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    (answer == CUresult::CUDA_SUCCESS).then(|| rounded(bytes))
}

/// The device that the memory is on, which need not be the current context's.
pub(super) fn device(process: &Process, address: CUdeviceptr) -> Option<&Device> {
    let mut number: c_int = -1;
    let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: room for the attribute, which is an int.
    let answer = unsafe {
        call!(cuPointerGetAttribute(
            (&raw mut number).cast(),
            attribute,
            address
        ))
    };
    if answer != CUresult::CUDA_SUCCESS {
        return None;
    }
    process.devices.get(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_handles_apart_and_rows_of_handles_from_others() {
        let mut handle = [0; 64];
        let mut seen = std::collections::HashSet::new();
        for place in 0..64 {
            for bit in 0..8 {
                handle[place] ^= 1 << bit;
                assert!(seen.insert(key(handle)), "byte {place}, bit {bit}");
                assert!(key(handle) & OPAQUE != 0);
                handle[place] ^= 1 << bit;
            }
        }
    }
}
