//! What a tenant can do to the daemon's sockets and to its own files, while another tenant is served.

use super::*;
use crate::metrics::Counters;
use quota_abi::sync::Ordering;
use quota_abi::wire::Status;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
use std::io::IoSlice;
use std::os::unix::fs::PermissionsExt as _;

const TWO: &str = "[[container]]\nname = \"a\"\nmemory = \"1GiB\"\n[[container]]\nname = \"b\"\nmemory = \"1GiB\"\n";

/// How many descriptors this process has.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Looks at a container, which has to be answered.
#[track_caller]
fn view(path: &Path) {
    let question = Question {
        purpose: Purpose::View,
        ..question()
    };
    assert_eq!(ask(path, &question).unwrap().0.status, Status::Granted);
}

#[test]
fn nonsense_is_hung_up_on_and_counted() {
    let daemon = Daemon::start(TWO);
    let nonsense: [&[u8]; 4] = [
        b"x",
        &[0; 64],
        &[0xff; 4096],
        b"GQAS and so on, but not what comes next: it is no version",
    ];
    for bytes in nonsense {
        let socket = dial(&daemon.socket("a"));
        send(&socket, bytes, SendFlags::NOSIGNAL).unwrap();
        assert!(hear(&socket).is_none());
    }
    let counters: &Counters = &daemon.counters;
    assert_eq!(
        counters
            .malformed
            .load(std::sync::atomic::Ordering::Relaxed),
        4
    );
    attach(&daemon.socket("a"));
}

#[test]
fn who_says_nothing_is_hung_up_on_and_keeps_nobody_waiting() {
    let daemon = Daemon::start(TWO);
    let silent: Vec<_> = (0..200).map(|_| dial(&daemon.socket("a"))).collect();
    let asked = Instant::now();
    view(&daemon.socket("b"));
    // Behind them in the same queue too: of those who wait, the oldest makes room.
    view(&daemon.socket("a"));
    assert!(asked.elapsed() < WATCHDOG);
    let core = daemon.running.as_ref().unwrap().core();
    assert!(core.lock().pending.len() <= crate::serve::handshake::MOST_PENDING);
    for socket in &silent {
        assert!(hear(socket).is_none());
    }
}

#[test]
fn who_asks_late_is_answered() {
    let daemon = Daemon::start(TWO);
    let socket = dial(&daemon.socket("a"));
    std::thread::sleep(Duration::from_millis(100));
    send(&socket, &question().encode(), SendFlags::NOSIGNAL).unwrap();
    assert_eq!(hear(&socket).unwrap().0.status, Status::Granted);
}

#[test]
fn descriptors_that_come_with_a_question_are_not_taken() {
    let daemon = Daemon::start(TWO);
    // The test's own other threads open files as well, so that only a large number says something.
    let before = descriptors();
    let file = std::fs::File::open("/dev/null").unwrap();
    for _ in 0..40 {
        let socket = dial(&daemon.socket("a"));
        let files = [file.as_fd(); 20];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        let bytes = question().encode();
        sendmsg(
            &socket,
            &[IoSlice::new(&bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        )
        .unwrap();
        assert_eq!(hear(&socket).unwrap().0.status, Status::Granted);
    }
    assert!(descriptors() < before + 400);
}

#[test]
fn a_region_that_is_cut_off_is_said_to_those_who_ask() {
    let daemon = Daemon::start(TWO);
    let (answer, files) = ask(&daemon.socket("a"), &question()).unwrap();
    assert_eq!(answer.status, Status::Granted);
    rustix::fs::ftruncate(&files[1], 4096).unwrap();
    let damage = daemon.manager().status().containers[0].damage.clone();
    assert!(damage.unwrap().contains("4096"));
    // While a process lives that may have it, others are told why not.
    let (answer, _) = ask(&daemon.socket("a"), &question()).unwrap();
    assert_eq!(answer.status, Status::Refused);
    assert!(answer.text.contains("all its processes"), "{}", answer.text);
    view(&daemon.socket("b"));
}

#[test]
fn a_region_that_grows_is_cut_back_and_goes_on() {
    let daemon = Daemon::start(TWO);
    let (_, files) = ask(&daemon.socket("a"), &question()).unwrap();
    rustix::fs::ftruncate(&files[1], 1 << 30).unwrap();
    let attached = attach(&daemon.socket("a"));
    assert_eq!(rustix::fs::fstat(&files[1]).unwrap().st_size, 0x4b080);
    attached.usage.header.waits.store(0, Ordering::Relaxed);
    assert!(daemon.manager().status().containers[0].damage.is_some());
}

#[test]
fn flags_that_a_tenant_sets_on_its_descriptor_are_its_own() {
    let daemon = Daemon::start(TWO);
    let (_, files) = ask(&daemon.socket("a"), &question()).unwrap();
    rustix::fs::fcntl_setfl(&files[1], rustix::fs::OFlags::APPEND).unwrap();
    rustix::fs::fchmod(&files[1], rustix::fs::Mode::empty()).unwrap();
    attach(&daemon.socket("a"));
    assert_eq!(rustix::fs::fstat(&files[1]).unwrap().st_size, 0x4b080);
}

#[test]
fn each_file_is_open_to_those_whom_it_is_for() {
    let daemon = Daemon::start(TWO);
    let mode = |path: &str| {
        let metadata = std::fs::metadata(daemon.state().join(path)).unwrap();
        metadata.permissions().mode() & 0o7777
    };
    attach(&daemon.socket("a"));
    let found = [
        "",
        "containers",
        "containers/a",
        "containers/a/attach.sock",
        "host.sock",
        "host.cgroups",
        "regions",
        "regions/a.policy.1",
        "clients",
        "clients/a",
        "containers.json",
    ]
    .map(mode);
    let expected = [
        0o755, 0o755, 0o755, 0o666, 0o666, 0o644, 0o700, 0o444, 0o700, 0o700, 0o600,
    ];
    assert_eq!(
        found.map(|mode| format!("{mode:o}")),
        expected.map(|mode| format!("{mode:o}"))
    );
}
