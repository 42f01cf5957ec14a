//! Who is at the other end of a socket, by what the kernel says.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use quota_abi::cgroups;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Linux 6.5, include/uapi/asm-generic/socket.h; the `libc` crate does not have it everywhere.
const SO_PEERPIDFD: libc::c_int = 77;

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
    let (pidfd, certain) = match option::<libc::c_int>(&socket, SO_PEERPIDFD) {
        // SAFETY: a descriptor that the kernel has just made for us.
        Ok(descriptor) => (unsafe { OwnedFd::from_raw_fd(descriptor) }, true),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
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

/// An option of a socket, of a type for which every bit pattern is valid.
fn option<T: Copy>(socket: impl AsFd, name: libc::c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: an open descriptor, and room for the answer of the length that is told.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, then filled by the kernel; integers.
    Ok(unsafe { value.assume_init() })
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
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let strange = || io::Error::other(format!("/proc/{pid} is not understood"));
    let inode = |which: &str| std::fs::metadata(format!("/proc/{which}")).map(|file| file.ino());
    let time = inode(&format!("{pid}/ns/time")).ok();
    Ok(Facts {
        start: start(&stat).ok_or_else(strange)?,
        pid_inside: innermost(&status).ok_or_else(strange)?,
        program: program(&stat),
        namespace: inode(&format!("{pid}/ns/pid")).ok(),
        // A kernel without time namespaces has the host's clock alone.
        host_time: time == inode("self/ns/time").ok(),
    })
}

/// Field 22 of proc(5).
fn start(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn program(stat: &str) -> String {
    let inner = stat
        .split_once('(')
        .and_then(|(_, rest)| rest.rsplit_once(')'));
    inner.map_or(String::new(), |(name, _)| name.escape_default().to_string())
}

fn innermost(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

/// The cgroup of a process, as the process itself would name it if it were in no cgroup namespace.
///
/// # Errors
/// There is no such process.
pub(super) fn cgroup(pid: u32) -> io::Result<String> {
    let text = std::fs::read(format!("/proc/{pid}/cgroup"))?;
    Ok(String::from_utf8_lossy(cgroups::path_of(&text)).into_owned())
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

    #[test]
    fn the_innermost_pid_and_a_name_of_any_letters() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t71\t9\t1\n"), Some(1));
        assert_eq!(innermost("NSpid:\n"), None);
        let stat = "7 (a) b\x1b) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4711 0 0";
        assert_eq!(start(stat), Some(4711));
        assert_eq!(program(stat), "a) b\\u{1b}");
    }
}
