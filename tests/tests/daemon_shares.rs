//! Shares by weight, lent while their owners are idle and taken back when they are not: three containers with weights 5, 5 and
//! 10 on one simulated GPU. What each got is the simulator's account.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::mem::offset_of;
use std::time::{Duration, Instant};

use quota_abi::policy::{Policy, Row};
use quota_tests::{Daemon, Sim};

const CONFIG: &str = r#"
[daemon]
context = 0

[[container]]
name = "a"
memory = "none"
weight = 5

[[container]]
name = "b"
memory = "none"
weight = 5

[[container]]
name = "c"
memory = "none"
weight = 10
"#;

/// The same with turns.
fn with_turns() -> String {
    CONFIG.replace("[daemon]\n", "[daemon]\nturns = true\n")
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Per mille of the device's time that each container has in `time`.
fn got(sim: &Sim, time: Duration) -> [u64; 3] {
    let now = || {
        let account = sim.account();
        let busy = NAMES.map(|name| {
            let tenants = account.devices[0].tenants.iter();
            let mut of_name = tenants.filter(|tenant| tenant.label == name);
            of_name.next().map_or(0, |tenant| tenant.busy_ns)
        });
        (busy, account.clock_ns)
    };
    let (before, began) = now();
    std::thread::sleep(time);
    let (after, ended) = now();
    let mut got = [0; 3];
    for (got, (before, after)) in got.iter_mut().zip(before.iter().zip(after)) {
        *got = (after - before) * 1000 / (ended - began);
    }
    got
}

/// Waits until the daemon gives each container this many percent at this moment; how long that took.
#[track_caller]
fn given(daemon: &Daemon<'_>, expected: [f64; 3]) -> Duration {
    let began = Instant::now();
    daemon.wait("the shares", |daemon| {
        let status = daemon.status();
        let near = |(name, expected): (&str, f64)| {
            let now = status.share(name).now_percent;
            now.is_some_and(|now| (now - expected).abs() < 0.1)
        };
        NAMES.into_iter().zip(expected).all(near)
    });
    began.elapsed()
}

#[test]
fn the_worked_example_of_three_weights() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, CONFIG);
    // Idle, each has its own.
    given(&daemon, [25.0, 25.0, 50.0]);
    let load = |name: &str, seconds: &str| {
        let client = daemon.client(name, "share");
        client
            .args(["launch", seconds, "100000"])
            .watchdog(60)
            .spawn()
    };
    let (a, b) = (load("a", "6"), load("b", "6"));
    let took = given(&daemon, [50.0, 50.0, 50.0]);
    let lent = got(&sim, Duration::from_millis(800));
    println!("the third idle, lent after {took:?}: {lent:?} per mille");

    let c = load("c", "2.5");
    let took = given(&daemon, [25.0, 25.0, 50.0]);
    let own = got(&sim, Duration::from_millis(1_000));
    println!("all three, taken back {took:?} after its process started: {own:?} per mille");
    let _ = c.finish().ok();

    let took = given(&daemon, [50.0, 50.0, 50.0]);
    let again = got(&sim, Duration::from_millis(500));
    println!("the third idle again, lent after {took:?}: {again:?} per mille");
    let _ = a.finish().ok();
    let _ = b.finish().ok();
    given(&daemon, [25.0, 25.0, 50.0]);

    // Wide, for machines where tests compete; what each may have is exact, above.
    for [a, b, c] in [lent, again] {
        assert!(a > 300 && b > 300 && c == 0, "{a} {b} {c}");
    }
    let [a, b, c] = own;
    assert!(a < 350 && b < 350 && c > 300, "{a} {b} {c}");
    assert!(c > a && c > b, "{a} {b} {c}");
}

/// The word of its policy that says whose turn it is on the one device; 0: turns are off.
fn turn(daemon: &Daemon<'_>, name: &str) -> u64 {
    let path = daemon.state().join(format!("regions/{name}.policy.1"));
    let policy = std::fs::read(path).unwrap();
    let offset = offset_of!(Policy, rows) + offset_of!(Row, turn);
    u64::from_le_bytes(policy[offset..offset + 8].try_into().unwrap())
}

/// With turns the device is a container's own while it has its turn, so that what is measured is its own work.
#[test]
fn turns_are_taken_by_weight() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, &with_turns());
    let loads = NAMES.map(|name| {
        let client = daemon.client(name, "share");
        client.args(["launch", "4", "100000"]).watchdog(60).spawn()
    });
    given(&daemon, [25.0, 25.0, 50.0]);
    daemon.wait("all to run", |daemon| {
        daemon.status().devices[0].active == 3
    });
    daemon.wait("turns to be dealt", |daemon| {
        NAMES.iter().all(|name| turn(daemon, name) != 0)
    });
    std::thread::sleep(Duration::from_millis(300));
    let [a, b, c] = got(&sim, Duration::from_millis(2_000));
    println!("all three, with turns: {a} {b} {c} per mille");
    for load in loads {
        let _ = load.finish().ok();
    }
    // Nobody is active: turns are off, and a process that comes may start at once.
    daemon.wait("turns to end", |daemon| {
        NAMES.iter().all(|name| turn(daemon, name) == 0)
    });
    assert!(a > 80 && b > 80 && c > 160, "{a} {b} {c}");
    assert!(c > a && c > b, "{a} {b} {c}");
}
