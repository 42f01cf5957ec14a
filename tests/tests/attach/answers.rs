//! What a process makes of each answer, and of none.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use quota_abi::wire::{Question, Status};
use quota_tests::{Finished, GIB, Sim};

use crate::fake::{Fake, Ground, answer, send};
use crate::with;

const NOT_PERMITTED: u64 = 800;
const NOT_READY: u64 = 802;

fn init(sim: &Sim, ground: &Ground) -> Finished {
    with(sim.client("init"), &ground.socket()).run().ok()
}

/// The answer of `cuInit`, and one line that names the socket and what to do.
#[track_caller]
fn stopped(finished: &Finished, code: u64, ground: &Ground, words: &[&str]) {
    assert_eq!(finished.number("init"), code, "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    let socket = ground.socket();
    let socket = socket.to_str().unwrap();
    for word in words.iter().copied().chain([socket]) {
        assert!(finished.stderr.contains(word), "{word}: {finished:?}");
    }
}

#[test]
fn granted_it_is_limited_by_the_policy_and_the_question_says_who_asks() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(3 * GIB);
    let fake = Fake::granting(&ground);
    let finished = init(&sim, &ground);
    assert_eq!(finished.number("total0"), 3 * GIB);
    assert_eq!(finished.stderr, "");
    let asked: Vec<Question> = fake.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].pid, finished.pid);
    assert_eq!((asked[0].usage, asked[0].policy), (3, 1));
    assert!(!sim.region().exists(), "a region of its own was made");
}

#[test]
fn a_variable_only_lowers() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(3 * GIB);
    let _fake = Fake::granting(&ground);
    for (variable, total) in [("2GiB", 2 * GIB), ("4GiB", 3 * GIB), ("none", 3 * GIB)] {
        let client = with(sim.client("init"), &ground.socket()).memory(variable);
        assert_eq!(client.run().ok().number("total0"), total, "{variable}");
    }
}

#[test]
fn refused_says_the_daemons_reason() {
    for status in [Status::Refused, Status::Version] {
        let sim = Sim::new();
        let ground = Ground::new(&sim);
        let _fake = Fake::start(&ground, move |_, _, to| {
            send(to, &answer(status, "because\nof you").encode(), &[]);
        });
        let finished = init(&sim, &ground);
        stopped(&finished, NOT_PERMITTED, &ground, &["because of you"]);
    }
}

#[test]
fn without_a_rule_a_named_socket_refuses() {
    let sim = Sim::new();
    let ground = Ground::new(&sim);
    let _fake = Fake::start(&ground, |_, _, to| {
        send(to, &answer(Status::NoRule, "").encode(), &[]);
    });
    stopped(&init(&sim, &ground), NOT_PERMITTED, &ground, &["no rule"]);
}

#[test]
fn a_device_without_a_row_is_named_and_refused() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2");
    let ground = Ground::new(&sim).memory(GIB);
    let _fake = Fake::granting(&ground);
    let finished = init(&sim, &ground);
    assert_eq!(finished.number("init"), NOT_PERMITTED, "{finished:?}");
    let uuid = &sim.account().devices[1].uuid;
    assert!(finished.stderr.contains(uuid), "{finished:?}");
    assert!(finished.stderr.contains("container box"), "{finished:?}");
    let hidden = with(sim.client("init"), &ground.socket()).env("CUDA_VISIBLE_DEVICES", "0");
    assert_eq!(hidden.run().ok().number("total0"), GIB);
}

#[test]
fn a_daemon_that_comes_back_in_time_is_waited_for() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let client = with(sim.client("init"), &ground.socket()).spawn();
    std::thread::sleep(Duration::from_millis(700));
    let _fake = Fake::granting(&ground);
    let finished = client.finish().ok();
    assert_eq!(finished.number("total0"), GIB, "{finished:?}");
    assert_eq!(finished.stderr, "");
    assert!(finished.elapsed > Duration::from_millis(700));
}

#[test]
fn a_daemon_that_stays_away_is_named_with_what_to_do() {
    let sim = Sim::new();
    let ground = Ground::new(&sim);
    let finished = init(&sim, &ground);
    stopped(&finished, NOT_READY, &ground, &["quota-daemon serve"]);
    assert!(finished.elapsed > Duration::from_secs(4), "{finished:?}");
}

/// Later, nothing at all, and a slow answer: all of them are waited for.
#[test]
fn not_yet_is_asked_again_and_slow_is_waited_for() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let begin = Instant::now();
    let tries = std::sync::atomic::AtomicU32::new(0);
    let fake = Fake::start(&ground, move |ground, _, to| {
        match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => send(to, &answer(Status::Later, "starting").encode(), &[]),
            1 => {}
            _ => {
                std::thread::sleep(Duration::from_millis(1200));
                ground.grant(to);
            }
        }
    });
    let finished = init(&sim, &ground);
    assert_eq!(finished.number("total0"), GIB, "{finished:?}");
    assert_eq!(fake.questions(), 3);
    assert!(begin.elapsed() > Duration::from_millis(1200));
}

/// Whatever a daemon may send that is no answer: refused at once, with a reason.
#[test]
fn what_is_no_answer_is_refused() {
    type Sends = fn(&Ground, &std::os::fd::OwnedFd);
    let cases: [(&str, Sends); 9] = [
        ("too short", |_, to| send(to, b"?", &[])),
        ("not a message", |_, to| send(to, &[7; 600], &[])),
        ("without a meaning", |_, to| {
            let mut bytes = answer(Status::Granted, "").encode();
            bytes[6] = 77;
            send(to, &bytes, &[]);
        }),
        ("version 9", |ground, to| {
            let newer = quota_abi::wire::Answer {
                version: 9,
                ..answer(Status::Granted, "")
            };
            let files = ground.files();
            send(
                to,
                &newer.encode(),
                &files.each_ref().map(AsRawFd::as_raw_fd),
            );
        }),
        ("0 descriptors", |_, to| {
            send(to, &answer(Status::Granted, "").encode(), &[])
        }),
        ("not a policy", |ground, to| {
            let [_, usage] = ground.files();
            let twice = [usage.as_raw_fd(), usage.as_raw_fd()];
            send(to, &answer(Status::Granted, "").encode(), &twice);
        }),
        ("policy", |ground, to| {
            let small = tempfile::tempfile().unwrap();
            let [_, usage] = ground.files();
            let files = [small.as_raw_fd(), usage.as_raw_fd()];
            send(to, &answer(Status::Granted, "").encode(), &files);
        }),
        ("usage region", |ground, to| {
            let [policy, _] = ground.files();
            let (reader, _writer) = std::io::pipe().unwrap();
            let files = [policy.as_raw_fd(), reader.as_raw_fd()];
            send(to, &answer(Status::Granted, "").encode(), &files);
        }),
        ("descriptors", |ground, to| {
            let [policy, usage] = ground.files();
            let mut many = vec![policy.as_raw_fd(); 40];
            many.push(usage.as_raw_fd());
            send(to, &answer(Status::Granted, "").encode(), &many);
        }),
    ];
    let sim = Sim::new();
    for (words, sends) in cases {
        let ground = Ground::new(&sim);
        let _fake = Fake::start(&ground, move |ground, _, to| sends(ground, to));
        let finished = init(&sim, &ground);
        stopped(&finished, NOT_PERMITTED, &ground, &[words]);
    }
}
