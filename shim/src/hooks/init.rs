//! Initialisation, and the driver's own look-up.

use core::ffi::{c_char, c_int, c_uint, c_void};

use cuda_headers::driver::{CUdriverProcAddressQueryResult, CUresult, cuuint64_t};

use crate::hook::hooks;
use crate::{proc_address, process};

/// The header's signatures, and that of a symbol which drivers export and no header declares.
#[expect(non_camel_case_types, reason = "the driver's identifier")]
mod signatures {
    pub(super) use cuda_headers::fns::*;
    pub(super) type cuGetProcAddress_v2_ptsz = cuGetProcAddress_v2;
}

hooks! { DRIVER as signatures;
    /// Attaches the process to its group; a quota that cannot be enforced stops the program here.
    fn cuInit(Flags: c_uint) -> CUresult = |call| process::initialise(&call);

    /// The driver decides; a function that we hook is replaced in its answer.
    fn cuGetProcAddress(
        symbol: *const c_char,
        pfn: *mut *mut c_void,
        cudaVersion: c_int,
        flags: cuuint64_t,
    ) -> CUresult = |call| proc_address::replace(symbol, pfn, call());

    /// As `cuGetProcAddress`.
    fn cuGetProcAddress_v2(
        symbol: *const c_char,
        pfn: *mut *mut c_void,
        cudaVersion: c_int,
        flags: cuuint64_t,
        symbolStatus: *mut CUdriverProcAddressQueryResult,
    ) -> CUresult = |call| proc_address::replace(symbol, pfn, call());

    /// As `cuGetProcAddress`.
    fn cuGetProcAddress_v2_ptsz(
        symbol: *const c_char,
        pfn: *mut *mut c_void,
        cudaVersion: c_int,
        flags: cuuint64_t,
        symbolStatus: *mut CUdriverProcAddressQueryResult,
    ) -> CUresult = |call| proc_address::replace(symbol, pfn, call());
}
