//! The library in the daemon's own process.
//!
//! Where `LD_PRELOAD` or `/etc/ld.so.preload` puts the library into every program, it is in the daemon as well, and may show it a
//! container's view of the GPUs instead of the GPUs. The daemon must not see that.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const NAME: &[u8] = b"libquota_shim";
const VARIABLE: &str = "LD_PRELOAD";

/// Gets the library out of this process: begins the program again without it, where a variable brought it. To be called
/// before there are threads.
///
/// # Errors
/// The program cannot be begun again.
///
/// Returns what a person should know, where the library stays.
pub fn leave() -> io::Result<Option<String>> {
    let preload = env::var_os(VARIABLE).unwrap_or_default();
    if let Some(rest) = without(&preload) {
        return Err(begin_again(&rest));
    }
    let maps = fs::read("/proc/self/maps")?;
    Ok(contains(&maps, NAME).then(|| {
        "libquota_shim.so is loaded into the daemon itself, probably by /etc/ld.so.preload of the host: what NVML shows may be \
         a container's view. Take it out of that file; containers get the library by mounts"
            .to_owned()
    }))
}

/// Returns only if it fails.
fn begin_again(preload: &OsStr) -> io::Error {
    let program = env::current_exe()
        .ok()
        .filter(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let mut arguments = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments);
    if preload.is_empty() {
        command.env_remove(VARIABLE);
    } else {
        command.env(VARIABLE, preload);
    }
    command.exec()
}

/// A value of `LD_PRELOAD` without the library; `None` if it is not in there.
fn without(value: &OsStr) -> Option<OsString> {
    let separator = |byte: &u8| matches!(byte, b':' | b' ');
    let is_ours = |entry: &&[u8]| {
        let path = Path::new(OsStr::from_bytes(entry));
        path.file_name()
            .is_some_and(|name| name.as_bytes().starts_with(NAME))
    };
    let entries = || {
        value
            .as_bytes()
            .split(separator)
            .filter(|entry| !entry.is_empty())
    };
    entries().any(|entry| is_ours(&entry)).then(|| {
        let others: Vec<&[u8]> = entries().filter(|entry| !is_ours(entry)).collect();
        OsString::from_vec(others.join(&b':'))
    })
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_library_is_taken_out() {
        let value = |text: &str| without(OsStr::new(text)).map(|left| left.into_string().unwrap());
        assert_eq!(value(""), None);
        assert_eq!(value("/lib/libjemalloc.so"), None);
        assert_eq!(value("/opt/libquota_shim.so"), Some(String::new()));
        assert_eq!(
            value("/lib/a.so:/opt/libquota_shim.so /lib/b.so"),
            Some("/lib/a.so:/lib/b.so".into())
        );
        assert_eq!(value("/opt/libquota_shim.d/a.so"), None);
    }

    #[test]
    fn this_process_is_free_of_it() {
        assert!(!contains(&fs::read("/proc/self/maps").unwrap(), NAME));
        assert!(contains(b"a /x/libquota_shim.so\n", NAME));
    }
}
