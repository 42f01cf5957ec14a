//! The child that opens the driver: this program again, as `quota-daemon probe`, with or without the library preloaded. It prints
//! one line of JSON.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use serde::{Deserialize, Serialize};

/// What the child saw of the driver.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub(super) struct Seen {
    /// The file that `libcuda.so.1` is; `None`: there is none, and `error` is the loader's reason.
    pub(super) driver: Option<String>,
    /// Why something is missing here.
    pub(super) error: Option<String>,
    /// `cuDriverGetVersion`, as 12040 for 12.4.
    pub(super) version: i32,
    /// What `cuInit` answered; 0 is success.
    pub(super) init: u32,
    /// The devices, where `cuInit` succeeded.
    pub(super) devices: Vec<Device>,
    /// NVML, where it loads.
    pub(super) nvml: Option<Nvml>,
}

/// A device as a program sees it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) total: u64,
}

/// The management library.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub(super) struct Nvml {
    /// What `nvmlInit_v2` answered; 0 is success.
    pub(super) init: u32,
    /// The driver's version as text, such as 550.163.01.
    pub(super) driver_version: String,
    pub(super) devices: u32,
}

/// Looks, and prints.
///
/// # Errors
/// When stdout is closed.
pub fn run() -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(&look())?);
    Ok(())
}

fn look() -> Seen {
    let mut seen = Seen {
        nvml: nvml(),
        ..Seen::default()
    };
    let library = match Library::open(c"libcuda.so.1") {
        Ok(library) => library,
        Err(error) => {
            return Seen {
                error: Some(error),
                ..seen
            };
        }
    };
    seen.driver = Some(
        library
            .path(c"cuInit")
            .unwrap_or_else(|| "libcuda.so.1".into()),
    );
    if let Err(missing) = driver(&library, &mut seen) {
        seen.error = Some(missing);
    }
    seen
}

fn driver(library: &Library, seen: &mut Seen) -> Result<(), String> {
    type Init = unsafe extern "C" fn(c_uint) -> c_uint;
    type Version = unsafe extern "C" fn(*mut c_int) -> c_uint;
    type Get = unsafe extern "C" fn(*mut c_int, c_int) -> c_uint;
    // SAFETY: each type is that of the function of this name; every out-pointer is valid.
    unsafe {
        let version = library.get::<Version>(c"cuDriverGetVersion")?;
        version(&raw mut seen.version);
        let init = library.get::<Init>(c"cuInit")?;
        seen.init = init(0);
        if seen.init != 0 {
            return Ok(());
        }
        let mut count = 0;
        let get_count = library.get::<Version>(c"cuDeviceGetCount")?;
        get_count(&raw mut count);
        let get = library.get::<Get>(c"cuDeviceGet")?;
        for ordinal in 0..count {
            let mut device = 0;
            if get(&raw mut device, ordinal) == 0 {
                seen.devices.push(describe(library, device)?);
            }
        }
    }
    Ok(())
}

fn describe(library: &Library, device: c_int) -> Result<Device, String> {
    type Name = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_uint;
    type Uuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_uint;
    type Total = unsafe extern "C" fn(*mut usize, c_int) -> c_uint;
    let (mut name, mut uuid, mut total) = ([0_u8; 128], [0_u8; 16], 0_usize);
    // SAFETY: as in `driver`; the buffer is longer than is said, so that it ends with a zero.
    unsafe {
        let get_name = library.get::<Name>(c"cuDeviceGetName")?;
        get_name(name.as_mut_ptr().cast::<c_char>(), 127, device);
        let get_uuid = library
            .get::<Uuid>(c"cuDeviceGetUuid_v2")
            .or_else(|_| library.get::<Uuid>(c"cuDeviceGetUuid"))?;
        get_uuid(&raw mut uuid, device);
        let get_total = library.get::<Total>(c"cuDeviceTotalMem_v2")?;
        get_total(&raw mut total, device);
    }
    Ok(Device {
        name: text(&name),
        uuid: uuid_text(uuid),
        total: u64::try_from(total).unwrap_or(u64::MAX),
    })
}

fn nvml() -> Option<Nvml> {
    type Init = unsafe extern "C" fn() -> c_uint;
    type Text = unsafe extern "C" fn(*mut c_char, c_uint) -> c_uint;
    type Count = unsafe extern "C" fn(*mut c_uint) -> c_uint;
    let library = Library::open(c"libnvidia-ml.so.1").ok()?;
    let mut found = Nvml::default();
    let mut version = [0_u8; 81];
    // SAFETY: as in `driver`.
    unsafe {
        found.init = library.get::<Init>(c"nvmlInit_v2").ok()?();
        if found.init == 0 {
            let get_version = library.get::<Text>(c"nvmlSystemGetDriverVersion").ok()?;
            get_version(version.as_mut_ptr().cast::<c_char>(), 80);
            let count = library.get::<Count>(c"nvmlDeviceGetCount_v2").ok()?;
            count(&raw mut found.devices);
        }
    }
    found.driver_version = text(&version);
    Some(found)
}

fn text(buffer: &[u8]) -> String {
    CStr::from_bytes_until_nul(buffer)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// As `nvidia-smi -L` writes it.
pub(super) fn uuid_text(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |range| hex.get(range).unwrap_or_default();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        part(0..8),
        part(8..12),
        part(12..16),
        part(16..20),
        part(20..32)
    )
}

/// A library that stays open: the process ends soon.
struct Library(*mut c_void);

impl Library {
    fn open(name: &CStr) -> Result<Self, String> {
        // SAFETY: opening a driver library runs its initialisers, as in any program that uses it; dlerror's
        // text is copied before the next call.
        unsafe {
            let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
            if handle.is_null() {
                let reason = libc::dlerror();
                return Err(if reason.is_null() {
                    format!("{} does not load", name.to_string_lossy())
                } else {
                    CStr::from_ptr(reason).to_string_lossy().into_owned()
                });
            }
            Ok(Self(handle))
        }
    }

    /// The function of this name.
    ///
    /// # Safety
    /// `F` is the type of that function.
    unsafe fn get<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is open and the name terminated.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if address.is_null() {
            return Err(format!("the driver has no {}", name.to_string_lossy()));
        }
        // SAFETY: the caller vouches for `F`, which has the size of a pointer.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    /// The file that this library came from. Asked of a symbol that is not called: with the library
    /// preloaded the answer is that of the preloaded one.
    fn path(&self, symbol: &CStr) -> Option<String> {
        let mut info = libc::Dl_info {
            dli_fname: null_mut(),
            dli_fbase: null_mut(),
            dli_sname: null_mut(),
            dli_saddr: null_mut(),
        };
        // SAFETY: the handle is open, the name terminated, the out-pointer valid; dladdr's text belongs to the loader.
        unsafe {
            let address = libc::dlsym(self.0, symbol.as_ptr());
            if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
                return None;
            }
            Some(
                CStr::from_ptr(info.dli_fname)
                    .to_string_lossy()
                    .into_owned(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_as_nvidia_smi_writes_it() {
        let mut bytes = [0; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::try_from(index * 17).unwrap();
        }
        assert_eq!(uuid_text(bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn a_missing_library_gives_the_loaders_reason() {
        let error = Library::open(c"libno-such-thing.so.1").err().unwrap();
        assert!(error.contains("libno-such-thing.so.1"), "{error}");
    }
}
