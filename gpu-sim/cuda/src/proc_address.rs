//! Look-ups by name. The table, and what a real driver answers in every case, is in
//! [`cuda_headers::proc_address`]; the addresses are those of the exported functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use cuda_headers::driver::{
    CUdriverProcAddressQueryResult as Status, CUresult, CUuuid, cuuint64_t,
};
use cuda_headers::proc_address::{Answer, lookup_as_of};

use crate::device::driver_version;
use crate::entry::{answer, early_entry, out, out_optional};
use crate::symbols;

const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

unsafe fn look_up(
    symbol: *const c_char,
    version: c_int,
    flags: cuuint64_t,
) -> Result<Answer, CUresult> {
    if symbol.is_null() || flags & !(LEGACY | PER_THREAD) != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not NULL, so it is a C string, as the documentation asks.
    let name = unsafe { CStr::from_ptr(symbol) };
    let name = name.to_str().unwrap_or("");
    // The driver compares versions as unsigned numbers: -1 asks for the newest.
    let version = version.cast_unsigned();
    let driver = driver_version().cast_unsigned();
    Ok(lookup_as_of(driver, name, version, flags & PER_THREAD != 0))
}

fn pointer(name: &str) -> *mut c_void {
    ptr::with_exposed_provenance_mut(symbols::address(name).unwrap_or(0))
}

/// The form with four arguments leaves the pointer alone where it finds nothing.
unsafe fn four(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: c_int,
    flags: cuuint64_t,
) -> Result<(), CUresult> {
    // SAFETY: the application's arguments, which keep to the documentation.
    unsafe {
        match look_up(symbol, version, flags)? {
            Answer::Symbol(name) => out(pfn, pointer(name)),
            _ => Err(CUresult::CUDA_ERROR_NOT_FOUND),
        }
    }
}

unsafe fn five(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: c_int,
    flags: cuuint64_t,
    status: *mut Status,
) -> Result<(), CUresult> {
    // SAFETY: as in `four`.
    unsafe {
        let (pointer, found) = match look_up(symbol, version, flags)? {
            Answer::Symbol(name) => (pointer(name), Status::CU_GET_PROC_ADDRESS_SUCCESS),
            Answer::NotFound => (
                ptr::null_mut(),
                Status::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
            ),
            Answer::VersionTooLow => (
                ptr::null_mut(),
                Status::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
            ),
        };
        out(pfn, pointer)?;
        out_optional(status, found);
    }
    Ok(())
}

early_entry! {
    fn cuGetProcAddress(
        symbol: *const c_char,
        pfn: *mut *mut c_void,
        cudaVersion: c_int,
        flags: cuuint64_t,
    ), null { answer(four(symbol, pfn, cudaVersion, flags)) } {
        four(symbol, pfn, cudaVersion, flags)
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char,
        pfn: *mut *mut c_void,
        cudaVersion: c_int,
        flags: cuuint64_t,
        symbolStatus: *mut Status,
    ), null { answer(five(symbol, pfn, cudaVersion, flags, symbolStatus)) } {
        five(symbol, pfn, cudaVersion, flags, symbolStatus)
    }

    /// NVIDIA's private tables are not emulated: no id is known here.
    fn cuGetExportTable(ppExportTable: *mut *const c_void, pExportTableId: *const CUuuid),
    null { CUresult::CUDA_ERROR_INVALID_VALUE } {
        if !pExportTableId.is_null() {
            out_optional(ppExportTable, ptr::null());
        }
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
}
