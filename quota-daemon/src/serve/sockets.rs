//! Sockets that processes attach at.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

use super::Error;
use super::state_dir::failed;

/// Connections that the kernel holds ready. More make whoever connects wait.
const BACKLOG: i32 = 256;
/// Connections taken in one turn of the loop: then others have theirs.
pub(super) const PER_TURN: usize = 16;
/// Connections in a row, and then as many a second: a flood costs the daemon no more of a processor than that.
const BURST: f64 = 512.0;
const PER_SECOND: f64 = 2000.0;

/// A socket that is listened at.
#[derive(Debug)]
pub(super) struct Listener {
    /// The socket.
    pub(super) socket: OwnedFd,
    /// By which the event loop knows it.
    pub(super) token: u64,
    tokens: f64,
    filled: Instant,
}

/// What a look at a listener yields.
#[derive(Debug)]
pub(super) enum Accepted {
    /// Somebody has connected.
    One(OwnedFd),
    /// Nobody else is there.
    Nobody,
    /// So many have come that the rest must wait this long.
    Later(Duration),
}

impl Listener {
    /// Listens at a path that anybody may connect to. What was there is replaced at once: who connects at that moment finds
    /// either the old or the new.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn bind(path: &Path, token: u64) -> Result<Self, Error> {
        let fresh = path.with_extension("new");
        let _ = fs::remove_file(&fresh);
        let socket = open(&fresh).map_err(|error| failed("listen at", path, error))?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o666))
            .and_then(|()| fs::rename(&fresh, path))
            .map_err(|error| failed("listen at", path, error))?;
        Ok(Self {
            socket,
            token,
            tokens: BURST,
            filled: Instant::now(),
        })
    }

    /// Takes the next connection.
    pub(super) fn accept(&mut self, now: Instant) -> Accepted {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        self.tokens = (self.tokens + passed * PER_SECOND).min(BURST);
        if self.tokens < 1.0 {
            return Accepted::Later(Duration::from_millis(20));
        }
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(connection) => {
                self.tokens -= 1.0;
                Accepted::One(connection)
            }
            Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM) => {
                tracing::warn!("no descriptor is left for a process that attaches");
                Accepted::Later(Duration::from_millis(100))
            }
            Err(_) => Accepted::Nobody,
        }
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
