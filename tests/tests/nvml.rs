//! NVML shows the quota, and agrees with the driver.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Finished, GIB, MIB, Running, Sim};

/// Row 41: both surfaces are cut to the quota, by the same account.
#[test]
fn memory_info_agrees_with_the_driver() {
    let sim = Sim::new();
    let client = sim
        .client("nvml_view")
        .memory("1GiB")
        .free_context()
        .run()
        .ok();
    let lines: Vec<&str> = client.stdout.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "before CUDA: v1 total 1024 free 1024, v2 total 1024 free 1024",
            "begin: v1 total 1024 free 1024, v2 total 1024 free 1024, driver total 1024 free 1024",
            "held: v1 total 1024 free 256, v2 total 1024 free 256, driver total 1024 free 256",
            "ready",
        ]
    );
    assert!(
        lines[4].starts_with("freed: v1 total 1024 free 1024, v2 total 1024 free 1024"),
        "{}",
        client.stdout
    );
    assert_eq!(client.stderr, "");
}

/// A viewer in another process of the group, which makes no CUDA call, sees what the group holds.
#[test]
fn a_viewer_sees_what_its_group_holds() {
    let sim = Sim::new();
    let mut holder = sim
        .client("hold")
        .arg("512")
        .memory("1GiB")
        .free_context()
        .spawn();
    assert_eq!(holder.line("result"), "result=0");
    let viewer = sim.client("nvml_view").memory("1GiB").free_context().run();
    assert_eq!(
        viewer.stdout.lines().next(),
        Some("before CUDA: v1 total 1024 free 512, v2 total 1024 free 512"),
        "{viewer:?}"
    );
    let _ = holder.finish().ok();
}

#[test]
fn odd_arguments_get_nvmls_answer() {
    let run = |bare: bool| {
        let sim = Sim::new();
        let client = sim
            .client("nvml_view")
            .memory("1GiB")
            .free_context()
            .bare_if(bare)
            .run()
            .ok();
        client
            .stdout
            .lines()
            .rev()
            .take(3)
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let bare = run(true);
    assert!(bare[0].starts_with("odd version: "), "{bare:?}");
    assert_eq!(run(false), bare);
}

#[test]
fn without_a_quota_nvml_is_untouched() {
    let run = |bare: bool| {
        let sim = Sim::new();
        sim.client("nvml_view").bare_if(bare).run().ok().stdout
    };
    assert_eq!(run(false), run(true));
}

/// Rows 31 and 41: at every step of a program that fills its memory, every surface says the same to the byte: the driver's
/// information, its total, both versions of NVML's.
#[test]
fn every_surface_agrees_at_every_step() {
    for (devices, quota, steps) in [
        ("4GiB", "1GiB", ["begin=1024", "full=0", "end=1024"]),
        // A limit for each.
        (
            "4GiB,8GiB",
            "0=1GiB,1=2GiB",
            ["begin=1024 2048", "full=0 0", "end=1024 2048"],
        ),
        // One without a limit is its own.
        (
            "1GiB,8GiB",
            "0=none,1=512MiB",
            ["begin=724 512", "full=0 0", "end=724 512"],
        ),
        // A limit larger than the device is the device.
        ("1GiB", "100GiB", ["begin=724", "full=0", "end=724"]),
    ] {
        let sim = Sim::new().with("GPU_SIM_DEVICES", devices);
        let client = sim.client("nvml_agree").memory(quota).free_context();
        let client = client.run().ok();
        for step in steps {
            assert!(
                client.stdout.lines().any(|line| line == step),
                "{devices} {quota}: {step} is not in\n{}",
                client.stdout
            );
        }
        assert_eq!(client.stderr, "", "{quota}");
    }
}

/// The same program with contexts that count, at and above the limit.
#[test]
fn every_surface_agrees_where_a_context_fills_the_limit() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "4GiB");
    let client = sim
        .client("nvml_agree")
        .arg("alone")
        .memory("600MiB")
        .env("GPU_QUOTA_CONTEXT", "300MiB")
        .run()
        .ok();
    assert_eq!(client.value("begin"), "300");
    assert_eq!(client.value("full"), "0");
}

/// Without a quota the program sees what it sees without the library.
#[test]
fn every_surface_agrees_without_a_quota() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "1GiB,2GiB");
    let bare = sim.client("nvml_agree").bare().run().ok();
    let client = sim.client("nvml_agree").without("GPU_QUOTA_GROUP");
    assert_eq!(client.run().ok().stdout, bare.stdout);
}

/// Rows 30 and 31: usage above one's own limit leaves nothing free, and nothing wraps.
#[test]
fn usage_above_the_limit_is_shown_as_all_of_it() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "4GiB");
    let _holder = hold(&sim, "1536", "2GiB");
    let viewer = tell(&sim, "1GiB", "0");
    assert_eq!(viewer.number("total"), GIB);
    assert_eq!(viewer.number("free"), 0);
    assert_eq!(viewer.number("used"), GIB);
}

/// What others hold of the device is not free here, and no part of what this group uses.
#[test]
fn a_device_that_others_fill() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "4GiB");
    let mut stranger = sim
        .client("hold")
        .arg("3000")
        .env("GPU_QUOTA_GROUP", sim.group("other"))
        .memory("4GiB")
        .spawn();
    assert_eq!(stranger.line("result"), "result=0");
    let viewer = tell(&sim, "2GiB", "0");
    let free = 4096 - 3000 - 300;
    assert_eq!(viewer.number("total"), 2 * GIB);
    assert!(viewer.number("free").abs_diff(free * MIB) < 4 * MIB);
    assert_eq!(
        viewer.value("Compute"),
        "",
        "others' processes are not shown"
    );
}

/// A process that was killed is in no list, and what it held is free, though nobody of its group calls CUDA.
#[test]
fn a_viewer_does_not_see_the_dead() {
    let sim = Sim::new();
    let mut holder = hold(&sim, "512", "1GiB");
    assert_eq!(tell(&sim, "1GiB", "0").number("used"), 512 * MIB);
    holder.kill();
    let viewer = tell(&sim, "1GiB", "0");
    assert_eq!(viewer.number("used"), 0);
    assert_eq!(viewer.value("Compute"), "");
}

/// The variables count as they were when the process attached.
#[test]
fn a_quota_that_is_unset_later_is_still_shown() {
    let sim = Sim::new();
    let _other = sim.client("hold").arg("64").bare().spawn();
    let client = sim.client("nvml_unset").memory("1GiB").free_context();
    assert_eq!(client.run().ok().stdout, "total=1024\nused=256\nown=1\n");
}

/// A process that holds `mib`, its context not counted.
fn hold(sim: &Sim, mib: &str, quota: &str) -> Running {
    let client = sim.client("hold").arg(mib).memory(quota).free_context();
    let mut holder = client.spawn();
    assert_eq!(holder.line("result"), "result=0");
    holder
}

/// What NVML tells a process without CUDA.
fn tell(sim: &Sim, quota: &str, device: &str) -> Finished {
    let viewer = sim.client("nvml_tell").arg(device).memory(quota);
    viewer.free_context().run().ok()
}
