//! Who is at the other end of a unix socket, as the kernel noted when it connected.

use std::io::Error;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Linux 6.5, include/uapi/asm-generic/socket.h; the `libc` crate does not have it everywhere.
const SO_PEERPIDFD: libc::c_int = 77;

/// A peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its pid here; 0 if it is in a pid namespace that is not below ours. (`rustix` has no room for a pid of 0.)
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Asks for the peer of a connection.
///
/// # Errors
/// The descriptor is no connected unix socket.
pub fn of(socket: impl AsFd) -> Result<Peer, Error> {
    let mut credentials = MaybeUninit::<libc::ucred>::zeroed();
    // SAFETY: the struct has as many bytes as are said, and any bytes are one.
    let (credentials, _) = unsafe {
        let place = credentials.as_mut_ptr().cast();
        let bytes = option(&socket, libc::SO_PEERCRED, place, size_of::<libc::ucred>())?;
        (credentials.assume_init(), bytes)
    };
    Ok(Peer {
        pid: u32::try_from(credentials.pid).unwrap_or(0),
        uid: credentials.uid,
        gid: credentials.gid,
    })
}

/// The supplementary groups of the peer. Those in `/proc/<pid>` could be another process's by now.
///
/// # Errors
/// The descriptor is no connected unix socket.
pub fn groups(socket: impl AsFd) -> Result<Vec<u32>, Error> {
    // As many as a process can have.
    let mut groups = vec![0_u32; 65_536];
    let bytes = groups.len() * size_of::<u32>();
    // SAFETY: the buffer has as many bytes as are said.
    let bytes = unsafe {
        let place = groups.as_mut_ptr().cast();
        option(&socket, libc::SO_PEERGROUPS, place, bytes)?
    };
    groups.truncate(bytes / size_of::<u32>());
    Ok(groups)
}

/// The pidfd of the process that connected, and not of a later one of the same pid; `None` where the kernel is older than
/// Linux 6.5.
///
/// # Errors
/// The process has ended, or the descriptor is no connected unix socket.
pub fn pidfd(socket: impl AsFd) -> Result<Option<OwnedFd>, Error> {
    let mut pidfd: libc::c_int = -1;
    let place = (&raw mut pidfd).cast();
    // SAFETY: an integer, of as many bytes as are said.
    match unsafe { option(&socket, SO_PEERPIDFD, place, size_of_val(&pidfd)) } {
        // SAFETY: a descriptor that the kernel has just made for us.
        Ok(_) => Ok(Some(unsafe { OwnedFd::from_raw_fd(pidfd) })),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads an option of the socket's own level; gives the number of bytes written.
///
/// # Safety
/// `bytes` bytes at `place` may be written.
unsafe fn option(
    socket: &impl AsFd,
    name: libc::c_int,
    place: *mut libc::c_void,
    bytes: usize,
) -> Result<usize, Error> {
    let mut length = libc::socklen_t::try_from(bytes).map_err(Error::other)?;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the caller's word for the place; the kernel writes no more than `length` bytes and says there how many.
    let result =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, place, &raw mut length) };
    if result != 0 {
        return Err(Error::last_os_error());
    }
    usize::try_from(length).map_err(Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_peer_is_who_it_is() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id());
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getegid().as_raw());
        let own = rustix::process::getgroups().unwrap();
        let own: Vec<_> = own.iter().map(|gid| gid.as_raw()).collect();
        assert_eq!(groups(&one).unwrap(), own);
        assert!(of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
