//! Who is at the other end of a socket, by what the kernel says.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::proc;

/// A process that has connected.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its pid on the host.
    pub(super) pid: u32,
    /// Its user on the host.
    pub(super) uid: u32,
    /// Tells of its death.
    pub(super) pidfd: OwnedFd,
    /// Whether the kernel vouches that `pidfd` is of the process that connected, and not of a later one of the same pid.
    pub(super) certain: bool,
}

/// Why a peer is nobody.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Nobody {
    /// It has ended.
    Gone,
    /// It is in no pid namespace that the daemon sees.
    Foreign,
    /// The kernel refuses to tell.
    Refused(String),
}

/// Who has connected.
///
/// # Errors
/// It cannot be told.
pub(super) fn peer(socket: impl AsFd) -> Result<Peer, Nobody> {
    let credentials =
        crate::peer::of(&socket).map_err(|error| Nobody::Refused(error.to_string()))?;
    let pid = i32::try_from(credentials.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(Nobody::Foreign)?;
    let (pidfd, certain) = match crate::peer::pidfd(&socket) {
        Ok(Some(pidfd)) => (pidfd, true),
        Ok(None) => {
            let opened = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| Nobody::Gone)?;
            (opened, false)
        }
        Err(_) => return Err(Nobody::Gone),
    };
    if is_dead(&pidfd) {
        return Err(Nobody::Gone);
    }
    Ok(Peer {
        pid: credentials.pid,
        uid: credentials.uid,
        pidfd,
        certain,
    })
}

/// Whether the process of a pidfd has ended.
#[must_use]
pub(super) fn is_dead(pidfd: impl AsFd) -> bool {
    let mut waited = [PollFd::new(&pidfd, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut waited, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// What `/proc` says of a process. Each is true of the process only if that lives afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// When it started, in clock ticks since boot.
    pub(super) start: u64,
    /// Its pid in its own pid namespace.
    pub(super) pid_inside: u32,
    /// Its program's name.
    pub(super) program: String,
    /// Inode of its pid namespace, where it may be seen.
    pub(super) namespace: Option<u64>,
    /// Whether its clocks are those of the host.
    pub(super) host_time: bool,
}

/// Reads what `/proc` says.
///
/// # Errors
/// There is no such process.
pub(super) fn facts(pid: u32) -> io::Result<Facts> {
    let proc::Stat { program, start } = proc::stat(pid)?;
    let inode = |which: &str| std::fs::metadata(format!("/proc/{which}")).map(|file| file.ino());
    let time = inode(&format!("{pid}/ns/time")).ok();
    Ok(Facts {
        start,
        pid_inside: proc::pid_inside(pid)?,
        program,
        namespace: inode(&format!("{pid}/ns/pid")).ok(),
        // A kernel without time namespaces has the host's clock alone.
        host_time: time == inode("self/ns/time").ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_by_what_the_kernel_says() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let peer = peer(&one).unwrap();
        assert_eq!(peer.pid, std::process::id());
        let facts = facts(peer.pid).unwrap();
        let own = quota_abi::life::Identity::own();
        assert_eq!(
            (facts.start, facts.namespace),
            (own.start, Some(own.namespace))
        );
        assert_eq!(facts.pid_inside, own.pid);
        assert!(facts.host_time);
        assert!(!is_dead(&peer.pidfd));
    }
}
