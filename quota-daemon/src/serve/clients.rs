//! Registered processes, and the small file of each by which the next daemon finds it again.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use quota_abi::slots::Owner;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use super::peer;

/// A process as the host knows it: pid and start time. Unlike a pid alone, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// Its pid on the host.
    pub(super) pid: u32,
    /// When it started, in clock ticks since boot.
    pub(super) start: u64,
}

/// What is kept of a registered process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Its pid on the host.
    pub(super) pid: u32,
    /// When it started, by the host's clock.
    pub(super) start: u64,
    /// What it writes into its slot: [`Owner::word`].
    pub(super) owner: u64,
    /// Its pid in its own pid namespace.
    pub(super) pid_inside: u32,
    /// Its user on the host.
    pub(super) uid: u32,
    /// Its program's name.
    pub(super) program: String,
    /// Since when it is registered, Unix time in seconds.
    pub(super) since: u64,
}

/// A registered process that lives.
#[derive(Debug)]
pub(super) struct Client {
    /// What is kept of it.
    pub(super) record: Record,
    /// Its container.
    pub(super) container: String,
    /// Becomes readable when it ends; the event loop waits for it as long as it is open.
    pub(super) _pidfd: OwnedFd,
    /// By which the event loop knows that descriptor.
    pub(super) token: u64,
}

impl Record {
    /// Which process it is.
    #[must_use]
    pub(super) const fn key(&self) -> Key {
        Key {
            pid: self.pid,
            start: self.start,
        }
    }

    /// What it writes into its slot.
    #[must_use]
    pub(super) fn owner(&self) -> Option<Owner> {
        Owner::from_word(self.owner)
    }

    /// Writes its file, at once or not at all: the process may be one that is registered already.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn keep(&self, directory: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        let fresh = directory.join(".new");
        let mut options = fs::File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        io::Write::write_all(&mut options.open(&fresh)?, &bytes)?;
        fs::rename(&fresh, self.path(directory))
    }

    /// Removes its file.
    pub(super) fn forget(&self, directory: &Path) {
        let _ = fs::remove_file(self.path(directory));
    }

    fn path(&self, directory: &Path) -> std::path::PathBuf {
        directory.join(format!("{}.{}", self.pid, self.start))
    }

    /// Its pidfd, if it still lives: the same process, and not another of the same pid.
    #[must_use]
    pub(super) fn find(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let same = peer::facts(self.pid).is_ok_and(|facts| facts.start == self.start);
        (same && !peer::is_dead(&pidfd)).then_some(pidfd)
    }
}

/// What an earlier daemon has noted in a container's directory. Files that say nothing are removed.
pub(super) fn kept(directory: &Path) -> Vec<Record> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut records = Vec::new();
    for entry in entries.flatten() {
        let read = fs::read(entry.path()).ok();
        match read.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok()) {
            Some(record) => records.push(record),
            None => {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pid: u32, start: u64) -> Record {
        Record {
            pid,
            start,
            owner: 7,
            pid_inside: 1,
            uid: 1000,
            program: "python".into(),
            since: 1,
        }
    }

    #[test]
    fn what_is_kept_is_found_and_half_a_file_is_not() {
        let directory = tempfile::tempdir().unwrap();
        record(71, 5).keep(directory.path()).unwrap();
        fs::write(directory.path().join("72.6"), b"{\"pid\":72,").unwrap();
        assert_eq!(kept(directory.path()), [record(71, 5)]);
        record(71, 5).forget(directory.path());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let own = quota_abi::life::Identity::own();
        assert!(record(own.pid, own.start).find().is_some());
        assert!(record(own.pid, own.start + 1).find().is_none());
    }

    /// A tenant that names itself so would else be dead to the next daemon, and what it holds free.
    #[test]
    fn a_name_that_is_no_text_hides_nobody() {
        let own = quota_abi::life::Identity::own();
        let comm = format!("/proc/{}/comm", own.pid);
        let before = fs::read(&comm).unwrap();
        fs::write(&comm, b"\xff\xfe)").unwrap();
        let found = record(own.pid, own.start).find();
        fs::write(&comm, before).unwrap();
        assert!(found.is_some());
    }
}
