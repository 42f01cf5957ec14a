//! What single values mean, wherever they are written: in a file, on the command line, in a request.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::net::SocketAddr;

use quota_abi::ledger::UNIT;
use quota_abi::spelling::{self, Ppm, Wrong};

use super::Group;
use crate::model::Selector;

/// Weights above this are slips.
const HEAVIEST: u32 = 10_000;
/// Characters of a cgroup pattern: more than a path has.
const LONGEST: usize = 4096;

/// A size, or `None` for `none`.
///
/// # Errors
/// What is wrong with it, to follow what was written.
pub fn memory(text: &str) -> Result<Option<u64>, String> {
    match spelling::size(text).map_err(|wrong| wrong.to_string())? {
        // Memory is counted in units, and what is shown as free must be had.
        Some(bytes) if bytes < UNIT => Err(format!("is less than {UNIT} bytes")),
        bytes => Ok(bytes.map(|bytes| bytes - bytes % UNIT)),
    }
}

/// A share of a device's time, or `None` for `none`.
///
/// # Errors
/// What is wrong with it.
pub fn share(text: &str) -> Result<Option<Ppm>, Wrong> {
    spelling::share(text)
}

/// What a context is charged; `None` for `measured`.
///
/// # Errors
/// What is wrong with it.
pub fn context(text: &str) -> Result<Option<u64>, Wrong> {
    match text {
        "measured" => Ok(None),
        _ => spelling::size_or_zero(text).map(Some),
    }
}

/// A weight.
///
/// # Errors
/// What is wrong with it, to follow what was written.
pub fn weight(number: i64) -> Result<u32, String> {
    u32::try_from(number)
        .ok()
        .filter(|weight| (1..=HEAVIEST).contains(weight))
        .ok_or_else(|| format!("is not between 1 and {HEAVIEST}"))
}

/// A device, by NVML's index or by UUID.
///
/// # Errors
/// What is wrong with it, to follow what was written.
pub fn device(text: &str) -> Result<Selector, Wrong> {
    let digits = text.bytes().all(|digit| digit.is_ascii_digit());
    if digits && (1..4).contains(&text.len()) {
        return text.parse().map(Selector::Index).map_err(|_| Wrong::Device);
    }
    spelling::uuid(text)
        .map(crate::model::Uuid)
        .map(Selector::Uuid)
}

/// Whether this is a pattern of cgroup paths.
///
/// # Errors
/// What is wrong with it, to follow what was written.
pub fn cgroup(pattern: &str) -> Result<(), String> {
    if !pattern.starts_with('/') {
        return Err("does not begin with '/', as a path below /sys/fs/cgroup does".into());
    }
    if pattern.len() > LONGEST || pattern.contains(['\n', '\0']) {
        return Err("is no path of a cgroup".into());
    }
    let body = pattern.strip_suffix("/**").unwrap_or(pattern);
    if body.contains("**") {
        return Err("has '**' elsewhere than as its last component".into());
    }
    let mut parts = body.split('/').skip(1);
    if parts.any(|part| matches!(part, "." | "..")) || pattern.contains("//") {
        return Err("has a component that no cgroup has".into());
    }
    if pattern.len() > 1 && pattern.ends_with('/') {
        return Err("ends with '/'; end it with '/**' for everything below".into());
    }
    Ok(())
}

/// An address and port to listen at.
///
/// # Errors
/// What is wrong with it, to follow what was written.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "is no address and port; write for example 127.0.0.1:9400".into())
}

/// A level, or directives.
///
/// # Errors
/// What is wrong with it, to follow what was written.
pub fn log(text: &str) -> Result<String, String> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let directives = text.contains(['=', ',']);
    // The filter's parser takes empty parts, too.
    let whole = text.split([',', '=']).all(|part| !part.is_empty());
    let known = whole && text.parse::<tracing_subscriber::filter::Targets>().is_ok();
    if (directives && known) || levels.contains(&text) {
        return Ok(text.into());
    }
    Err(format!(
        "is neither one of {} nor a list of directives like info,quota_daemon=debug",
        levels.join(", ")
    ))
}

/// A group of this host, by name or number.
///
/// # Errors
/// There is none, with the mend.
pub fn group(text: &str) -> Result<Group, String> {
    let named = |gid| Group {
        name: text.into(),
        gid,
    };
    if let Ok(gid) = text.parse() {
        return Ok(named(gid));
    }
    let gid = CString::new(text).ok().and_then(|name| gid_of(&name));
    gid.map(named)
        .ok_or_else(|| "is no group of this host; make it with groupadd --system".into())
}

/// Asks the C library, so that groups from a directory server are found as well.
fn gid_of(name: &CStr) -> Option<u32> {
    // Members of large groups do not fit in less.
    let mut buffer = vec![0; 1 << 16];
    let mut entry = MaybeUninit::<libc::group>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: the name is terminated, the buffer as long as is said, and both places may be written. `entry` is written when
    // `found` points to it, and read only then.
    unsafe {
        let result = libc::getgrnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        );
        (result == 0 && !found.is_null()).then(|| entry.assume_init().gr_gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_cgroups() {
        for good in ["/", "/**", "/a/**", "/a*/b.slice", "/kubepods.slice/*/c"] {
            assert_eq!(cgroup(good), Ok(()), "{good}");
        }
        for bad in ["", "a", "/a/", "/**/a", "/a**", "/a//b", "/../a", "/a\nb"] {
            assert!(cgroup(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_group_is_found_by_name_and_number() {
        assert_eq!(group("root").map(|group| group.gid), Ok(0));
        assert_eq!(group("4711").map(|group| group.gid), Ok(4711));
        assert!(
            group("no-such-group-here")
                .unwrap_err()
                .contains("groupadd")
        );
        assert!(group("").is_err());
    }

    #[test]
    fn devices() {
        assert_eq!(device("0"), Ok(Selector::Index(0)));
        assert_eq!(device("007"), Ok(Selector::Index(7)));
        assert!(device("GPU-00112233-4455-6677-8899-aabbccddeeff").is_ok());
        for bad in ["", "0000", "-1", "gpu0", "GPU-0011"] {
            assert_eq!(device(bad), Err(Wrong::Device), "{bad}");
        }
    }

    #[test]
    fn levels_and_directives() {
        for good in ["info", "off", "warn,quota_daemon::gpu=trace"] {
            assert_eq!(log(good).as_deref(), Ok(good));
        }
        for bad in ["", "loud", "info,,=", "quota_daemon=loud"] {
            assert!(log(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn memory_is_whole_units() {
        assert_eq!(memory("1000"), Ok(Some(1000 - 1000 % UNIT)));
        assert_eq!(memory("4"), Err("is less than 512 bytes".into()));
        assert_eq!(memory("none"), Ok(None));
        assert_eq!(context("measured"), Ok(None));
        assert_eq!(context("0"), Ok(Some(0)));
    }
}
