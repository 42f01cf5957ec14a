//! Regions in a tmpfs of the daemon's own. Needs root.

use super::*;
use quota_abi::sync::Ordering;
use rustix::mount::{UnmountFlags, unmount};

const ONE: &str = "[[container]]\nname = \"a\"\nmemory = \"1GiB\"\n";

/// Takes the mount away, whatever becomes of the test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A daemon with a mount; `None` where none may be made.
fn mounted() -> Option<(Mounted, Daemon)> {
    let mut daemon = Daemon::prepare(ONE);
    daemon.mount = true;
    let mount = Mounted(daemon.state().join("regions"));
    daemon.restart();
    let warnings = daemon.manager().status().daemon.warnings;
    let may = !warnings.iter().any(|text| text.contains("not a tmpfs"));
    assert!(may || !rustix::process::geteuid().is_root(), "{warnings:?}");
    may.then_some((mount, daemon))
}

#[test]
fn the_next_daemon_finds_the_mount_and_what_is_in_it() {
    let Some((mount, mut daemon)) = mounted() else {
        return;
    };
    let before = attach(&daemon.socket("a"));
    daemon.restart();
    let after = attach(&daemon.socket("a"));
    before.usage.header.waits.store(7, Ordering::Relaxed);
    assert_eq!(after.usage.header.waits.load(Ordering::Relaxed), 7);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let path = mount.0.canonicalize().unwrap();
    assert_eq!(mounts.matches(path.to_str().unwrap()).count(), 1);
}

#[test]
fn root_cannot_write_what_it_was_given_to_read() {
    let Some((_mount, daemon)) = mounted() else {
        return;
    };
    let attached = attach(&daemon.socket("a"));
    let path = format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&attached.files[0])
    );
    let refused = std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    let refused = rustix::fs::fchmod(&attached.files[0], rustix::fs::Mode::RWXU);
    assert_eq!(refused, Err(rustix::io::Errno::ROFS));
}

#[test]
fn a_tenant_that_fills_the_tmpfs_does_not_keep_others_from_beginning() {
    let Some((_mount, daemon)) = mounted() else {
        return;
    };
    let (_, files) = ask(&daemon.socket("a"), &question()).unwrap();
    let mut size = 0;
    while rustix::io::pwrite(&files[1], &[1; 1 << 20], size).is_ok() {
        size += 1 << 20;
        assert!(size < 1 << 30, "it has no bound");
    }
    let change = crate::api::Change {
        container: "b".into(),
        create: true,
        memory: Some("1GiB".into()),
        ..crate::api::Change::default()
    };
    daemon.manager().set(&change).unwrap();
    assert!(daemon.socket("b").exists());
}
