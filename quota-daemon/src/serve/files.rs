//! A container's two regions: the files, and the descriptors that its processes get of them.
//!
//! The descriptors that are handed over are of their own: whoever holds one can set flags of the open file
//! (`O_APPEND` would send the daemon's writes to the end). Files are opened without waiting: a tenant may hold a lease on one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use quota_abi::layout::{self, Region};
use quota_abi::policy::{self, map};
use rustix::fs::{self, AtFlags, Mode, OFlags, openat};

use super::Error;
use super::spares;
use super::state_dir::StateDir;
use super::usage;

/// A container's regions.
#[derive(Debug)]
pub(super) struct Files {
    policy: Arc<map::Write>,
    policy_out: OwnedFd,
    usage: OwnedFd,
    usage_out: OwnedFd,
    fresh: bool,
}

/// The name of a container's policy.
fn policy_name(container: &str) -> String {
    format!("{container}.policy.{}", policy::VERSION)
}

/// The name of its usage region.
fn usage_name(container: &str) -> String {
    format!("{container}.usage.{}", layout::VERSION)
}

impl Files {
    /// Opens a container's regions, which are made if there are none.
    ///
    /// # Errors
    /// The kernel refuses, or a policy is not one.
    pub(super) fn open(state: &StateDir, container: &str) -> Result<Self, Error> {
        let name = policy_name(container);
        let refused = |error: io::Error| Error::Path {
            step: "open",
            path: state.path().join("regions").join(&name),
            error,
        };
        spares::take(state.regions(), spares::Kind::Policy, &name);
        let file = open_own(state.regions(), &name, 0o444).map_err(refused)?;
        let policy = map::Write::from_file(file.as_fd()).map_err(|error| Error::Policy {
            container: container.into(),
            error,
        })?;
        let fresh = policy.name().is_empty();
        policy.set_name(container);
        let policy_out = open_out(state.view(), &name, OFlags::RDONLY).map_err(refused)?;
        let (usage, usage_out) = open_usage(state, container)?;
        Ok(Self {
            policy: Arc::new(policy),
            policy_out,
            usage,
            usage_out,
            fresh,
        })
    }

    /// Whether there were none before.
    #[must_use]
    pub(super) const fn are_fresh(&self) -> bool {
        self.fresh
    }

    /// What the daemon says.
    #[must_use]
    pub(super) fn policy(&self) -> &Arc<map::Write> {
        &self.policy
    }

    /// The usage region, for reading and writing as a file.
    #[must_use]
    pub(super) fn usage(&self) -> BorrowedFd<'_> {
        self.usage.as_fd()
    }

    /// What a process of the container gets: policy and usage.
    #[must_use]
    pub(super) fn handed_over(&self) -> [BorrowedFd<'_>; 2] {
        [self.policy_out.as_fd(), self.usage_out.as_fd()]
    }

    /// Makes the usage region ready for the first of its processes: what earlier ones left is cleared, and a file that is not
    /// a region any more is replaced. `true` if it was.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn renew(&mut self, state: &StateDir, container: &str) -> Result<bool, Error> {
        if usage::clear(self.usage.as_fd()).is_ok() {
            return Ok(false);
        }
        let name = usage_name(container);
        // Who still has the old file, has nothing that counts.
        let _ = fs::unlinkat(state.regions(), &name, AtFlags::empty());
        (self.usage, self.usage_out) = open_usage(state, container)?;
        Ok(true)
    }
}

/// Removes a container's regions.
pub(super) fn remove(state: &StateDir, container: &str) {
    for name in [policy_name(container), usage_name(container)] {
        let _ = fs::unlinkat(state.regions(), &name, AtFlags::empty());
    }
}

fn open_usage(state: &StateDir, container: &str) -> Result<(OwnedFd, OwnedFd), Error> {
    let name = usage_name(container);
    let refused = |error: io::Error| Error::Path {
        step: "open",
        path: state.path().join("regions").join(&name),
        error,
    };
    spares::take(state.regions(), spares::Kind::Usage, &name);
    let usage = open_own(state.regions(), &name, 0o666).map_err(refused)?;
    usage::prepare(usage.as_fd()).map_err(refused)?;
    let out = open_out(state.regions(), &name, OFlags::RDWR).map_err(refused)?;
    Ok((usage, out))
}

/// Opens a file for writing, which is made with this mode if there is none.
fn open_own(directory: impl AsFd, name: &str, mode: u32) -> io::Result<OwnedFd> {
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = || openat(&directory, name, flags, Mode::RUSR | Mode::WUSR);
    let file = match open() {
        // A daemon that is not root may not even write to its own file of mode 0444.
        Err(rustix::io::Errno::ACCESS) => {
            let writable = Mode::RUSR | Mode::WUSR;
            fs::chmodat(&directory, name, writable, AtFlags::empty())?;
            open()?
        }
        other => other?,
    };
    fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    Ok(file)
}

fn open_out(directory: impl AsFd, name: &str, access: OFlags) -> io::Result<OwnedFd> {
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(openat(directory, name, flags, Mode::empty())?)
}

/// Bytes of a usage region.
pub(super) const USAGE_BYTES: u64 = size_of::<Region>() as u64;
