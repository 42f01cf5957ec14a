//! Attaching: who gets what, and who is refused with which words.

use super::*;
use quota_abi::sync::Ordering;
use quota_abi::wire::Status;
use std::os::fd::AsRawFd;

const ONE: &str = "[[container]]\nname = \"a\"\nmemory = \"4GiB\"\ncompute = \"30%\"\n";

#[test]
fn a_process_gets_its_policy_to_read_and_its_usage_to_write() {
    let daemon = Daemon::start(ONE);
    let attached = attach(&daemon.socket("a"));
    assert_eq!(attached.policy.get().name(), "a");
    let row = attached.policy.get().row(&GPU.0).unwrap();
    assert_eq!(row.memory.load(Ordering::Relaxed), 4 << 30);
    assert_eq!(row.rate_at(0), Some(300_000));
    attached.usage.memory[0][0].store(0, Ordering::Relaxed);
    let written = rustix::io::pwrite(&attached.files[0], b"x", 0);
    assert_eq!(written, Err(rustix::io::Errno::BADF));

    let status = daemon.manager().status();
    assert_eq!(
        (
            status.containers[0].name.as_str(),
            status.containers[0].processes
        ),
        ("a", 1)
    );
    let processes = daemon.manager().processes(Some("a")).unwrap();
    assert_eq!(processes[0].pid, std::process::id());
}

#[test]
fn root_of_a_container_cannot_open_its_policy_anew_for_writing() {
    let daemon = Daemon::start(ONE);
    let attached = attach(&daemon.socket("a"));
    let path = format!("/proc/self/fd/{}", attached.files[0].as_raw_fd());
    let opened = std::fs::File::options().write(true).open(&path);
    let status = daemon.manager().status();
    let warned = status
        .daemon
        .warnings
        .iter()
        .any(|text| text.contains("read-only mount"));
    let is_root = rustix::process::geteuid().is_root();
    // Without the mount only the file's mode protects it, which does not hold against root: then it is said.
    assert!(opened.is_err() || warned, "{:?}", status.daemon.warnings);
    assert!(!warned || !is_root || opened.is_ok());
}

#[test]
fn who_lies_about_itself_is_refused_with_what_the_kernel_says() {
    let daemon = Daemon::start(ONE);
    let refused = |question: Question| {
        let (answer, files) = ask(&daemon.socket("a"), &question).unwrap();
        assert!(files.is_empty());
        (answer.status, answer.text)
    };
    let lies = [
        (
            Question {
                pid: 1,
                ..question()
            },
            "pid",
        ),
        (
            Question {
                namespace: 1,
                ..question()
            },
            "pid namespace",
        ),
        (
            Question {
                start: 1,
                ..question()
            },
            "start time",
        ),
    ];
    for (question, about) in lies {
        let (status, text) = refused(question);
        assert_eq!(status, Status::Refused);
        assert!(text.contains(&format!("its {about} is")), "{text}");
    }
    let versions = [
        Question {
            versions: (7, 9),
            ..question()
        },
        Question {
            usage: 2,
            ..question()
        },
        Question {
            policy: 9,
            ..question()
        },
    ];
    for question in versions {
        let (status, text) = refused(question);
        assert_eq!(status, Status::Version);
        assert!(text.contains("upgrade"), "{text}");
    }
    assert_eq!(daemon.manager().status().containers[0].processes, 0);
}

#[test]
fn a_viewer_is_shown_and_not_registered() {
    let daemon = Daemon::start(ONE);
    let view = Question {
        purpose: Purpose::View,
        ..question()
    };
    let (answer, files) = ask(&daemon.socket("a"), &view).unwrap();
    assert_eq!((answer.status, files.len()), (Status::Granted, 2));
    assert_eq!(daemon.manager().status().containers[0].processes, 0);
}

#[test]
fn at_the_hosts_socket_nobody_without_a_rule_is_let_in() {
    let daemon = Daemon::start(ONE);
    let (answer, _) = ask(&daemon.state().join("host.sock"), &question()).unwrap();
    assert_eq!(answer.status, Status::NoRule);
}

#[test]
fn a_container_that_is_full_says_so() {
    let daemon = Daemon::start(ONE);
    let core = daemon.running.as_ref().unwrap().core();
    let nobody = (1..=512).map(|pid| crate::serve::clients::Key { pid, start: 0 });
    core.lock()
        .containers
        .get_mut("a")
        .unwrap()
        .clients
        .extend(nobody);
    let (answer, files) = ask(&daemon.socket("a"), &question()).unwrap();
    assert_eq!((answer.status, files.len()), (Status::Refused, 0));
    assert!(
        answer.text.contains("512 registered processes"),
        "{}",
        answer.text
    );
}
