//! Asking at an attach socket, as the library does, for commands: without taking the regions.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use quota_abi::life::Identity;
use quota_abi::wire::{self, Answer, Malformed, Purpose, Question, Status};
use quota_abi::{layout, policy};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

/// One question is answered at once, or never.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two questions of one who is told to ask again.
const PAUSE: Duration = Duration::from_millis(50);

/// Why there is no answer.
#[derive(Debug)]
pub enum Silent {
    /// Nobody listens, or this user may not connect.
    Away(Errno),
    /// The connection broke, or nothing came.
    Broken(Errno),
    /// What came is no answer.
    Nonsense(Malformed),
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(errno) => write!(f, "nobody to talk to: {errno}"),
            Self::Broken(errno) => write!(f, "no answer: {errno}"),
            Self::Nonsense(wrong) => write!(f, "an answer that is none: {wrong}"),
        }
    }
}

impl std::error::Error for Silent {}

/// What the daemon says to this process at `socket`. As long as it says that it cannot answer now, it is asked again, for 5 s.
///
/// # Errors
/// There is no answer.
pub fn ask(socket: &Path, purpose: Purpose) -> Result<Answer, Silent> {
    let begin = Instant::now();
    loop {
        let answer = once(socket, purpose)?;
        if answer.status != Status::Later || begin.elapsed() > PATIENCE {
            return Ok(answer);
        }
        std::thread::sleep(PAUSE);
    }
}

fn once(path: &Path, purpose: Purpose) -> Result<Answer, Silent> {
    let socket = dial(path).map_err(Silent::Away)?;
    let asked = send(&socket, &question(purpose).encode(), SendFlags::NOSIGNAL);
    asked.map_err(Silent::Broken)?;
    let mut bytes = [0; wire::MOST];
    // No room for descriptors: the kernel drops those that come along.
    let (length, _) = recv(&socket, &mut bytes, RecvFlags::empty()).map_err(Silent::Broken)?;
    if length == 0 {
        return Err(Silent::Broken(Errno::CONNRESET));
    }
    let answer = bytes.get(..length).unwrap_or_default();
    Answer::decode(answer).map_err(Silent::Nonsense)
}

fn dial(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn question(purpose: Purpose) -> Question {
    let me = Identity::own();
    Question {
        versions: wire::VERSIONS,
        purpose,
        usage: u32::try_from(layout::VERSION).unwrap_or(0),
        policy: u32::try_from(policy::VERSION).unwrap_or(0),
        pid: me.pid,
        start: me.start,
        namespace: me.namespace,
        image: me.image,
    }
}
