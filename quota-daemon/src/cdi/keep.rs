//! The files that the daemon keeps in its directory for containers to have mounted.

use std::io;
use std::path::{Path, PathBuf};

use super::{edits, empty, write};

/// Where they lie.
const FOLDER: &str = "cdi";

/// The `/etc/ld.so.preload` of containers.
#[must_use]
pub fn preload(state: &Path) -> PathBuf {
    state.join(FOLDER).join("ld.so.preload")
}

/// The library of 32-bit programs.
#[must_use]
pub fn empty(state: &Path) -> PathBuf {
    state.join(FOLDER).join("libquota_empty32.so")
}

/// Puts them in place. What is there and right stays: containers have it mounted.
///
/// # Errors
/// The kernel refuses.
pub fn put(state: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = state.join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
    let line = edits::line() + "\n";
    write::atomically(&preload(state), line.as_bytes())?;
    let machine = if cfg!(target_arch = "aarch64") {
        empty::ARM
    } else {
        empty::I386
    };
    write::atomically(&empty(state), &empty::library(machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_that_the_loader_expands() {
        let state = tempfile::tempdir().unwrap();
        put(state.path()).unwrap();
        put(state.path()).unwrap();
        let text = std::fs::read_to_string(preload(state.path())).unwrap();
        assert_eq!(text, "/usr/local/lib/gpu-quota/$LIB/libquota_shim.so\n");
        assert!(
            std::fs::read(empty(state.path()))
                .unwrap()
                .starts_with(b"\x7fELF")
        );
    }
}
