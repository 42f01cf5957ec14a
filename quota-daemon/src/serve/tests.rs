//! The daemon as a library, and tenants that are this test process or its children.

mod attach;
mod counts;
mod devices;
mod hostile;
mod lives;
mod manage;
mod mounted;

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quota_abi::layout;
use quota_abi::life::Identity;
use quota_abi::policy::map;
use quota_abi::region::Mapped;
use quota_abi::wire::{self, Answer, Purpose, Question};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use tempfile::TempDir;

use super::{Fixed, Parts, Running, Settings, start};
use crate::api::Manager;
use crate::config::{Config, File};
use crate::metrics::Counters;
use crate::model::{Device, Uuid};

/// Long enough for anything that does not hang.
const WATCHDOG: Duration = Duration::from_secs(20);
/// The device that all have.
const GPU: Uuid = Uuid([7; 16]);

/// A daemon in a directory of its own, with one GPU of 16 GiB.
struct Daemon {
    directory: TempDir,
    config: Arc<Mutex<String>>,
    running: Option<Running>,
    counters: Arc<Counters>,
    mount: bool,
}

impl Daemon {
    fn start(config: &str) -> Self {
        let mut daemon = Self::prepare(config);
        daemon.restart();
        daemon
    }

    fn prepare(config: &str) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            config: Arc::new(Mutex::new(config.to_owned())),
            running: None,
            counters: Arc::default(),
            mount: false,
        }
    }

    /// Starts another in the same place; the one before is gone without a word.
    fn restart(&mut self) {
        self.running = None;
        self.running = Some(self.try_start().unwrap());
    }

    fn try_start(&self) -> Result<Running, super::Error> {
        let state = self.state();
        let config = self.config.clone();
        let read = move || parse(&config.lock(), &state);
        let settings = Settings {
            config: read().unwrap(),
            mount: self.mount,
        };
        let parts = Parts {
            gpus: Arc::new(Fixed(vec![Device {
                uuid: GPU,
                index: 0,
                name: "GPU".into(),
                memory_bytes: 16 << 30,
                mig: false,
            }])),
            reread: Box::new(read),
            counters: self.counters.clone(),
            warnings: Vec::new(),
        };
        start(settings, parts)
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn manager(&self) -> Arc<dyn Manager> {
        self.running.as_ref().unwrap().manager()
    }

    fn socket(&self, container: &str) -> PathBuf {
        self.state()
            .join("containers")
            .join(container)
            .join(wire::SOCKET_NAME)
    }
}

fn parse(text: &str, state: &Path) -> Result<Config, String> {
    let file = File {
        path: "config.toml".into(),
        text: text.into(),
    };
    let mut config = Config::read(&[file]).map_err(|problems| problems.to_string())?;
    config.daemon.state = state.into();
    Ok(config)
}

/// What a process of this test would ask.
fn question() -> Question {
    Question::of(&Identity::own(), Purpose::Attach)
}

/// A connection to a socket.
fn dial(path: &Path) -> OwnedFd {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    );
    let socket = socket.unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// An answer and what came with it; `None` if the daemon has hung up.
fn hear(socket: &OwnedFd) -> Option<(Answer, Vec<OwnedFd>)> {
    let timeout = Some(WATCHDOG);
    rustix::net::sockopt::set_socket_timeout(socket, rustix::net::sockopt::Timeout::Recv, timeout)
        .unwrap();
    let mut bytes = [0; wire::MOST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
        Ok(received) => received.bytes,
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(error) => panic!("no answer: {error}"),
    };
    let files = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    (received > 0).then(|| (Answer::decode(&bytes[..received]).unwrap(), files))
}

/// Asks, and hears the answer.
fn ask(path: &Path, question: &Question) -> Option<(Answer, Vec<OwnedFd>)> {
    let socket = dial(path);
    send(&socket, &question.encode(), SendFlags::NOSIGNAL).unwrap();
    hear(&socket)
}

/// A process's two regions.
struct Attached {
    policy: map::Read,
    usage: Mapped,
    files: Vec<OwnedFd>,
}

/// Attaches this process, which has to succeed.
#[track_caller]
fn attach(path: &Path) -> Attached {
    let (answer, files) = ask(path, &question()).unwrap();
    assert_eq!(answer.status, wire::Status::Granted, "{}", answer.text);
    Attached {
        policy: map::Read::from_file(files[0].as_fd()).unwrap(),
        usage: Mapped::from_file(files[1].as_fd(), c"usage").unwrap(),
        files,
    }
}

/// Waits until something is so.
#[track_caller]
fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < WATCHDOG, "{what} does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}
