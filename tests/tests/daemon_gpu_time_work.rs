//! Every kind of work under a daemon: streams of all kinds, contexts, devices, graphs that change, captures, copies, and programs
//! that a careless gate would hang, under every policy. The judge is the simulator's account.
//!
//! Bounds are wide, for machines where tests compete for two cores; with `GPU_QUOTA_TEST_FULL=1` they are what is promised.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::time::Duration;

use quota_tests::{Client, Daemon, Moment, Running, Sim, full};

const MS: Duration = Duration::from_millis(1);

/// A container `a`, and a neighbour that keeps the device busy if it is let.
fn config(a: &str, neighbour: &str) -> String {
    let container = |name: &str, lines: &str| {
        format!("[[container]]\nname = '{name}'\nmemory = 'none'\n{lines}\n")
    };
    format!(
        "[daemon]\ncontext = 0\n{}{}",
        container("a", a),
        container("neighbour", neighbour)
    )
}

/// Wide, or as promised.
fn within(wide: f64, promised: f64) -> f64 {
    if full() { promised } else { wide }
}

fn begun(client: Client) -> Running {
    let mut client = client.spawn();
    client.line("ready");
    client.go_on();
    client
}

fn neighbour(daemon: &Daemon<'_>) -> Running {
    begun(
        daemon
            .client("neighbour", "workload")
            .work("60", "kernel:300000", &["go"]),
    )
}

/// What `a` had of each device while it did this at `compute = '30%'`, and what it was charged for that, as a part of what it had.
fn at_thirty(work: &str, options: &[&str], devices: usize) -> (Vec<f64>, f64) {
    let sim = Sim::new().with("GPU_SIM_DEVICES", &devices.to_string());
    let daemon = Daemon::start(&sim, &config("compute = '30%'", "compute = '30%'"));
    let watch = sim.watch(5 * MS);
    let mut options = options.to_vec();
    options.push("go");
    let client = begun(daemon.client("a", "workload").work("60", work, &options));
    let from = Moment::now().after(300 * MS);
    let to = from.after(if full() { 5000 * MS } else { 900 * MS });
    let seen = watch.end_after(to);
    drop(client);
    daemon.wait("its end", |daemon| daemon.container("a").processes == 0);
    let shares = (0..devices)
        .map(|device| seen.percent(device, "a", from, to))
        .collect();
    let had: u64 = sim
        .account()
        .devices
        .iter()
        .flat_map(|device| &device.tenants)
        .map(|tenant| tenant.busy_ns)
        .sum();
    let status = daemon.status();
    let charged: u64 = status
        .container("a")
        .devices
        .iter()
        .map(|device| device.gpu_time_ns)
        .sum();
    (shares, charged as f64 / had as f64)
}

#[track_caller]
fn has_thirty(work: &str, options: &[&str], devices: usize) {
    // On a machine that is busy with other tests, the simulated device itself stands still at times.
    let mut seen = Vec::new();
    for _ in 0..if full() { 1 } else { 3 } {
        let (shares, charged) = at_thirty(work, options, devices);
        println!("{work} {options:?}: {shares:.1?} % of 30, charged {charged:.3} of what it took");
        let off = within(6.0, 1.5);
        if shares.iter().all(|share| (share - 30.0).abs() < off)
            && (charged - 1.0).abs() < within(0.2, 0.05)
        {
            return;
        }
        seen.push((shares, charged));
    }
    panic!("{work} {options:?}: {seen:?}");
}

#[test]
fn streams_of_each_thread() {
    has_thirty("kernel:200000", &["ptsz", "threads:3"], 1);
}

/// Kernels side by side on eight streams: the time that the device was busy counts, and not its sum.
#[test]
fn streams_in_parallel_are_charged_once() {
    has_thirty("kernel:400000", &["streams:8"], 1);
}

/// One after the other: the simulator runs contexts of one process side by side, as under MPS, where they are charged one after the other.
#[test]
fn two_contexts() {
    has_thirty("kernel:200000", &["sync", "streams:2", "contexts:2"], 1);
}

/// Graphs of changing length, updated in place and made anew: charged what they take.
#[test]
fn graphs_updated_and_made_anew() {
    has_thirty("regraph:20", &[], 1);
}

#[test]
fn graphs_of_a_thousand_nodes() {
    has_thirty("graph:1000", &[], 1);
}

/// Each device waits for the other, and is busy while it does.
#[test]
fn two_devices_that_wait_for_each_other() {
    let (shares, charged) = at_thirty("barrier", &[], 2);
    println!("two devices: {shares:.1?} %, charged {charged:.3} of what it took");
    // It waits for each round, so it need not get all of it.
    let least = within(10.0, 25.0);
    assert!(
        shares
            .iter()
            .all(|share| (least..within(40.0, 32.0)).contains(share)),
        "{shares:?}"
    );
}

/// A copy and a fill of 1 GiB are charged what they take of the device, at the bandwidth that it states.
#[test]
fn copies_and_fills_are_charged_what_they_take() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, &config("compute = '90%'", "weight = 1"));
    let figures = |kind: &str| {
        let before = (
            daemon.share("a").gpu_time_ns,
            sim.account()
                .devices
                .first()
                .map_or(0, |device| device.busy_ns),
        );
        let _ = daemon.client("a", "device_copy").arg(kind).run().ok();
        let after = (
            daemon.share("a").gpu_time_ns,
            sim.account().devices[0].busy_ns,
        );
        (after.0 - before.0, after.1 - before.1)
    };
    for kind in ["copy", "fill"] {
        let (charged, took) = figures(kind);
        println!("1 GiB, {kind}: charged {charged} ns, took {took} ns");
        assert!(
            charged.abs_diff(took) * 10 <= took,
            "{kind}: {charged} {took}"
        );
    }
}

/// Without a limit on its GPU time a tenant pays for the hook and for nothing else: no event reaches the driver, and nothing bounds how
/// far it runs ahead.
#[test]
fn a_lone_tenant_without_a_limit_pays_nothing() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, &config("", "weight = 10"));
    let done = daemon
        .client("a", "workload")
        .work("0.3", "kernel:1000000", &[])
        .spawn()
        .done();
    println!("without a limit: {done:?}");
    assert_eq!(done.events, 0, "{done:?}");
    // The driver's own queue is what stops it.
    assert!(done.launches > 1000, "it was bound: {done:?}");
    let limited = sim
        .client("workload")
        .compute("30%")
        .work("0.3", "kernel:1000000", &[])
        .spawn()
        .done();
    assert!(limited.events > 0 && limited.launches < 300, "{limited:?}");
    let bare = sim
        .client("workload")
        .bare()
        .work("0.3", "kernel:1000000", &[])
        .spawn()
        .done();
    assert_eq!(bare.events, 0, "{bare:?}");
    let share = daemon.share("a");
    assert_eq!((share.waited_ns, share.launches), (0, 0), "{share:?}");
}

/// A program under the daemon, with a neighbour at work, ends as it does bare, answer for answer.
#[track_caller]
fn ends_as_bare(policy: &str, daemon: &Daemon<'_>, sim: &Sim, name: &str, args: &[&str]) {
    let bare = sim.client(name).bare().args(args).watchdog(20).run().ok();
    let under = daemon.client("a", name).args(args).watchdog(40).run().ok();
    println!(
        "{policy}, {name} {args:?}: bare {:?}, under the daemon {:?}",
        bare.elapsed, under.elapsed
    );
    assert_eq!(under.stdout, bare.stdout, "{policy}: {name}");
    assert_eq!(under.stderr, bare.stderr, "{policy}: {name}");
    // What spins while a launch is held must be paid for: nothing may be held for long.
    assert!(
        under.elapsed < Duration::from_secs(10),
        "{policy}: {name} {:?}",
        under.elapsed
    );
}

/// Programs whose work waits for what they launch later.
const WAITING: [&str; 3] = [
    "wait_for_other_stream",
    "host_flag_behind_lock",
    "stream_waits_for_value",
];

#[track_caller]
fn none_hangs(policy: &str, a: &str, others: &str, turns: bool) {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2");
    let mut config = config(a, others);
    if turns {
        config = config.replace("[daemon]\n", "[daemon]\nturns = true\n");
    }
    let daemon = Daemon::start(&sim, &config);
    let _neighbour = neighbour(&daemon);
    for name in WAITING {
        ends_as_bare(policy, &daemon, &sim, name, &[]);
    }
    ends_as_bare(policy, &daemon, &sim, "two_devices_one_thread", &[]);
}

#[test]
fn none_hangs_under_a_limit() {
    none_hangs("limit", "compute = '2%'", "compute = '50%'", false);
}

#[test]
fn none_hangs_under_a_share() {
    none_hangs("share", "weight = 1", "weight = 20", false);
}

#[test]
fn none_hangs_under_a_share_with_a_cap() {
    none_hangs(
        "share and cap",
        "weight = 1\ncap = '2%'",
        "weight = 20",
        false,
    );
}

#[test]
fn none_hangs_beside_one_with_priority() {
    none_hangs(
        "priority",
        "weight = 1",
        "weight = 20\npriority = 10",
        false,
    );
}

#[test]
fn none_hangs_while_observed() {
    none_hangs(
        "observe",
        "compute = '2%'\nobserve = true",
        "compute = '50%'",
        false,
    );
}

#[test]
fn none_hangs_in_turns() {
    none_hangs("turns", "weight = 1", "weight = 20", true);
}

/// Row 29 under a daemon: what captures meet is the driver's answers, whoever's turn it is.
#[test]
fn captures_in_turns_get_the_drivers_answers() {
    let sim = Sim::new();
    let config =
        config("weight = 1", "weight = 20").replace("[daemon]\n", "[daemon]\nturns = true\n");
    let daemon = Daemon::start(&sim, &config);
    let _neighbour = neighbour(&daemon);
    for mode in ["global", "relaxed"] {
        ends_as_bare("turns", &daemon, &sim, "capture_beside_work", &[mode]);
    }
}
