//! The C library's own `dlsym`.
//!
//! # Safety
//! Our `dlsym` interposes the symbol for the whole process, ourselves included, so the real one is asked for by version:
//! `dlvsym` is not hooked.

use core::ffi::{CStr, c_char, c_void};

use quota_abi::sync::{AtomicPtr, Ordering};

/// Read by the trampoline in [`super::dlsym`].
pub(super) static REAL_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// The versions under which C libraries have exported `dlsym`, newest first.
#[cfg(target_arch = "x86_64")]
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];
#[cfg(target_arch = "aarch64")]
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.17"];

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Finds the real `dlsym`, once. Idempotent, so no lock; works before and after constructors have run.
pub(super) fn resolve() -> *mut c_void {
    let known = REAL_DLSYM.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let mut found = core::ptr::null_mut();
    for version in VERSIONS {
        // SAFETY: NUL-terminated strings; RTLD_NEXT searches the objects after this one.
        found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        if !found.is_null() {
            break;
        }
    }
    if found.is_null() {
        found = none as *mut c_void;
    }
    REAL_DLSYM.store(found, Ordering::Relaxed);
    found
}

/// Stands in on a C library that has no `dlsym` under a name we know.
unsafe extern "C" fn none(_handle: *mut c_void, _name: *const c_char) -> *mut c_void {
    core::ptr::null_mut()
}

/// The real `dlsym`, called from here: `RTLD_NEXT` means after the shim, `RTLD_DEFAULT` the global scope.
///
/// # Safety
/// As `dlsym`.
pub(crate) unsafe fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let real = resolve();
    // SAFETY: the address of a function with the signature of `dlsym`.
    let real = unsafe { core::mem::transmute::<*mut c_void, Dlsym>(real) };
    // SAFETY: the caller's promise.
    unsafe { real(handle, name) }
}
