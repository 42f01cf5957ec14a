//! Which processes share a quota without a daemon, and the file they share.

use std::ffi::CString;

use crate::layout::VERSION;
use crate::{cgroups, life};

/// A group of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    hash: u64,
}

impl Group {
    /// The group of this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            hash: hash(&[b"name", name.as_bytes()]),
        }
    }

    /// The group of this process where nobody named one: its container, known by the cgroup it sees itself in and the inode
    /// of its cgroup namespace. A container that sees itself in `/` differs from another by the inode.
    #[must_use]
    pub fn of_this_container() -> Self {
        let mut buffer = [0_u8; 4096];
        let cgroup = cgroups::own(&mut buffer);
        let inode = life::inode(c"/proc/self/ns/cgroup").unwrap_or(0);
        Self {
            hash: hash(&[b"cgroup", cgroup, &inode.to_le_bytes()]),
        }
    }

    /// The path of its region.
    #[must_use]
    pub fn path(&self) -> CString {
        let path = format!("/dev/shm/gpu-quota.{VERSION}.{:016x}", self.hash);
        CString::new(path).unwrap_or_default()
    }
}

/// FNV-1a over the parts, each closed by a byte that no path contains.
fn hash(parts: &[&[u8]]) -> u64 {
    parts
        .iter()
        .flat_map(|part| part.iter().chain(&[0]))
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_groups() {
        assert_eq!(Group::named("a"), Group::named("a"));
        assert_ne!(Group::named("a"), Group::named("b"));
        assert_eq!(Group::of_this_container(), Group::of_this_container());
        assert_ne!(Group::of_this_container(), Group::named(""));
        let path = Group::named("a").path().into_string().unwrap();
        assert!(path.starts_with("/dev/shm/gpu-quota.3."), "{path}");
    }
}
