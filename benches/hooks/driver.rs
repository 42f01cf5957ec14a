//! Every function twice: as the driver has it, and as a program with the library preloaded
//! finds it. Calling one and the other in turns in one process compares nothing but the hook.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

pub(crate) type Code = c_uint;
pub(crate) type Handle = *mut c_void;

pub(crate) type Init = unsafe extern "C" fn(c_uint) -> Code;
pub(crate) type DeviceGet = unsafe extern "C" fn(*mut c_int, c_int) -> Code;
pub(crate) type CtxRetain = unsafe extern "C" fn(*mut Handle, c_int) -> Code;
pub(crate) type CtxSet = unsafe extern "C" fn(Handle) -> Code;
pub(crate) type ModuleLoad = unsafe extern "C" fn(*mut Handle, *const c_void) -> Code;
pub(crate) type GetFunction = unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> Code;
pub(crate) type StreamCreate = unsafe extern "C" fn(*mut Handle, c_uint) -> Code;
pub(crate) type BeginCapture = unsafe extern "C" fn(Handle, c_uint) -> Code;
pub(crate) type EndCapture = unsafe extern "C" fn(Handle, *mut Handle) -> Code;
pub(crate) type Instantiate = unsafe extern "C" fn(*mut Handle, Handle, u64) -> Code;
pub(crate) type GraphLaunch = unsafe extern "C" fn(Handle, Handle) -> Code;
pub(crate) type MemAlloc = unsafe extern "C" fn(*mut u64, usize) -> Code;
pub(crate) type MemFree = unsafe extern "C" fn(u64) -> Code;
pub(crate) type MemGetInfo = unsafe extern "C" fn(*mut usize, *mut usize) -> Code;
pub(crate) type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> Code;
#[rustfmt::skip]
pub(crate) type Launch = unsafe extern "C" fn(
    Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void,
) -> Code;

type Dlsym = unsafe extern "C" fn(Handle, *const c_char) -> Handle;

/// One function by both ways.
#[derive(Clone, Copy)]
pub(crate) struct Pair<F> {
    pub(crate) bare: F,
    pub(crate) hooked: F,
}

/// The loaded driver.
pub(crate) struct Driver {
    library: Handle,
    real_dlsym: Dlsym,
}

impl Driver {
    pub(crate) fn open() -> Result<Self, String> {
        // SAFETY: loading the driver runs its initialisers, as in any CUDA program.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err("libcuda.so.1 is not found".into());
        }
        Ok(Self {
            library,
            real_dlsym: real_dlsym()?,
        })
    }

    /// Both addresses of `name`. `F` must be the type of that function.
    ///
    /// # Safety
    /// As said: `F` is a function pointer type that fits the symbol.
    pub(crate) unsafe fn pair<F: Copy>(&self, name: &CStr) -> Result<Pair<F>, String> {
        const { assert!(size_of::<F>() == size_of::<Handle>()) };
        // SAFETY: both look-ups take any handle of dlopen and a terminated name.
        let (bare, hooked) = unsafe {
            (
                (self.real_dlsym)(self.library, name.as_ptr()),
                libc::dlsym(self.library, name.as_ptr()),
            )
        };
        if bare.is_null() || hooked.is_null() {
            return Err(format!("{} is not found", name.to_string_lossy()));
        }
        // SAFETY: `F` has the size of a pointer, and the caller vouches for its type.
        unsafe {
            Ok(Pair {
                bare: std::mem::transmute_copy::<Handle, F>(&bare),
                hooked: std::mem::transmute_copy::<Handle, F>(&hooked),
            })
        }
    }

    /// Whether `name` is hooked at all.
    pub(crate) fn is_hooked(&self, name: &CStr) -> Result<bool, String> {
        // SAFETY: a plain pointer is not called.
        let pair = unsafe { self.pair::<Handle>(name)? };
        Ok(pair.bare != pair.hooked)
    }
}

/// The C library's own `dlsym`: a look-up by version passes the preloaded one by.
fn real_dlsym() -> Result<Dlsym, String> {
    for library in [c"libc.so.6", c"libdl.so.2"] {
        for version in [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"] {
            // SAFETY: opens a library that the process has loaded already, and only looks up.
            let found = unsafe {
                let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
                if handle.is_null() {
                    null_mut()
                } else {
                    libc::dlvsym(handle, c"dlsym".as_ptr(), version.as_ptr())
                }
            };
            if !found.is_null() {
                // SAFETY: this is dlsym, which has this signature.
                return Ok(unsafe { std::mem::transmute::<Handle, Dlsym>(found) });
            }
        }
    }
    Err("the C library's dlsym is not found".into())
}

pub(crate) fn check(call: &str, code: Code) -> Result<(), String> {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("{call} answered {code}"))
    }
}
