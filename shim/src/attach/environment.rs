//! The variables, read once.

use core::ffi::{CStr, c_char};
use std::ffi::CString;
use std::sync::OnceLock;

use quota_abi::settings::{self, Settings};

use crate::report;

/// Whether the loader runs with privileges that the caller's environment must not steer.
pub(super) fn is_privileged() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

pub(super) fn read_settings() -> Result<Settings, settings::Refusal> {
    let (level, file) = settings::read_log(variable);
    let file = file.and_then(|file| CString::new(file).ok());
    // The report keeps the path for the rest of the process.
    report::configure(level, file.map(|file| &*Box::leak(file.into_boxed_c_str())));
    settings::read(variable)
}

/// A variable's bytes. Parsed at once, before the application can change them. One that the program has removed counts as it was
/// given: a server that clears its environment does not want to be without a quota.
pub(super) fn variable(name: &str) -> Option<&'static [u8]> {
    // SAFETY: the C library's own variable, read once.
    if unsafe { (&raw const environ).read() }.is_null() {
        return first_variable(name);
    }
    let wanted = CString::new(name).ok()?;
    // SAFETY: a NUL-terminated name; what it points to stays until the application changes its environment.
    let value: *mut c_char = unsafe { libc::getenv(wanted.as_ptr()) };
    if value.is_null() {
        return first_variable(name);
    }
    // SAFETY: a NUL-terminated string.
    Some(unsafe { CStr::from_ptr(value) }.to_bytes())
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The same from what the kernel was given: also before the C library has set itself up, in a function of `.preinit_array`.
/// A program that writes its title over that memory leaves nothing that looks like a setting of ours.
#[cold]
fn first_variable(name: &str) -> Option<&'static [u8]> {
    let ours = ["GPU_QUOTA_", "CUDA_DEVICE_", "ALIYUN_COM_GPU_", "CGPU_"];
    if !ours.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let all = INITIAL.get_or_init(|| std::fs::read("/proc/self/environ").unwrap_or_default());
    all.split(|byte| *byte == 0).find_map(|variable| {
        variable
            .strip_prefix(name.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
    })
}

/// The environment that the program was started with. Read once: a process that asks has a quota, or none, for good.
static INITIAL: OnceLock<Vec<u8>> = OnceLock::new();
