//! The shared memory that a group's processes meet in.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::mem::MaybeUninit;
use std::path::Path;

use super::finding::Findings;

/// Where regions lie.
const FOLDER: &str = "/dev/shm";

/// Examines whether a region can be made at all.
pub(super) fn examine(findings: &mut Findings) {
    let file = Path::new(FOLDER).join(format!("gpu-quota.doctor.{}", std::process::id()));
    let made = OpenOptions::new()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&file);
    let _ = std::fs::remove_file(&file);
    match (made, free_bytes(FOLDER)) {
        (Err(error), _) => findings.failure(
            "shm",
            format!("no file can be made in {FOLDER}: {error}"),
            "mount a writable tmpfs there (Docker: --shm-size, not --read-only without --tmpfs)",
        ),
        (Ok(_), Some(free)) if free < NEEDED => findings.failure(
            "shm",
            format!("{FOLDER} has {free} bytes left, a group needs {NEEDED}"),
            "enlarge it (Docker: --shm-size) or remove what fills it",
        ),
        (Ok(_), _) => findings.ok("shm", format!("{FOLDER} is writable")),
    }
}

/// What one group's region takes at most.
const NEEDED: u64 = size_of::<quota_abi::layout::Region>() as u64;

fn free_bytes(folder: &str) -> Option<u64> {
    let folder = CString::new(folder).ok()?;
    let mut stat = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is terminated; the struct is written in full when the call succeeds.
    let stat = unsafe {
        if libc::statvfs(folder.as_ptr(), stat.as_mut_ptr()) != 0 {
            return None;
        }
        stat.assume_init()
    };
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
