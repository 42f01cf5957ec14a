//! Living with a daemon: limits that change while a program runs, processes that come while it is away, users and namespaces
//! of all kinds, and why something was refused or waited.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use quota_tests::report::{Status, Why};
use quota_tests::{Client, Daemon, GIB, Load, MIB, Running, Sim, Steps, Work, is_root, program};

const CONTEXT: u64 = 300 * MIB;

const CONFIG: &str = r#"
[daemon]
context = "300MiB"

[[container]]
name = "a"
memory = "2GiB"
compute = "30%"
"#;

fn work(kernel_ns: u64, most_mib: u64) -> Work {
    Work {
        seed: 7,
        kernel_ns,
        most_mib,
    }
}

/// One that holds so many MiB.
#[track_caller]
fn holder(client: Client, mib: u32) -> Running {
    let mut client = client.arg(mib.to_string()).spawn();
    assert_eq!(client.line("result"), "result=0");
    client.line("ready");
    client
}

/// Whether it gets so many MiB.
fn takes(steps: &mut Steps, slot: u32, mib: u64) -> bool {
    let answer = steps.quiet(format!("cuMemAlloc_v2 &{slot} {}", mib * MIB));
    assert!(matches!(answer.code, Some(0 | 2)), "{answer:?}");
    answer.success()
}

/// Lowered below what is held: the next allocation is refused, and nobody is killed. Raised: the next one is granted.
#[test]
fn memory_lowered_and_raised_while_a_program_runs() {
    let sim = Sim::new();
    sim.allow("a", "4GiB");
    let daemon = Daemon::start(&sim, CONFIG);
    let mut steps = daemon.client("a", "steps").interpret_in_context();
    assert!(takes(&mut steps, 1, 1000));
    assert_eq!(daemon.share("a").memory_used_bytes, 1000 * MIB + CONTEXT);

    daemon.set("a", "memory", "512MiB").unwrap();
    assert!(!takes(&mut steps, 2, 1), "above its limit");
    let share = daemon.share("a");
    assert_eq!(
        share.memory_used_bytes,
        1000 * MIB + CONTEXT,
        "nothing was taken away"
    );
    assert!(share.refusals >= 1, "{share:?}");

    daemon.set("a", "memory", "4GiB").unwrap();
    assert!(takes(&mut steps, 3, 2500), "the limit was raised");
    assert!(!takes(&mut steps, 4, 600));
    assert_eq!(daemon.share("a").memory_limit_bytes, Some(4 * GIB));
    // What is shown follows as well.
    let _ = steps.quiet("cuDeviceTotalMem_v2 &5 0").ok();
    let total = steps.quiet("cuDeviceTotalMem_v2 &5 0").ok().out[0];
    assert_eq!(total, 4 * GIB);
}

/// GPU time likewise: a program that waits for time at a low rate goes on when the rate is raised.
#[test]
fn gpu_time_raised_and_lowered_while_a_program_runs() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, CONFIG);
    let load = Load::start(daemon.client("a", "load"), work(1_000_000, 0));
    let percent = || {
        let before = sim.account();
        std::thread::sleep(Duration::from_millis(1500));
        let after = sim.account();
        let ran = after.devices[0].busy_ns - before.devices[0].busy_ns;
        ran as f64 * 100.0 / (after.clock_ns - before.clock_ns) as f64
    };
    let mut seen = vec![percent()];
    for compute in ["80%", "5%", "none"] {
        daemon.set("a", "compute", compute).unwrap();
        load.goes_on(5);
        // What was charged before is paid off.
        std::thread::sleep(Duration::from_millis(300));
        seen.push(percent());
    }
    println!("30, 80, 5 % and free: {seen:.1?}");
    assert!((15.0..45.0).contains(&seen[0]), "{seen:?}");
    assert!(seen[1] > seen[0] + 15.0, "{seen:?}");
    assert!(seen[2] < 15.0, "{seen:?}");
    assert!(seen[3] > 60.0, "{seen:?}");
    assert_eq!(load.end().ok().stderr, "");
}

/// A process that comes while the daemon is away is refused after a while, in a line that names the socket.
#[test]
fn a_new_process_waits_for_the_daemon_and_is_refused() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, CONFIG);
    daemon.kill9();
    let client = daemon.client("a", "waits").run().ok();
    println!("{}{}", client.stdout, client.stderr);
    assert_eq!(client.number("init"), 802, "CUDA_ERROR_SYSTEM_NOT_READY");
    assert!(client.number("milliseconds") >= 3000, "it waited");
    assert!(
        client.stderr.contains(daemon.socket("a").to_str().unwrap()),
        "{}",
        client.stderr
    );
    assert_eq!(client.stderr.lines().count(), 1, "{}", client.stderr);
    // Nobody gets anything past the refusal.
    let unlimited = daemon.client("a", "steps").interpret().quiet("cuInit 0");
    assert_eq!(unlimited.code, Some(802));
}

/// The daemon comes back in time: the process runs.
#[test]
fn a_new_process_waits_for_the_daemon_and_runs() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, CONFIG);
    daemon.kill9();
    let mut client = daemon.client("a", "waits").spawn();
    std::thread::sleep(Duration::from_secs(1));
    daemon.restart();
    client.line("ready");
    assert_eq!(daemon.container("a").processes, 1);
    let client = client.finish().ok();
    println!("{}", client.stdout);
    assert_eq!(client.number("init"), 0);
    assert!(client.number("milliseconds") >= 900, "it waited");
    assert_eq!(client.stderr, "");
}

/// The arithmetic of a refusal, for a program and for a person.
#[test]
fn why_memory_was_refused() {
    let sim = Sim::new();
    sim.allow("a", "2GiB");
    let daemon = Daemon::start(&sim, CONFIG);
    let _holder = holder(daemon.client("a", "hold"), 500);
    let mut steps = daemon.client("a", "steps").interpret_in_context();
    assert!(takes(&mut steps, 1, 200));
    assert!(!takes(&mut steps, 2, 1000));
    let why: Why = daemon.typed(&["why", "a", "--json"]);
    let refusal = &why.refusals[0];
    assert_eq!(refusal.pid_inside, steps.pid());
    assert_eq!(refusal.asked_bytes, 1000 * MIB);
    assert_eq!(refusal.own_bytes, 200 * MIB + CONTEXT);
    assert_eq!(refusal.held_bytes, 700 * MIB + 2 * CONTEXT);
    assert_eq!(
        refusal.room_bytes + daemon.share("a").memory_overhead_bytes,
        2 * GIB
    );
    let told = daemon.type_in(&["why", "a"]);
    let text = String::from_utf8_lossy(&told.stdout);
    println!("{text}");
    assert!(told.status.success());
    assert!(text.contains(&steps.pid().to_string()), "{text}");
}

/// And of a launch that waited.
#[test]
fn why_a_launch_waited() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, CONFIG);
    let load = Load::start(daemon.client("a", "load"), work(5_000_000, 0));
    load.goes_on(50);
    let why: Why = daemon.typed(&["why", "a", "--json"]);
    let wait = &why.waits[0];
    assert_eq!(wait.pid_inside, load.pid());
    assert!((wait.rate_percent - 30.0).abs() < 0.01, "{wait:?}");
    assert!(wait.waited_ns > 0, "{wait:?}");
    assert!(why.refusals.is_empty());
    let told = daemon.type_in(&["why", "a"]);
    let text = String::from_utf8_lossy(&told.stdout);
    println!("{text}");
    assert!(told.status.success());
    let share = daemon.share("a");
    assert!(share.measured_ns > 0 && share.estimated_ns > 0, "{share:?}");
    assert!(text.contains(" of GPU time used by "), "{text}");
    assert!(text.contains(" measured, where "), "{text}");
    let none = daemon.type_in(&["why", "nobody"]);
    println!("{}", String::from_utf8_lossy(&none.stderr));
    assert_eq!(none.status.code(), Some(3));
    assert_eq!(load.end().ok().stderr, "");
}

/// Under a daemon a variable can lower what a process gets, and never raise it; there is none that turns the limit off.
#[test]
fn variables_only_lower() {
    let sim = Sim::new();
    sim.allow("a", "2GiB");
    let daemon = Daemon::start(&sim, CONFIG);
    let result = |variables: &[(&str, &str)], mib: &str| {
        let client = daemon.client("a", "hold").arg(mib);
        let client = variables
            .iter()
            .fold(client, |client, (name, value)| client.env(name, value));
        client.run().ok().number("result")
    };
    let high = ("GPU_QUOTA_MEMORY", "20GiB");
    assert_eq!(result(&[high], "3000"), 2);
    assert_eq!(result(&[("GPU_QUOTA_MEMORY", "none")], "3000"), 2);
    assert_eq!(
        result(&[("GPU_QUOTA_CONTEXT", "0")], "1800"),
        2,
        "contexts are charged all the same"
    );
    assert_eq!(result(&[("GPU_QUOTA_GROUP", "own"), high], "3000"), 2);
    assert_eq!(
        result(
            &[
                ("CUDA_DEVICE_MEMORY_LIMIT", "20g"),
                ("CUDA_DEVICE_SM_LIMIT", "0")
            ],
            "3000"
        ),
        2
    );
    assert_eq!(result(&[("GPU_QUOTA_MEMORY", "600MiB")], "400"), 2);
    assert_eq!(result(&[("GPU_QUOTA_MEMORY", "800MiB")], "400"), 0);
}

/// The directory that is mounted in a container is found without any variable, and before all variables.
#[test]
fn a_container_that_has_lost_its_variables_is_limited() {
    let sim = Sim::new();
    sim.allow("a", "2GiB");
    let daemon = Daemon::start(&sim, CONFIG);
    if !permitted(&["--mount"]) {
        return println!("skipped: mount namespaces may not be made");
    }
    let socket = daemon.socket("a");
    let script = r#"
        mount -t tmpfs none /run && mkdir -p /run/gpu-quota/container &&
        mount --bind "$1" /run/gpu-quota/container && mount -o remount,ro,bind /run/gpu-quota/container || exit 9
        shift
        exec "$@""#;
    let inside = |variables: &[(&str, &str)]| {
        let client = daemon.command_in("a", Path::new("/usr/bin/unshare"));
        let client = client
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(socket.parent().unwrap());
        let client = client
            .arg(program("hold"))
            .arg("3000")
            .without("GPU_QUOTA_SOCKET");
        let client = variables
            .iter()
            .fold(client, |client, (name, value)| client.env(name, value));
        client.run().ok().number("result")
    };
    assert_eq!(inside(&[]), 2);
    let away = [
        ("GPU_QUOTA_MEMORY", "none"),
        ("GPU_QUOTA_SOCKET_", ""),
        ("GPU_QUOTA_GROUP", "mine"),
    ];
    assert_eq!(inside(&away), 2);
}

/// Whether namespaces of these kinds may be made here.
fn permitted(kinds: &[&str]) -> bool {
    let made = std::process::Command::new("unshare")
        .args(kinds)
        .arg("true")
        .output();
    made.is_ok_and(|made| made.status.success())
}

/// Attaches a process behind a prefix, compares what the daemon knows of it, ends it, and waits until that is noticed.
#[track_caller]
fn comes_and_goes(prefix: &[&str]) -> Option<quota_tests::report::Registered> {
    if prefix[0] == "unshare" && !permitted(&prefix[1..]) {
        println!("skipped: {prefix:?} may not be made");
        return None;
    }
    // By its path it is the same simulation for every user.
    let sim = Sim::new();
    let file = sim.file();
    let sim = sim.with("GPU_SIM", file.to_str().unwrap());
    let daemon = Daemon::start(&sim, CONFIG);
    let path = format!("/usr/bin/{}", prefix[0]);
    let client = daemon.command_in("a", Path::new(&path));
    let client = client.args(&prefix[1..]).arg(program("hold")).arg("100");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let mut client = client.spawn();
    assert_eq!(client.line("result"), "result=0");
    client.line("ready");
    let known = daemon.processes("a");
    assert_eq!(known.len(), 1, "{known:?}");
    let command = std::fs::read_to_string(format!("/proc/{}/cmdline", known[0].pid)).unwrap();
    assert!(
        command.starts_with(program("hold").to_str().unwrap()),
        "{command}"
    );
    assert_eq!(daemon.share("a").memory_used_bytes, 100 * MIB + CONTEXT);

    // It stays known to the next daemon.
    daemon.kill9();
    daemon.restart();
    assert_eq!(daemon.processes("a").len(), 1);
    assert_eq!(daemon.share("a").memory_used_bytes, 100 * MIB + CONTEXT);

    let begin = Instant::now();
    let pid = libc::pid_t::try_from(known[0].pid).unwrap();
    // SAFETY: a process of ours that still runs.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    daemon.wait("its death to be noticed", |daemon| {
        daemon.container("a").processes == 0
    });
    println!(
        "{prefix:?}: {:?}, gone after {:?}",
        known[0],
        begin.elapsed()
    );
    assert_eq!(daemon.share("a").memory_used_bytes, 0);
    client.kill();
    known.into_iter().next()
}

#[test]
fn another_user() {
    if !is_root() {
        return println!("skipped: another user needs root");
    }
    let known = comes_and_goes(&[
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ]);
    assert_eq!(known.unwrap().uid, 65534);
}

#[test]
fn a_user_namespace() {
    comes_and_goes(&["unshare", "--user"]);
    comes_and_goes(&["unshare", "--user", "--map-root-user"]);
}

#[test]
fn nested_pid_namespaces() {
    let one = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if let Some(known) = comes_and_goes(&one) {
        assert_eq!(known.pid_inside, 1);
    }
    let nested: Vec<&str> = one.iter().chain(&one).copied().collect();
    if let Some(known) = comes_and_goes(&nested) {
        assert_eq!(known.pid_inside, 1);
    }
    // Where it sees the /proc of the outer namespace.
    comes_and_goes(&[
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
    ]);
}

/// Clocks that begin elsewhere: it is limited at the rate that it has, and neither free nor held up for good.
#[test]
fn a_time_namespace() {
    let kinds = [
        "--time",
        "--monotonic",
        "1000000",
        "--boottime",
        "2000000",
        "--fork",
        "--kill-child",
    ];
    if !permitted(&kinds) {
        return println!("skipped: time namespaces may not be made");
    }
    let prefix: Vec<&str> = ["unshare"].iter().chain(&kinds).copied().collect();
    comes_and_goes(&prefix);
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, CONFIG);
    let here = Load::start(daemon.client("a", "load"), work(1_000_000, 0));
    let client = daemon.command_in("a", Path::new("/usr/bin/unshare"));
    let there = Load::start(client.args(kinds).arg(program("load")), work(1_000_000, 0));
    let before = sim.account();
    std::thread::sleep(Duration::from_secs(2));
    for load in [&here, &there] {
        load.goes_on(5);
    }
    let after = sim.account();
    let ran = after.devices[0].busy_ns - before.devices[0].busy_ns;
    let percent = ran as f64 * 100.0 / (after.clock_ns - before.clock_ns) as f64;
    println!("{percent:.1} % of 30 %");
    assert!((10.0..60.0).contains(&percent), "{percent}");
    let _ = daemon.typed::<Status>(&["status", "--json"]);
}
