//! Texts into C buffers.

use std::ffi::{c_char, c_uint};

use cuda_headers::nvml::nvmlReturn_t;

use crate::entry::{INVALID, Outcome};

/// Copies a text; NVML cuts nothing short but says that the buffer is too small.
///
/// # Safety
/// `target` is NULL or valid for `length` bytes.
pub(crate) unsafe fn copy(target: *mut c_char, length: c_uint, text: &str) -> Outcome {
    if target.is_null() {
        return Err(INVALID);
    }
    if length as usize <= text.len() {
        return Err(nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE);
    }
    // SAFETY: text and terminator fit the `length` bytes.
    unsafe {
        target
            .cast::<u8>()
            .copy_from_nonoverlapping(text.as_ptr(), text.len());
        target.add(text.len()).write(0);
    }
    Ok(())
}

/// A fixed array that holds a short text.
pub(crate) fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().zip(text.bytes().take(N - 1)) {
        *place = byte.cast_signed();
    }
    bytes
}
