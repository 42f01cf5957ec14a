//! The few driver functions that the tenant calls, found as NVIDIA's runtime finds them: open
//! `libcuda.so.1`, take `cuGetProcAddress` from it, and ask that for everything else.

#![expect(non_snake_case, reason = "the driver's own names")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use libloading::os::unix::Library;

/// `CUresult`: 0 is success. A plain integer, because a newer driver may return a code that is
/// unknown here.
pub(crate) type Code = c_uint;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const OUT_OF_MEMORY: Code = 2;
/// A `CUdeviceptr`.
pub(crate) type Address = u64;
/// A context, stream, event, module or function.
pub(crate) type Handle = *mut c_void;

/// `CUmemAllocationProp` for memory on one device.
#[repr(C)]
pub(crate) struct AllocationProp {
    kind: c_uint,
    handle_types: c_uint,
    location_kind: c_uint,
    location_id: c_int,
    win32_metadata: *mut c_void,
    flags: [u8; 8],
}

impl AllocationProp {
    /// Pinned memory on `device`, not to be exported.
    pub(crate) fn on(device: c_int) -> Self {
        Self {
            kind: 1,
            handle_types: 0,
            location_kind: 1,
            location_id: device,
            win32_metadata: null_mut(),
            flags: [0; 8],
        }
    }
}

/// Declares the table of driver functions; each is looked up by its name and the CUDA version
/// that the signature is from.
macro_rules! driver {
    ($($(#[$doc:meta])* fn $name:ident = $symbol:literal ($($arg:ty),*);)*) => {
        /// The driver's functions. Calling one is as safe as the driver's documentation says.
        pub(crate) struct Driver {
            $($(#[$doc])* pub(crate) $name: unsafe extern "C" fn($($arg),*) -> Code,)*
            /// Keeps the functions mapped.
            _library: Library,
        }

        impl Driver {
            /// Opens the driver and finds every function.
            pub(crate) fn load() -> Result<Self, String> {
                let lookup = Lookup::open()?;
                Ok(Self {
                    $($name: {
                        let found = lookup.find(stringify!($name), $symbol)?;
                        // SAFETY: the driver's answer for this name and version is a function of this signature.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> Code>(found)
                        }
                    },)*
                    _library: lookup.library,
                })
            }
        }
    };
}

driver! {
    fn cuInit = "cuInit" (c_uint);
    fn cuDeviceGet = "cuDeviceGet" (*mut c_int, c_int);
    fn cuDeviceGetName = "cuDeviceGetName" (*mut c_char, c_int, c_int);
    fn cuDeviceTotalMem = "cuDeviceTotalMem_v2" (*mut usize, c_int);
    fn cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    fn cuCtxSetCurrent = "cuCtxSetCurrent" (Handle);
    fn cuMemAlloc = "cuMemAlloc_v2" (*mut Address, usize);
    fn cuMemFree = "cuMemFree_v2" (Address);
    fn cuMemAllocManaged = "cuMemAllocManaged" (*mut Address, usize, c_uint);
    fn cuMemAllocAsync = "cuMemAllocAsync" (*mut Address, usize, Handle);
    fn cuMemFreeAsync = "cuMemFreeAsync" (Address, Handle);
    fn cuMemCreate = "cuMemCreate" (*mut u64, usize, *const AllocationProp, u64);
    fn cuMemRelease = "cuMemRelease" (u64);
    fn cuModuleLoadData = "cuModuleLoadData" (*mut Handle, *const c_void);
    fn cuModuleGetFunction = "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    fn cuStreamCreate = "cuStreamCreate" (*mut Handle, c_uint);
    fn cuStreamSynchronize = "cuStreamSynchronize" (Handle);
    fn cuEventCreate = "cuEventCreate" (*mut Handle, c_uint);
    fn cuEventRecord = "cuEventRecord" (Handle, Handle);
    fn cuEventSynchronize = "cuEventSynchronize" (Handle);
    fn cuEventElapsedTime = "cuEventElapsedTime" (*mut f32, Handle, Handle);
    fn cuLaunchKernel = "cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
    );
}

/// Turns a driver's code into a `Result` that names the call.
pub(crate) fn check(call: &str, code: Code) -> Result<(), String> {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("{call} failed with CUDA error {code}"))
    }
}

/// `cuGetProcAddress_v2`, there since CUDA 12.
type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> Code;

/// How functions are found.
struct Lookup {
    library: Library,
    get_proc_address: Option<GetProcAddress>,
}

impl Lookup {
    /// The version of the signatures above.
    const VERSION: c_int = 12_000;

    fn open() -> Result<Self, String> {
        // SAFETY: loading the driver runs its initialisers, which any CUDA program does.
        let library = unsafe { Library::new("libcuda.so.1") }
            .map_err(|error| format!("no CUDA driver: {error}"))?;
        // SAFETY: the symbol of this name is a function of this type.
        let function = unsafe { library.get::<GetProcAddress>(b"cuGetProcAddress_v2\0") };
        let get_proc_address = function.ok().map(|symbol| *symbol);
        Ok(Self {
            library,
            get_proc_address,
        })
    }

    /// Asks the driver for `name`; a driver from before CUDA 12 has its symbol table only.
    fn find(&self, name: &str, symbol: &str) -> Result<*mut c_void, String> {
        let found = match self.get_proc_address {
            Some(ask) => {
                let name = CString::new(name).map_err(|error| error.to_string())?;
                ask_driver(ask, &name)
            }
            None => {
                // SAFETY: only the address is taken.
                let symbol = unsafe { self.library.get::<c_void>(symbol.as_bytes()) };
                symbol.map_or(null_mut(), |symbol| symbol.into_raw().cast())
            }
        };
        if found.is_null() {
            Err(format!("this driver has no {symbol}"))
        } else {
            Ok(found)
        }
    }
}

fn ask_driver(ask: GetProcAddress, name: &CStr) -> *mut c_void {
    let (mut found, mut status) = (null_mut(), 0);
    // SAFETY: every pointer is valid for the call.
    let code = unsafe {
        ask(
            name.as_ptr(),
            &raw mut found,
            Lookup::VERSION,
            0,
            &raw mut status,
        )
    };
    if code == 0 { found } else { null_mut() }
}
