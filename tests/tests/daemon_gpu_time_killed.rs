//! A process is killed, or stopped, where the others' GPU time might hang on it: while it waits in the gate, while its work has
//! the device, while its events are on their way. The others have their shares all the same, 100 ms later.
//!
//! The judge is the simulator's account. Bounds are wide, for machines where tests compete for two cores.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::time::Duration;

use quota_tests::{Daemon, Moment, Running, Sim, full};

const MS: Duration = Duration::from_millis(1);

/// The victim's container and two others, each with these lines.
fn config(victim: &str, others: &str) -> String {
    let mut config = String::from("[daemon]\ncontext = 0\n");
    for (name, lines) in [("victim", victim), ("b", others), ("c", others)] {
        config += &format!("[[container]]\nname = '{name}'\nmemory = 'none'\n{lines}\n");
    }
    config
}

/// One process at work.
fn at_work(daemon: &Daemon<'_>, container: &str, work: &str) -> Running {
    let client = daemon.client(container, "workload");
    let mut client = client.work("30", work, &["go"]).spawn();
    client.line("ready");
    client.go_on();
    client
}

/// What the others have of the device: from 100 ms after `end` on.
fn others_after(sim: &Sim, end: impl FnOnce()) -> [f64; 2] {
    let watch = sim.watch(5 * MS);
    end();
    let from = Moment::now().after(100 * MS);
    let to = from.after(if full() { 2000 * MS } else { 500 * MS });
    let seen = watch.end_after(to);
    ["b", "c"].map(|name| seen.percent(0, name, from, to))
}

fn busy_ns(sim: &Sim, label: &str) -> u64 {
    let account = sim.account();
    let tenants = &account.devices[0].tenants;
    let tenant = tenants.iter().find(|tenant| tenant.label == label);
    tenant.map_or(0, |tenant| tenant.busy_ns)
}

/// Waits until the victim's work has the device at this moment.
#[track_caller]
fn await_running(daemon: &Daemon<'_>, sim: &Sim) {
    let mut before = busy_ns(sim, "victim");
    daemon.wait("the victim's work", |_| {
        let now = busy_ns(sim, "victim");
        std::mem::replace(&mut before, now) < now
    });
}

/// Each has what it may have, give or take.
#[track_caller]
fn each_has(what: &str, got: [f64; 2], bounds: std::ops::RangeInclusive<f64>) {
    println!("{what}: the others have {got:.1?} %");
    assert!(
        got.iter().all(|got| bounds.contains(got)),
        "{what}: {got:?}"
    );
}

#[test]
fn killed_while_it_waits_in_the_gate() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, &config("compute = '2%'", "compute = '30%'"));
    let _others = ["b", "c"].map(|name| at_work(&daemon, name, "kernel:200000"));
    // Four kernels of 10 ms, which are queued before the first one has ended, are worth 2 s of waiting.
    let mut victims = [(); 3].map(|()| at_work(&daemon, "victim", "kernel:10000000"));
    // What they had queued before the first one ended has to be worked off.
    daemon.wait("the victims to wait", |_| {
        let before = busy_ns(&sim, "victim");
        std::thread::sleep(150 * MS);
        before >= 10_000_000 && busy_ns(&sim, "victim") == before
    });
    let before = others_after(&sim, || {});
    let still = busy_ns(&sim, "victim");
    let got = others_after(&sim, || victims.iter_mut().for_each(Running::kill));
    assert_eq!(busy_ns(&sim, "victim"), still, "they did not wait");
    each_has("beside those who wait", before, 22.0..=38.0);
    each_has("killed in the gate", got, 22.0..=38.0);
    // What they owed is still owed: who comes after them has no more than 2 % either.
    let next = at_work(&daemon, "victim", "kernel:1000000");
    let got = others_after(&sim, || {});
    drop(next);
    each_has("with the next one of its container", got, 22.0..=38.0);
}

#[test]
fn killed_while_its_work_has_the_device() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, &config("weight = 10", "weight = 10"));
    let _others = ["b", "c"].map(|name| at_work(&daemon, name, "kernel:200000"));
    for _ in 0..3 {
        let mut victim = at_work(&daemon, "victim", "kernel:20000000");
        await_running(&daemon, &sim);
        let got = others_after(&sim, || victim.kill());
        // Their own is a third; the dead one's is lent to them.
        each_has("killed with the device", got, 25.0..=60.0);
    }
}

#[test]
fn stopped_while_its_work_has_the_device() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, &config("weight = 10", "weight = 10"));
    let _others = ["b", "c"].map(|name| at_work(&daemon, name, "kernel:200000"));
    let victim = at_work(&daemon, "victim", "kernel:2000000");
    await_running(&daemon, &sim);
    let pid = libc::pid_t::try_from(victim.pid()).unwrap();
    let got = others_after(&sim, || {
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
    });
    each_has("stopped with the device", got, 22.0..=60.0);
    // It goes on, and has its own again.
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
    let before = busy_ns(&sim, "victim");
    daemon.wait("it to go on", |_| {
        busy_ns(&sim, "victim") > before + 20_000_000
    });
}

#[test]
fn killed_while_its_events_are_on_their_way() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, &config("weight = 10", "weight = 10"));
    let _others = ["b", "c"].map(|name| at_work(&daemon, name, "kernel:200000"));
    // Short kernels on many streams: each burst of them has ends that have not passed.
    for round in 0..8_u32 {
        let client = daemon.client("victim", "workload");
        let mut victim = client.work("30", "kernel:30000", &["streams:6"]).spawn();
        await_running(&daemon, &sim);
        std::thread::sleep(round * 3 * MS);
        victim.kill();
    }
    let got = others_after(&sim, || {});
    each_has(
        "killed with events on their way, eight times",
        got,
        25.0..=60.0,
    );
    // Nor does the container itself owe what is not its own: it has its third again.
    let watch = sim.watch(5 * MS);
    let next = at_work(&daemon, "victim", "kernel:200000");
    let from = Moment::now().after(400 * MS);
    let to = from.after(500 * MS);
    let seen = watch.end_after(to);
    drop(next);
    let share = seen.percent(0, "victim", from, to);
    println!("the next process of its container has {share:.1} %");
    assert!(share > 15.0, "{share}");
}
