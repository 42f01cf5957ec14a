//! Files that others read at any moment: they see the old one or the new one, whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes a directory for all to read, whatever the umask. One that is there keeps its mode.
///
/// # Errors
/// The kernel refuses.
pub(super) fn directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Where a file lies: `.` for a mere name.
pub(super) fn folder(file: &Path) -> &Path {
    let above = file.parent().unwrap_or(Path::new("/"));
    if above.as_os_str().is_empty() {
        Path::new(".")
    } else {
        above
    }
}

/// Puts a file in place, for all to read and nobody but its owner to write. One that says the same is left as it is: running
/// containers may have it mounted.
///
/// # Errors
/// The kernel refuses.
pub(super) fn atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if same(path, bytes) {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Runtimes read *.json and *.yaml, and so not this one.
    let fresh = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let written = File::options()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&fresh)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            // Whatever the umask.
            file.set_permissions(fs::Permissions::from_mode(0o644))?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

/// Removes what a process that was killed was just writing: files beside those whose names begin so.
pub(super) fn leftovers(folder: &Path, begins: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let writer = file
            .to_str()
            .and_then(|name| name.strip_prefix('.')?.strip_suffix(".new"))
            .filter(|name| name.starts_with(begins))
            .and_then(|name| name.rsplit('.').next()?.parse::<u32>().ok());
        if writer.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn same(path: &Path, bytes: &[u8]) -> bool {
    let plain = fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o777 == 0o644);
    plain && fs::read(path).is_ok_and(|found| found == bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_only_if_it_differs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let inode = || fs::metadata(&path).unwrap().ino();
        atomically(&path, b"one").unwrap();
        let (first, mode) = (inode(), fs::metadata(&path).unwrap().mode());
        assert_eq!(mode & 0o7777, 0o644);
        atomically(&path, b"one").unwrap();
        assert_eq!(inode(), first);
        let old = File::open(&path).unwrap();
        atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(
            io::read_to_string(old).unwrap(),
            "one",
            "whoever has it open keeps it"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        atomically(&path, b"two").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o644);
    }

    #[test]
    fn a_mere_name_lies_here() {
        for (file, expected) in [("a.json", "."), ("b/a.json", "b"), ("/a.json", "/")] {
            assert_eq!(folder(Path::new(file)), Path::new(expected));
        }
    }

    #[test]
    fn a_directory_that_is_there_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        let fresh = folder.path().join("a/b");
        directory(&fresh).unwrap();
        assert_eq!(mode(&fresh), 0o755);
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o700)).unwrap();
        directory(&fresh).unwrap();
        assert_eq!(mode(&fresh), 0o700);
        fs::write(folder.path().join("file"), b"").unwrap();
        assert!(directory(&folder.path().join("file/a")).is_err());
    }

    #[test]
    fn what_cannot_be_put_in_place_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::create_dir(&path).unwrap();
        assert!(atomically(&path, b"one").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(atomically(&folder.path().join("none/a.json"), b"one").is_err());
    }

    #[test]
    fn what_a_dead_process_was_writing_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dead = format!(".a.json.{}.new", u32::MAX);
        let kept = [
            format!(".a.json.{}.new", std::process::id()),
            format!(".b.json.{}.new", u32::MAX),
            ".a.json.x.new".into(),
            "a.json".into(),
        ];
        for name in kept.iter().chain([&dead]) {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        leftovers(folder.path(), "a.json");
        assert!(!folder.path().join(&dead).exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), kept.len());
    }
}
