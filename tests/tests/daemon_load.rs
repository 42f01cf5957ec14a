//! Two containers under full load: what `status --json` says is what the simulator's devices hold and did.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::time::Duration;

use quota_tests::report::Status;
use quota_tests::{Daemon, Load, MIB, Sim, Tenant, Work, full};

/// What a context takes of the simulated device, and is charged.
const CONTEXT: u64 = 300 * MIB;
const PROCESSES: u64 = 4;
const KERNEL_NS: u64 = 200_000;

const CONFIG: &str = r#"
[daemon]
context = "300MiB"

[[container]]
name = "a"
memory = "4GiB"
compute = "30%"

[[container]]
name = "b"
memory = "3GiB"
compute = "50%"
"#;

fn tenant(sim: &Sim, name: &str) -> Tenant {
    let account = sim.account();
    let tenants = &account.devices[0].tenants;
    tenants
        .iter()
        .find(|tenant| tenant.label == name)
        .unwrap()
        .clone()
}

/// Four processes of each container: more than their limits allow, so that they are refused and wait all the time.
fn loads(daemon: &Daemon<'_>) -> Vec<(&'static str, Load)> {
    let names = ["a", "b"].into_iter();
    let each = names.flat_map(|name| (0..PROCESSES).map(move |number| (name, number)));
    let loads: Vec<_> = each
        .map(|(name, number)| {
            let work = Work {
                seed: number + 1,
                kernel_ns: KERNEL_NS,
                most_mib: 1500,
            };
            (name, Load::begin(daemon.client(name, "load"), work))
        })
        .collect();
    for (_, load) in &loads {
        load.await_ready();
    }
    loads
}

/// Compares to the byte, while everybody is held still.
#[track_caller]
fn memory_agrees(daemon: &Daemon<'_>, sim: &Sim, loads: &[(&str, Load)]) {
    for (_, load) in loads {
        load.hold_still();
    }
    let status: Status = daemon.typed(&["status", "--json"]);
    for name in ["a", "b"] {
        let (share, tenant) = (status.share(name), tenant(sim, name));
        let held: u64 = loads
            .iter()
            .filter(|(of, _)| *of == name)
            .map(|(_, load)| load.progress().held)
            .sum();
        assert_eq!(
            tenant.requested, held,
            "the programs and the simulator agree"
        );
        assert_eq!(
            share.memory_used_bytes,
            held + PROCESSES * CONTEXT,
            "{name}: {share:?}"
        );
        assert_eq!(status.container(name).processes, 4);
        assert_eq!(status.container(name).damage, None);
    }
    // What the driver's blocks take beyond that is known by NVML, a second later at most.
    for name in ["a", "b"] {
        let used = tenant(sim, name).used;
        daemon.wait("NVML's view", |daemon| {
            let share = daemon.share(name);
            share.memory_used_bytes + share.memory_overhead_bytes == used
        });
    }
    for (_, load) in loads {
        load.go_on();
    }
}

#[test]
fn status_agrees_with_the_devices_under_full_load() {
    let sim = Sim::new();
    sim.allow("a", "4GiB");
    sim.allow("b", "3GiB");
    let daemon = Daemon::start(&sim, CONFIG);
    let loads = loads(&daemon);

    let (windows, window, points) = if full() {
        (6, Duration::from_secs(10), 2.0)
    } else {
        (3, Duration::from_secs(1), 20.0)
    };
    let mut worst = 0.0_f64;
    let names = ["a", "b"];
    let now = || names.map(|name| (daemon.share(name).gpu_time_ns, tenant(&sim, name).busy_ns));
    for number in 1..=windows {
        let (before, clock) = (now(), sim.account().clock_ns);
        std::thread::sleep(window);
        let (after, elapsed) = (now(), sim.account().clock_ns - clock);
        for (name, (before, after)) in names.iter().zip(before.iter().zip(after)) {
            let percent = |ns: u64| ns as f64 * 100.0 / elapsed as f64;
            let (said, ran) = (percent(after.0 - before.0), percent(after.1 - before.1));
            println!("window {number}, {name}: {said:.2} % by status, {ran:.2} % by the device");
            worst = worst.max((said - ran).abs());
        }
        memory_agrees(&daemon, &sim, &loads);
    }
    assert!(
        worst <= points,
        "status and device differ by {worst:.1} points"
    );
    for name in names {
        let share = daemon.share(name);
        println!("{name}: {share:?}");
        assert!(share.refusals > 0, "nothing was refused: {share:?}");
        assert!(share.waited_ns > 0, "nobody waited: {share:?}");
        assert!(share.launches > 0, "{share:?}");
    }
    for (_, load) in loads {
        let finished = load.end().ok();
        assert_eq!(finished.stderr, "");
    }
}
