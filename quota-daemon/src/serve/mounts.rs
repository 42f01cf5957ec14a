//! Mounts of the daemon's own: a tmpfs for its regions, and a view of them through which nobody can write.
//!
//! A descriptor that a tenant gets is opened through the view. A container's root can open it anew by `/proc/self/fd`, for
//! writing too: only a mount that cannot be written stands in its way, not the mode of the descriptor or of the file.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, statfs};
use rustix::mount::{MountFlags, OpenTreeFlags, mount, open_tree};

/// tmpfs in `statfs`, see statfs(2).
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Enough for the regions of 800 containers. What a tenant adds to its own usage region counts too, so it is bounded.
const OPTIONS: &str = "mode=0700,size=256m";

/// Of mount_setattr(2), as the kernel has it; the `libc` crate does not.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `MOUNT_ATTR_RDONLY`, `_NOSUID` and `_NODEV`.
const READ_ONLY: u64 = 0x1 | 0x2 | 0x4;

/// What became of the daemon's own tmpfs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tmpfs {
    /// There is one, an earlier daemon's.
    Found,
    /// It has been mounted.
    Mounted,
    /// There is none, for this reason.
    None(String),
}

/// Mounts a tmpfs at a directory, unless one is there.
pub(super) fn tmpfs(directory: &Path) -> io::Result<Tmpfs> {
    if is_mount(directory)? {
        return Ok(Tmpfs::Found);
    }
    if std::fs::read_dir(directory)?.next().is_some() {
        // It would hide the regions of containers that run.
        return Ok(Tmpfs::None("regions are in it already".into()));
    }
    let options = CString::new(OPTIONS)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount("gpu-quota", directory, "tmpfs", flags, options.as_c_str()) {
        Ok(()) => Ok(Tmpfs::Mounted),
        Err(refused) => Ok(Tmpfs::None(refused.to_string())),
    }
}

/// Whether a tmpfs is mounted exactly there.
fn is_mount(directory: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let Some(parent) = directory.parent() else {
        return Ok(false);
    };
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.dev());
    let is_tmpfs = u64::try_from(statfs(directory)?.f_type) == Ok(TMPFS_MAGIC);
    Ok(is_tmpfs && device(directory)? != device(parent)?)
}

/// A view of a directory through which nothing can be written, whoever asks.
///
/// # Errors
/// The kernel refuses: it is older than 5.12, or the daemon has no CAP_SYS_ADMIN.
pub(super) fn read_only_view(directory: &Path) -> io::Result<OwnedFd> {
    let view = open_tree(
        CWD,
        directory,
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
    )?;
    make_read_only(view.as_fd())?;
    refuses_writing(view.as_fd())?;
    Ok(view)
}

fn make_read_only(view: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = Attributes {
        set: READ_ONLY,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    // SAFETY: an open descriptor, an empty path, and attributes of the size that is told. rustix has no such call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            view.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The promise is tried once before anything depends on it.
fn refuses_writing(view: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    match rustix::fs::openat(view, ".probe", flags, Mode::RUSR) {
        Err(rustix::io::Errno::ROFS) => Ok(()),
        Err(other) => Err(other.into()),
        Ok(_) => Err(io::Error::other("the view could be written")),
    }
}
