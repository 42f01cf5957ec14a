//! Containers that end, and come again.

use std::time::Duration;

use quota_tests::{MIB, Work};

use super::Case;
use super::sharing::WORK;
use super::stage::{CONTEXT, Stage, limited, result};

pub(crate) const CASES: &[Case] = &[
    ("killed while it allocates, beside another", killed),
    ("started again under the same name", again),
    ("made by a command, and removed", transient),
    ("the daemon is killed, and replaced", without_daemon),
];

/// What the other one holds is all that is left, to the byte.
fn killed(stage: &Stage<'_>) -> String {
    let other = format!("sleep 60 | {} 200", stage.program("hold").display());
    let other = stage.start("a", &[], &["sh", "-c", &other]);
    let left = 200 * MIB + CONTEXT;
    stage.daemon.wait("the other one", |daemon| {
        daemon.share("a").memory_used_bytes == left
    });
    let memory_only = Work {
        seed: 11,
        kernel_ns: 0,
        most_mib: 1400,
    };
    for round in 0..3 {
        let name = format!("killed-{}-{round}", std::process::id());
        let load = stage.load("a", &[&format!("--name={name}")], memory_only);
        load.goes_on(20 + 7 * round);
        stage.podman.ok(&["kill", "--signal=KILL", &name]);
        stage
            .daemon
            .wait("its death", |daemon| daemon.container("a").processes == 1);
        assert_eq!(
            stage.daemon.share("a").memory_used_bytes,
            left,
            "after {round}"
        );
        drop(load);
    }
    assert_eq!(stage.tenant("a").requested, 200 * MIB);
    stage.end(&other);
    stage.daemon.wait("the other's end", |daemon| {
        daemon.container("a").processes == 0
    });
    assert_eq!(stage.daemon.share("a").memory_used_bytes, 0);
    "three times: exactly what the other holds is left".into()
}

/// A new one owes nothing for the one before, and is owed nothing.
fn again(stage: &Stage<'_>) -> String {
    let name = format!("again-{}", std::process::id());
    let flag = format!("--name={name}");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let long = Work {
            seed: 5,
            kernel_ns: 100_000_000,
            most_mib: 0,
        };
        // It leaves a debt: a kernel of a third of a second's worth.
        let load = stage.load("a", &[&flag], long);
        load.goes_on(2);
        stage.podman.ok(&["kill", "--signal=KILL", &name]);
        stage
            .daemon
            .wait("its end", |daemon| daemon.container("a").processes == 0);
        drop(load);
        // podman lets go of a name when it has cleared up.
        while stage
            .podman
            .command(&["container", "exists", &name])
            .status()
            .unwrap()
            .success()
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        let load = stage.load(
            "a",
            &[&flag],
            Work {
                most_mib: 0,
                ..WORK
            },
        );
        load.goes_on(20);
        let [share] = stage.shares(["a"], 700);
        let _ = load.end().ok();
        seen.push(share);
        stage
            .daemon
            .wait("its end", |daemon| daemon.container("a").processes == 0);
        let full = stage.run("a", &[], &stage.hold("", 1700));
        assert_eq!(result(&full), 0, "all of its memory is there again");
    }
    assert!(
        seen.iter().all(|share| (12.0..45.0).contains(share)),
        "{seen:.1?}"
    );
    format!(
        "{:.0} % and {:.0} % of 30 %, all of its memory",
        seen[0], seen[1]
    )
}

/// The device is there as long as the container.
fn transient(stage: &Stage<'_>) -> String {
    let set = stage
        .daemon
        .type_in(&["set", "made", "--create", "--memory", "1GiB"]);
    assert!(set.status.success(), "{set:?}");
    let told = String::from_utf8_lossy(&set.stdout);
    assert!(told.contains(&stage.device("made")), "{told}");
    stage.sim.allow("made", "1GiB");
    let run = |mib| stage.run("made", &[], &stage.hold("", mib));
    assert_eq!((result(&run(900)), result(&run(500))), (2, 0));
    stage
        .daemon
        .wait("its end", |daemon| daemon.container("made").processes == 0);
    let removed = stage.daemon.type_in(&["remove", "made"]);
    assert!(removed.status.success(), "{removed:?}");
    let gone = run(500);
    assert!(!gone.status.success());
    let text = quota_tests::podman::text(&gone);
    assert!(text.contains(&stage.device("made")), "{text}");
    "limited; after `remove` podman knows no such device".into()
}

/// Who comes meanwhile is refused, and says why; who comes later finds the new daemon at the old place.
fn without_daemon(stage: &Stage<'_>) -> String {
    let id = stage.start("a", &[], &["sleep", "600"]);
    let exec = |mib: u64| {
        let mut command = stage.podman.command(&["exec", &id, "sh", "-c"]);
        command.arg(stage.bare_hold("a", mib)).output().unwrap()
    };
    stage.daemon.kill9();
    let refused = exec(100);
    stage.daemon.restart();
    let text = quota_tests::podman::text(&refused);
    assert!(!refused.status.success(), "{text}");
    let line = "no daemon at /run/gpu-quota/container/attach.sock for 5 s";
    assert!(text.contains(line), "{text}");
    limited(&exec(3000), &exec(1500));
    stage.end(&id);
    format!("\"{line}\", then limited")
}
