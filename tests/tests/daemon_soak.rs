//! A busy host: 64 containers, 4 devices, processes that come and go. The daemon stays as large as it was, sees deaths at
//! once, and does nothing while nothing happens. `GPU_QUOTA_TEST_FULL=1`: 1,000 processes within a minute, and the figures of
//! docs/operations.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::fmt::Write;
use std::time::{Duration, Instant};

use quota_tests::{Daemon, MIB, Running, Sim, full};

const CONTAINERS: usize = 64;

fn config() -> String {
    let mut text = "[daemon]\ncontext = \"2MiB\"\n".to_owned();
    for number in 0..CONTAINERS {
        let container =
            format!("[[container]]\nname = \"c{number}\"\nmemory = \"256MiB\"\nweight = 1\n");
        text.write_str(&container).unwrap();
    }
    text
}

fn machine() -> Sim {
    Sim::new()
        .with("GPU_SIM_DEVICES", "24GiB,24GiB,24GiB,24GiB")
        .with("GPU_SIM_CONTEXT", "2MiB")
}

fn holder(daemon: &Daemon<'_>, number: usize) -> Running {
    daemon
        .client(&format!("c{}", number % CONTAINERS), "hold")
        .arg("16")
        .watchdog(300)
        .spawn()
}

/// CPU of the daemon while nobody does anything, in percent of a core.
fn idle(daemon: &Daemon<'_>, what: &str) -> f64 {
    let seconds = if full() { 20 } else { 1 };
    // What has just happened is digested first.
    std::thread::sleep(Duration::from_secs(1));
    let (cpu, begin) = (daemon.cpu(), Instant::now());
    std::thread::sleep(Duration::from_secs(seconds));
    let percent = (daemon.cpu() - cpu).as_secs_f64() * 100.0 / begin.elapsed().as_secs_f64();
    println!("idle, {what}: {percent:.2} % of a core");
    percent
}

#[test]
fn processes_that_come_and_go_leave_nothing() {
    let (crowd, bound) = if full() { (1000, 1.0) } else { (32, 20.0) };
    let sim = machine();
    for number in 0..CONTAINERS {
        sim.allow(&format!("c{number}"), "256MiB");
    }
    let daemon = Daemon::start(&sim, &config());
    println!(
        "64 containers: {} KiB, {} descriptors",
        daemon.resident() / 1024,
        daemon.descriptors()
    );
    assert!(idle(&daemon, "no process") < bound);

    // One in each container: whatever is made once is made.
    let mut first: Vec<Running> = (0..CONTAINERS)
        .map(|number| holder(&daemon, number))
        .collect();
    for client in &mut first {
        assert_eq!(client.line("result"), "result=0");
    }
    assert_eq!(
        daemon
            .status()
            .containers
            .iter()
            .map(|one| one.processes)
            .sum::<u32>(),
        64
    );
    assert!(idle(&daemon, "64 processes that hold memory") < bound);
    let (resident, descriptors) = (daemon.resident(), daemon.descriptors());

    let (cpu, begin) = (daemon.cpu(), Instant::now());
    let mut reaped = Vec::new();
    let at_once = 8;
    for batch in 0..crowd / at_once {
        let mut clients: Vec<Running> = (0..at_once)
            .map(|number| holder(&daemon, batch * at_once + number))
            .collect();
        for client in &mut clients {
            assert_eq!(client.line("result"), "result=0");
        }
        let one = format!("c{}", batch * at_once % CONTAINERS);
        for client in clients.iter_mut().rev() {
            client.kill();
        }
        let killed = Instant::now();
        daemon.wait("a death to be seen", |daemon| {
            daemon.processes(&one).len() == 1
        });
        reaped.push(killed.elapsed());
    }
    let (elapsed, used) = (begin.elapsed(), daemon.cpu() - cpu);
    reaped.sort();
    println!(
        "{crowd} processes in {elapsed:.1?}: reaped after {:?} (median), {:?} (most); the daemon took {used:?} of CPU time",
        reaped[reaped.len() / 2],
        reaped[reaped.len() - 1]
    );
    let most = if full() {
        Duration::from_millis(100)
    } else {
        Duration::from_secs(2)
    };
    assert!(reaped[reaped.len() / 2] < most);

    daemon.wait("all deaths to be seen", |daemon| {
        daemon
            .status()
            .containers
            .iter()
            .all(|container| container.processes == 1)
    });
    let status = daemon.status();
    for container in &status.containers {
        let held: u64 = container
            .devices
            .iter()
            .map(|share| share.memory_used_bytes)
            .sum();
        assert_eq!(held, 18 * MIB, "{container:?}");
    }
    let grown = daemon.resident().saturating_sub(resident);
    println!(
        "grown by {} KiB, {} descriptors",
        grown / 1024,
        daemon.descriptors()
    );
    assert!(grown < 2 * MIB, "{grown} bytes");
    assert_eq!(daemon.descriptors(), descriptors);

    let begin = Instant::now();
    daemon.kill9();
    daemon.restart();
    let counted: u32 = daemon
        .status()
        .containers
        .iter()
        .map(|one| one.processes)
        .sum();
    println!("64 containers adopted after {:?}", begin.elapsed());
    assert_eq!(counted, 64);
}

/// As a server that starts all its workers at once (rows 20 and 21).
#[test]
fn two_hundred_processes_attach_at_once() {
    let many = if full() { 300 } else { 100 };
    let sim = machine();
    let daemon = Daemon::start(
        &sim,
        "[[container]]\nname = \"c0\"\nmemory = \"10GiB\"\ncontext = \"2MiB\"\n",
    );
    let begin = Instant::now();
    let mut clients: Vec<Running> = (0..many)
        .map(|_| daemon.client("c0", "hold").arg("4").watchdog(300).spawn())
        .collect();
    for client in &mut clients {
        assert_eq!(client.line("result"), "result=0");
    }
    println!("{many} processes attached after {:?}", begin.elapsed());
    assert_eq!(daemon.container("c0").processes, many);
    let held = || -> u64 {
        let devices = daemon.container("c0").devices;
        devices.iter().map(|share| share.memory_used_bytes).sum()
    };
    assert_eq!(held(), u64::from(many) * 6 * MIB);
    drop(clients);
    daemon.wait("all deaths to be seen", |daemon| {
        daemon.container("c0").processes == 0
    });
    assert_eq!(held(), 0);
}
