//! Removes the regions of groups that are over.
//!
//! A process does nothing when it ends, so nobody removes a group's region then; and every `run` without a name makes a group
//! that never comes again. So each `run` clears up what earlier ones left.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use quota_abi::layout::VERSION;
use quota_abi::life::Identity;
use quota_abi::region::Mapped;
use quota_abi::slots;

/// A region without members is left alone this long after it was made or last grew: a group
/// may be between two programs.
const AGE: Duration = Duration::from_secs(600);

/// Removes this user's regions in `folder` that nobody is in. What cannot be removed is left.
pub fn sweep(folder: &Path) {
    let prefix = format!("gpu-quota.{VERSION}.");
    let me = Identity::own();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let old = metadata
            .modified()
            .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > AGE));
        if metadata.is_file() && metadata.uid() == own_uid() && old && is_empty(&entry.path(), &me)
        {
            // Somebody else's sweep may have been first.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_empty(path: &Path, me: &Identity) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    match Mapped::open(&path) {
        Ok(Some(region)) => {
            slots::reap(&region, me);
            slots::owners(&region).next().is_none()
        }
        Ok(None) | Err(_) => false,
    }
}

fn own_uid() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn only_old_regions_that_nobody_is_in_go() {
        let folder = std::env::temp_dir().join(format!("sweep-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let region = |name: &str, old: bool| {
            let path = folder.join(format!("gpu-quota.{VERSION}.{name}"));
            let c_path = CString::new(path.as_os_str().as_bytes()).unwrap();
            let region = Mapped::open_or_create(&c_path).unwrap();
            (path, region, old)
        };
        let regions = [
            region("over", true),
            region("young", false),
            region("lived-in", true),
        ];
        slots::claim(&regions[2].1, &Identity::own()).unwrap();
        let other = folder.join("gpu-quota-of-somebody-else");
        fs::write(&other, "text").unwrap();
        for (path, _, old) in &regions {
            if *old {
                let file = fs::File::options().write(true).open(path).unwrap();
                file.set_modified(SystemTime::now() - 2 * AGE).unwrap();
            }
        }

        sweep(&folder);
        let left: Vec<_> = regions.iter().map(|(path, ..)| path.exists()).collect();
        assert_eq!(left, [false, true, true]);
        assert!(other.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
