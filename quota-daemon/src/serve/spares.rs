//! Files kept ready for containers that are still to come. A tenant can extend its own usage region until the tmpfs is full;
//! what was allocated before is not touched by that, and so new containers begin all the same.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use quota_abi::policy::Policy;
use rustix::fs::{self, AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, openat, renameat_with};

use super::usage;

/// How many of each kind.
const SPARES: usize = 4;

/// What a file is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A policy.
    Policy,
    /// A usage region.
    Usage,
}

/// Gives a spare file this name, if there is none of the name; `false` if there is no spare either.
pub(super) fn take(regions: impl AsFd, kind: Kind, name: &str) -> bool {
    (0..SPARES).any(|number| {
        let spare = name_of(kind, number);
        renameat_with(&regions, spare, &regions, name, RenameFlags::NOREPLACE).is_ok()
    })
}

/// Makes those that are missing.
///
/// # Errors
/// The first that cannot be made.
pub(super) fn fill(regions: impl AsFd) -> io::Result<()> {
    for number in 0..SPARES {
        for kind in [Kind::Policy, Kind::Usage] {
            make(&regions, kind, &name_of(kind, number))?;
        }
    }
    Ok(())
}

fn name_of(kind: Kind, number: usize) -> String {
    match kind {
        Kind::Policy => format!(".spare.policy.{number}"),
        Kind::Usage => format!(".spare.usage.{number}"),
    }
}

/// Made under another name first: a spare that has its own is one in full.
fn make(regions: impl AsFd, kind: Kind, name: &str) -> io::Result<()> {
    if fs::accessat(&regions, name, fs::Access::EXISTS, AtFlags::empty()).is_ok() {
        return Ok(());
    }
    let fresh = ".spare.new";
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(&regions, fresh, flags, Mode::RUSR | Mode::WUSR)?;
    allocate(&file, kind)?;
    fs::renameat(&regions, fresh, &regions, name)?;
    Ok(())
}

fn allocate(file: &OwnedFd, kind: Kind) -> io::Result<()> {
    match kind {
        // All zero is a policy that is to be written.
        Kind::Policy => {
            let bytes = size_of::<Policy>() as u64;
            Ok(fs::fallocate(file, FallocateFlags::empty(), 0, bytes)?)
        }
        Kind::Usage => usage::prepare(file.as_fd()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::files::USAGE_BYTES;

    #[test]
    fn a_spare_is_a_file_in_full_that_takes_the_name_of_one_that_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let open = std::fs::File::open(directory.path()).unwrap();
        assert!(!take(&open, Kind::Usage, "a"));
        fill(&open).unwrap();
        assert!(take(&open, Kind::Usage, "a"));
        let size = |name: &str| {
            std::fs::metadata(directory.path().join(name))
                .unwrap()
                .len()
        };
        assert_eq!(size("a"), USAGE_BYTES);
        std::fs::write(directory.path().join("b"), "mine").unwrap();
        assert!(
            !take(&open, Kind::Usage, "b"),
            "what is there is not replaced"
        );
        assert_eq!(size("b"), 4);
        let taken = (0..SPARES).filter(|number| take(&open, Kind::Usage, &format!("c{number}")));
        assert_eq!(taken.count(), SPARES - 1);
        fill(&open).unwrap();
        assert!(take(&open, Kind::Usage, "d"));
        assert!(take(&open, Kind::Policy, "e"));
        assert_eq!(size("e"), size_of::<Policy>() as u64);
    }
}
