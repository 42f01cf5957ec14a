//! A daemon that does what its test says: it answers at a socket, and hands over regions that the test writes.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use quota_abi::devices::{self, halves};
use quota_abi::policy::map::Write;
use quota_abi::policy::{Policy, Row, mode};
use quota_abi::region::Mapped;
use quota_abi::wire::{Answer, Question, SOCKET_NAME, Status};
use quota_tests::Sim;
use tempfile::TempDir;

/// What is done about one question.
type Act = dyn Fn(&Ground, &Question, &OwnedFd) + Send + Sync;

/// A container's directory and regions.
pub(crate) struct Ground {
    dir: TempDir,
    policy: Write,
    usage: Mapped,
    uuid: [u8; 16],
}

/// A daemon that serves one container.
pub(crate) struct Fake {
    pub(crate) asked: Arc<Mutex<Vec<Question>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ground {
    /// With one row, for the first device of a simulation: no limit, contexts free.
    pub(crate) fn new(sim: &Sim) -> Arc<Self> {
        // Everybody's to enter: some clients are other users'.
        let dir = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o755))
            .tempdir()
            .unwrap();
        let policy = Write::from_file(made(dir.path(), "policy").as_fd()).unwrap();
        let usage = Mapped::from_file(made(dir.path(), "usage").as_fd(), c"usage").unwrap();
        policy.set_name("box");
        let uuid = uuid(sim, 0);
        let ground = Arc::new(Self {
            dir,
            policy,
            usage,
            uuid,
        });
        ground.add(0, uuid);
        ground
    }

    /// Adds a device.
    pub(crate) fn add(&self, row: usize, uuid: [u8; 16]) {
        let (key, rest) = halves(&uuid);
        let row = &self.policy.rows[row];
        row.memory.store(quota_abi::policy::NO_LIMIT, Relaxed);
        row.key.store(key, Relaxed);
        row.rest.store(rest, Relaxed);
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The first device's row.
    pub(crate) fn row(&self) -> &Row {
        &self.policy.rows[0]
    }

    pub(crate) fn usage(&self) -> &Mapped {
        &self.usage
    }

    /// The first device's index in the usage region, once a process has attached.
    pub(crate) fn index(&self) -> usize {
        devices::find(&self.usage, &self.uuid).unwrap()
    }

    /// Limits memory.
    pub(crate) fn memory(self: &Arc<Self>, bytes: u64) -> Arc<Self> {
        self.row().memory.store(bytes, Relaxed);
        self.news();
        Arc::clone(self)
    }

    /// Holds GPU time to a rate.
    pub(crate) fn rate(self: &Arc<Self>, ppm: u32) -> Arc<Self> {
        self.row().rate.store(ppm, Relaxed);
        self.row().mode.fetch_or(mode::COMPUTE, Relaxed);
        self.news();
        Arc::clone(self)
    }

    /// Sets the mode.
    pub(crate) fn mode(self: &Arc<Self>, mode: u32) -> Arc<Self> {
        self.row().mode.store(mode, Relaxed);
        self.news();
        Arc::clone(self)
    }

    /// A limit or a mode has changed.
    fn news(&self) {
        self.policy.header.generation.fetch_add(1, Relaxed);
        self.wake();
    }

    /// Wakes the launches that wait.
    pub(crate) fn wake(&self) {
        let word = &self.row().wake;
        word.fetch_add(1, Relaxed);
        // SAFETY: wakes the sleepers of a live word.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join(SOCKET_NAME)
    }

    /// What a process is handed: the policy to read, the usage region to write.
    pub(crate) fn files(&self) -> [File; 2] {
        let policy = File::open(self.dir.path().join("policy")).unwrap();
        let usage = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.dir.path().join("usage"));
        [policy, usage.unwrap()]
    }

    /// Answers with both regions.
    pub(crate) fn grant(&self, to: &OwnedFd) {
        let files = self.files();
        send(
            to,
            &answer(Status::Granted, "").encode(),
            &files.each_ref().map(AsRawFd::as_raw_fd),
        );
    }
}

impl Fake {
    /// Grants whatever is asked.
    pub(crate) fn granting(ground: &Arc<Ground>) -> Self {
        Self::start(ground, |ground, _, to| ground.grant(to))
    }

    /// Answers every question by `act`.
    pub(crate) fn start(
        ground: &Arc<Ground>,
        act: impl Fn(&Ground, &Question, &OwnedFd) + Send + Sync + 'static,
    ) -> Self {
        let path = ground.socket();
        Self::at(&path, ground, act)
    }

    /// The same at another path.
    pub(crate) fn at(
        path: &Path,
        ground: &Arc<Ground>,
        act: impl Fn(&Ground, &Question, &OwnedFd) + Send + Sync + 'static,
    ) -> Self {
        drop(std::fs::remove_file(path));
        let listener = listen(path);
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let thread = std::thread::spawn({
            let (ground, stop, asked) = (Arc::clone(ground), Arc::clone(&stop), Arc::clone(&asked));
            move || serve(&listener, &ground, &stop, &asked, &act)
        });
        Self {
            asked,
            stop,
            thread: Some(thread),
        }
    }

    /// How many questions there were.
    pub(crate) fn questions(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// Counts how often something sleeping on a word was woken, until it is dropped.
pub(crate) struct Bell {
    ground: Arc<Ground>,
    rung: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bell {
    pub(crate) fn listen(ground: &Arc<Ground>) -> Self {
        let (rung, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = std::thread::spawn({
            let (ground, rung, stop) = (Arc::clone(ground), Arc::clone(&rung), Arc::clone(&stop));
            move || {
                let word = &ground.policy().header.bell;
                while !stop.load(Relaxed) {
                    // SAFETY: a live word, no deadline.
                    let woken = unsafe {
                        libc::syscall(
                            libc::SYS_futex,
                            word.as_ptr(),
                            libc::FUTEX_WAIT,
                            word.load(Relaxed),
                            std::ptr::null::<libc::timespec>(),
                        )
                    };
                    rung.fetch_add(u64::from(woken == 0), Relaxed);
                }
            }
        });
        Self {
            ground: Arc::clone(ground),
            rung,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn rung(&self) -> u64 {
        self.rung.load(Relaxed)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().unwrap();
        while !thread.is_finished() {
            let word = &self.ground.policy().header.bell;
            word.fetch_add(1, Relaxed);
            // SAFETY: wakes the sleepers of a live word.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

pub(crate) fn answer(status: Status, text: &str) -> Answer {
    Answer {
        version: 1,
        status,
        container: "box".into(),
        text: text.into(),
    }
}

/// Sends one message with descriptors.
pub(crate) fn send(to: &OwnedFd, bytes: &[u8], files: &[RawFd]) {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = [0_u64; 32];
    let length = u32::try_from(size_of_val(files)).unwrap();
    // SAFETY: plain numbers, filled below; the control buffer is larger than what a few descriptors take, and aligned.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if !files.is_empty() {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(length) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(length) as usize;
            let place = libc::CMSG_DATA(header).cast::<RawFd>();
            for (index, file) in files.iter().enumerate() {
                place.add(index).write_unaligned(*file);
            }
        }
        libc::sendmsg(to.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL);
    }
}

/// The UUID of a simulated device.
pub(crate) fn uuid(sim: &Sim, device: usize) -> [u8; 16] {
    let text = sim.account().devices[device].uuid.clone();
    let digits: String = text[4..].chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&digits, 16).unwrap().to_be_bytes()
}

fn made(dir: &Path, name: &str) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(dir.join(name))
        .unwrap()
}

fn serve(
    listener: &OwnedFd,
    ground: &Ground,
    stop: &AtomicBool,
    asked: &Mutex<Vec<Question>>,
    act: &Act,
) {
    while !stop.load(Relaxed) {
        if !readable(listener, 10) {
            continue;
        }
        // SAFETY: accepts on our own listener; the new descriptor is ours.
        let peer = unsafe {
            let peer = libc::accept4(
                listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            );
            assert!(peer >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(peer)
        };
        let mut bytes = [0; 4096];
        assert!(readable(&peer, 5000), "connected, and asks nothing");
        // SAFETY: our own buffer and its length.
        let length =
            unsafe { libc::recv(peer.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        let question = Question::decode(&bytes[..usize::try_from(length).unwrap()]).unwrap();
        asked.lock().unwrap().push(question);
        act(ground, &question, &peer);
    }
}

fn readable(file: &OwnedFd, milliseconds: i32) -> bool {
    let mut wanted = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live entry.
    unsafe { libc::poll(&raw mut wanted, 1, milliseconds) > 0 }
}

fn listen(path: &Path) -> OwnedFd {
    // Bound by a short name: a test may want a long one.
    let dir = File::open(path.parent().unwrap()).unwrap();
    let short = format!("/proc/self/fd/{}/{SOCKET_NAME}", dir.as_raw_fd());
    // SAFETY: a filled address; the descriptor is ours.
    unsafe {
        let file = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        let file = OwnedFd::from_raw_fd(file);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = 1;
        for (to, from) in address.sun_path.iter_mut().zip(short.as_bytes()) {
            *to = libc::c_char::from_ne_bytes([*from]);
        }
        let length = u32::try_from(size_of_val(&address)).unwrap();
        let bound = libc::bind(file.as_raw_fd(), (&raw const address).cast(), length);
        assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        assert_eq!(libc::listen(file.as_raw_fd(), 64), 0);
        std::fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
        file
    }
}
