//! Attaching: variables read once, the group's region mapped, a slot claimed.

use core::ffi::{CStr, c_char};
use std::ffi::CString;
use std::sync::OnceLock;

use cuda_headers::driver::CUresult;
use quota_abi::group::Group;
use quota_abi::life::Identity;
use quota_abi::region::{Cause, Mapped};
use quota_abi::settings::{self, CONTEXT_DEFAULT, Settings};
use quota_abi::slots;

use crate::report;

/// What an attached process is made of before the driver can be asked for devices.
pub(crate) struct Attached {
    pub(crate) region: Mapped,
    pub(crate) slot: usize,
    pub(crate) me: Identity,
    pub(crate) settings: Settings,
}

impl Attached {
    /// What a context is charged on each device.
    pub(crate) fn context(&self) -> u64 {
        self.settings.context.unwrap_or(CONTEXT_DEFAULT)
    }
}

/// What became of attaching.
pub(crate) enum Outcome {
    /// Limited, or counted with those who are.
    Attached(Box<Attached>),
    /// Nobody wants this process limited.
    Aside,
    /// It is to be limited, and cannot be: what `cuInit` answers. The reason has been said.
    Refused(CUresult),
}

/// Attaches this process to its group.
pub(crate) fn attach() -> Outcome {
    if is_setuid() {
        return Outcome::Aside;
    }
    quiet_panics();
    let settings = match read_settings() {
        Ok(settings) => settings,
        Err(refusal) => {
            report::stop(format_args!("{refusal}"));
            return Outcome::Refused(CUresult::CUDA_ERROR_NOT_PERMITTED);
        }
    };
    if let Some(socket) = &settings.socket {
        report::stop(format_args!(
            "GPU_QUOTA_SOCKET={socket:?} asks for a daemon, and this version has none to answer there; unset \
             GPU_QUOTA_SOCKET and write for example GPU_QUOTA_MEMORY=4GiB"
        ));
        return Outcome::Refused(CUresult::CUDA_ERROR_SYSTEM_NOT_READY);
    }
    let limits = settings.limits();
    match join(settings) {
        Ok(Some(attached)) => Outcome::Attached(attached),
        Ok(None) => Outcome::Aside,
        Err(why) if limits => {
            report::stop(format_args!("{why}"));
            Outcome::Refused(CUresult::CUDA_ERROR_NOT_PERMITTED)
        }
        Err(why) => {
            report::info(format_args!("not counted: {why}"));
            Outcome::Aside
        }
    }
}

/// The region as a viewer sees it, and the limits: for a process that asks NVML and never CUDA. Takes no slot and creates
/// no file. `None` where nobody wants a limit; an error has been said. What an attached process has read already is `known`:
/// its variables may have changed since.
pub(crate) fn view(
    known: Option<&Settings>,
) -> Result<Option<(Settings, Group, Option<String>)>, ()> {
    if is_setuid() {
        return Ok(None);
    }
    quiet_panics();
    match known.cloned().map_or_else(read_settings, Ok) {
        Ok(settings) if settings.limits() => {
            let group = group(&settings);
            let visible = variable("CUDA_VISIBLE_DEVICES");
            let visible = visible.map(|list| String::from_utf8_lossy(list).into_owned());
            Ok(Some((settings, group, visible)))
        }
        Ok(_) => Ok(None),
        Err(refusal) => {
            report::stop(format_args!("{refusal}"));
            Err(())
        }
    }
}

/// A process without limits joins a region that others of its group have made, so that their limits count it too; it
/// makes none.
fn join(settings: Settings) -> Result<Option<Box<Attached>>, String> {
    let path = group(&settings).path();
    let mend = |error: quota_abi::region::Error| {
        // Something else under its name, or no place for any such file?
        let place = match &error.cause {
            Cause::System(_, error) => !matches!(
                error.raw_os_error(),
                Some(libc::EISDIR | libc::ELOOP | libc::ENXIO | libc::EACCES | libc::EPERM)
            ),
            Cause::Size(_) | Cause::Magic | Cause::Version(_) => false,
        };
        let mend = if place {
            "the processes of a group share a file there: /dev/shm must be a writable tmpfs with 512 KiB to spare"
        } else {
            "remove the file if no process uses it, or set GPU_QUOTA_GROUP to another name"
        };
        format!("{error}; {mend}")
    };
    let region = if settings.limits() {
        Mapped::open_or_create(&path).map_err(mend)?
    } else {
        match Mapped::open(&path).map_err(mend)? {
            Some(region) => region,
            None => return Ok(None),
        }
    };
    let me = Identity::own();
    let Some(slot) = slots::claim(&region, &me) else {
        return Err(format!(
            "{} is full of living processes; end some, or set GPU_QUOTA_GROUP to another name",
            path.to_string_lossy()
        ));
    };
    report::info(format_args!(
        "attached to {} in slot {slot}",
        path.to_string_lossy()
    ));
    Ok(Some(Box::new(Attached {
        region,
        slot,
        me,
        settings,
    })))
}

fn group(settings: &Settings) -> Group {
    settings
        .group
        .as_deref()
        .map_or_else(Group::of_this_container, Group::named)
}

/// Whether the loader runs with privileges that the caller's environment must not steer.
fn is_setuid() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn read_settings() -> Result<Settings, settings::Refusal> {
    let (level, file) = settings::read_log(variable);
    let file = file.and_then(|file| CString::new(file).ok());
    // The report keeps the path for the rest of the process.
    report::configure(level, file.map(|file| &*Box::leak(file.into_boxed_c_str())));
    settings::read(variable)
}

/// A variable's bytes. Parsed at once, before the application can change them. One that the program has removed counts as it was
/// given: a server that clears its environment does not want to be without a quota.
fn variable(name: &str) -> Option<&'static [u8]> {
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
    if !name.starts_with("GPU_QUOTA_") && !name.starts_with("CUDA_DEVICE_") {
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

/// Our own panics are answered by the guard; the standard library's message would surprise the application. The hook is
/// that of our copy of the standard library, not of an application written in Rust.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        report::stop(format_args!("a bug in the shim, passed over: {panic}"));
    }));
}
