//! A socket of one exchange, and the descriptors that come by it.
//!
//! # Safety
//! Every descriptor here is our own: made, or received, and closed by its owner's drop before anything else is done. The
//! addresses and buffers that are handed to the kernel live on the stack of the call.

use core::mem::offset_of;
use std::ffi::CString;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::time::clock;

/// The clock of all waiting here, ns. Not the one that others are told: what a time namespace adds is learned later.
pub(super) fn now() -> u64 {
    u64::try_from(clock::own()).unwrap_or(0)
}

/// A connected socket whose calls never block.
pub(super) struct Socket {
    file: OwnedFd,
    /// Sockets that keep the lowest numbers taken: what a program prints on a standard stream that it has closed must not come
    /// to the daemon, nor into a region.
    _low: Vec<OwnedFd>,
}

/// Standard input, output and error.
const STANDARD: RawFd = 2;

impl Socket {
    /// Connects to whoever listens at a path.
    pub(super) fn connect(path: &Path) -> Result<Self, Error> {
        let mut low = Vec::new();
        let file = loop {
            let file = make()?;
            if file.as_raw_fd() > STANDARD {
                break file;
            }
            low.push(file);
        };
        let socket = Self { file, _low: low };
        let Some((address, length)) = address(path) else {
            return socket.connect_by_directory(path);
        };
        socket.connect_to(&address, length)?;
        Ok(socket)
    }

    /// An address has room for 107 bytes. A longer path is reached by the descriptor of its directory.
    fn connect_by_directory(self, path: &Path) -> Result<Self, Error> {
        let too_long = || Error::from_raw_os_error(libc::ENAMETOOLONG);
        let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(too_long)?;
        let parent = CString::new(parent.as_os_str().as_bytes())?;
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: a NUL-terminated path.
        let directory = owned(unsafe { libc::open(parent.as_ptr(), flags) })?;
        let short = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let (address, length) = address(&Path::new(&short).join(name)).ok_or_else(too_long)?;
        self.connect_to(&address, length)?;
        Ok(self)
    }

    fn connect_to(
        &self,
        address: &libc::sockaddr_un,
        length: libc::socklen_t,
    ) -> Result<(), Error> {
        retried(|| {
            // SAFETY: a filled address and its length.
            let answer = unsafe {
                libc::connect(
                    self.file.as_raw_fd(),
                    core::ptr::from_ref(address).cast(),
                    length,
                )
            };
            isize::try_from(answer).unwrap_or(-1)
        })
        .map(|_| ())
    }

    /// Sends one message.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        // A fresh socket has room for one.
        retried(|| {
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            // SAFETY: so many bytes of the caller's.
            unsafe {
                libc::send(
                    self.file.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    flags,
                )
            }
        })
        .map(|_| ())
    }

    /// Receives one message until `deadline`: so many of its bytes, and what descriptors came with it. No bytes: the other side
    /// has gone.
    pub(super) fn receive(
        &self,
        into: &mut [u8],
        deadline: u64,
    ) -> Result<(usize, Vec<OwnedFd>), Error> {
        loop {
            self.await_message(deadline)?;
            match self.receive_now(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                answered => return answered,
            }
        }
    }

    fn await_message(&self, deadline: u64) -> Result<(), Error> {
        let mut ready = libc::pollfd {
            fd: self.file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        loop {
            let left = deadline.saturating_sub(now()).div_ceil(1_000_000);
            // SAFETY: one live entry.
            match unsafe { libc::poll(&raw mut ready, 1, i32::try_from(left).unwrap_or(i32::MAX)) }
            {
                0 => return Err(Error::from_raw_os_error(libc::ETIMEDOUT)),
                1.. => return Ok(()),
                _ => {
                    let error = Error::last_os_error();
                    if error.kind() != ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn receive_now(&self, into: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Error> {
        let mut control = Control([0; CONTROL]);
        let mut part = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        // SAFETY: all zero is an empty header.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL;
        let length = retried(|| {
            let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
            // SAFETY: a header whose parts live until the end of this function.
            unsafe { libc::recvmsg(self.file.as_raw_fd(), &raw mut message, flags) }
        })?;
        // SAFETY: the kernel has just written it.
        let files = unsafe { files_of(&message) };
        if message.msg_flags & libc::MSG_CTRUNC != 0 {
            // What there was no room for the kernel has closed: too many were sent, or this process may have no more.
            return Err(Error::from_raw_os_error(libc::EMFILE));
        }
        Ok((length, files))
    }
}

/// Bytes of the part of a message that carries descriptors: room for twenty and more.
const CONTROL: usize = 128;

#[repr(C, align(16))]
struct Control([u8; CONTROL]);

/// Takes what descriptors a message has brought.
///
/// # Safety
/// `message` is what `recvmsg` has written, asked once.
unsafe fn files_of(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut files = Vec::new();
    // SAFETY: the caller's promise; the kernel's lengths are right, and each descriptor in it is ours from now on.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = part.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(part).cast::<RawFd>();
                for index in 0..bytes / size_of::<RawFd>() {
                    files.push(OwnedFd::from_raw_fd(first.add(index).read_unaligned()));
                }
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
    files
}

fn make() -> Result<OwnedFd, Error> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: asks for a new descriptor.
    owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })
}

fn owned(file: RawFd) -> Result<OwnedFd, Error> {
    if file < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// The address of a path, if it has room for it.
fn address(path: &Path) -> Option<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: plain bytes.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).ok()?;
    let bytes = path.as_os_str().as_bytes();
    let length = offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
    if bytes.is_empty() || length > size_of::<libc::sockaddr_un>() {
        return None;
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    Some((address, libc::socklen_t::try_from(length).ok()?))
}

/// Makes a call again that a signal has interrupted.
fn retried(mut call: impl FnMut() -> isize) -> Result<usize, Error> {
    loop {
        match usize::try_from(call()) {
            Ok(done) => return Ok(done),
            Err(_) => {
                let error = Error::last_os_error();
                if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
