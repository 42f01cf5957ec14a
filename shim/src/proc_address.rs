//! What `cuGetProcAddress` answered, with our hooks in it.
//!
//! Version, flags, status and errors stay the driver's: it is asked first, and the address it gives says which exported
//! function it means, so there is no table of versions here. A function newer than us passes through.

use core::ffi::{c_char, c_void};

use cuda_headers::driver::CUresult;

use crate::guard::Aside;
use crate::library::DRIVER;

/// Replaces the address in `*function` if it is that of a function that we hook.
pub(crate) fn replace(
    symbol: *const c_char,
    function: *mut *mut c_void,
    answer: CUresult,
) -> Result<CUresult, Aside> {
    if answer == CUresult::CUDA_SUCCESS && !symbol.is_null() && !function.is_null() {
        // SAFETY: the driver has just read the one and written the other for its caller.
        unsafe {
            if let Some(entry) = DRIVER.hook_of(function.read(), symbol) {
                function.write(entry.hook_address());
            }
        }
    }
    Ok(answer)
}
