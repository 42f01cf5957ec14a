//! Asking at an attach socket, as the library does, for commands.

use std::fmt;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use quota_abi::life::Identity;
use quota_abi::wire::{self, Answer, Malformed, Purpose, Question, Status};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
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

/// An answer, and what came along.
#[derive(Debug)]
pub struct Answered {
    /// What the daemon says.
    pub answer: Answer,
    /// The policy region, where it is granted.
    pub policy: Option<OwnedFd>,
}

/// What the daemon says to this process at `socket`. As long as it says that it cannot answer now, it is asked again, for 5 s.
///
/// # Errors
/// There is no answer.
pub fn ask(socket: &Path, purpose: Purpose) -> Result<Answered, Silent> {
    let begin = Instant::now();
    loop {
        let answered = once(socket, purpose)?;
        if answered.answer.status != Status::Later || begin.elapsed() > PATIENCE {
            return Ok(answered);
        }
        std::thread::sleep(PAUSE);
    }
}

fn once(path: &Path, purpose: Purpose) -> Result<Answered, Silent> {
    let socket = dial(path).map_err(Silent::Away)?;
    let question = Question::of(&Identity::own(), purpose);
    let asked = send(&socket, &question.encode(), SendFlags::NOSIGNAL);
    asked.map_err(Silent::Broken)?;
    let mut bytes = [0; wire::MOST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC);
    let length = received.map_err(Silent::Broken)?.bytes;
    if length == 0 {
        return Err(Silent::Broken(Errno::CONNRESET));
    }
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let policy = files.next().and_then(|mut files| files.next());
    let answer = bytes.get(..length).unwrap_or_default();
    let answer = Answer::decode(answer).map_err(Silent::Nonsense)?;
    Ok(Answered { answer, policy })
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
    match SocketAddrUnix::new(path) {
        Err(Errno::NAMETOOLONG) => by_directory(&socket, path)?,
        address => connect(&socket, &address?)?,
    }
    Ok(socket)
}

/// An address has room for 107 bytes. A longer path is reached by the descriptor of its directory.
fn by_directory(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let (folder, name) = path
        .parent()
        .zip(path.file_name())
        .ok_or(Errno::NAMETOOLONG)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    let short = format!("/proc/self/fd/{}", folder.as_raw_fd());
    connect(socket, &SocketAddrUnix::new(Path::new(&short).join(name))?)
}
