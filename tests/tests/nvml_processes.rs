//! NVML's lists of processes under a quota: the group's own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Finished, MIB, Running, Sim, is_root};

/// Rows 32 and 78: a viewer, and each of the processes, sees all of the group's and nobody else's, with what the ledger
/// says of each, in every version of every list, by the protocol of two calls.
#[test]
fn process_lists_show_the_groups_own() {
    let sim = Sim::new().with("GPU_SIM_FAULTS", "nvml-all-lists");
    let one = hold(&sim, "512", "2GiB");
    let two = hold(&sim, "256", "2GiB");
    let mut stranger = sim
        .client("hold")
        .arg("128")
        .env("GPU_QUOTA_GROUP", sim.group("other"))
        .memory("1GiB")
        .spawn();
    assert_eq!(stranger.line("result"), "result=0");

    let viewer = tell(&sim, "2GiB", "0");
    let own = sorted([(one.pid(), 512), (two.pid(), 256)]);
    for list in [
        "Compute",
        "Graphics",
        "MPSCompute",
        "detail0",
        "detail1",
        "detail2",
    ] {
        assert_eq!(listed(&viewer, list), own, "{list}");
    }
    assert_eq!(viewer.number("used"), 768 * MIB);
    assert_eq!(viewer.stderr, "");

    // The other group's viewer sees its own.
    let theirs = sim
        .client("nvml_tell")
        .arg("0")
        .env("GPU_QUOTA_GROUP", sim.group("other"))
        .memory("1GiB")
        .free_context()
        .run()
        .ok();
    // A context counts there.
    assert_eq!(listed(&theirs, "Compute"), [(stranger.pid(), 528)]);
    // Without the library all three are seen: the simulator's lists are not shorter by themselves.
    let bare = sim.client("nvml_tell").arg("0").bare().run().ok();
    assert_eq!(listed(&bare, "Compute").len(), 3);
}

/// NVML may not name processes at all (in a container, with an older driver): the group's are known all the same. What
/// NVML does not support it still does not.
#[test]
fn process_lists_do_not_depend_on_nvmls() {
    let sim = Sim::new().with("GPU_SIM_FAULTS", "nvml-no-processes");
    let holder = hold(&sim, "512", "1GiB");
    let viewer = tell(&sim, "1GiB", "0");
    assert_eq!(listed(&viewer, "Compute"), [(holder.pid(), 512)]);

    let sim = Sim::new().with("GPU_SIM_FAULTS", "nvml-processes-unsupported");
    let _holder = hold(&sim, "512", "1GiB");
    let viewer = sim.client("nvml_tell").arg("0").memory("1GiB").run();
    assert!(
        viewer.stderr.contains("answered 3, not 2"),
        "NVML_ERROR_NOT_SUPPORTED: {viewer:?}"
    );
}

/// A process of the group in another pid namespace cannot be named here; what it holds counts.
#[test]
fn a_process_of_another_pid_namespace_counts_and_is_not_named() {
    if !is_root() {
        return println!("skipped: not root");
    }
    let sim = Sim::new();
    let mut apart = sim
        .command(std::path::Path::new("/usr/bin/unshare"))
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(quota_tests::program("hold"))
        .arg("512")
        .memory("1GiB")
        .free_context()
        .spawn();
    if apart.line("").contains("unshare") {
        return println!("skipped: no pid namespace may be made here");
    }
    assert_eq!(apart.line("result"), "result=0");
    let viewer = tell(&sim, "1GiB", "0");
    assert_eq!(viewer.number("used"), 512 * MIB);
    assert_eq!(viewer.value("Compute"), "");
}

/// What accounting remembers of others is not found; NVML's own answer stands where it is off.
#[test]
fn accounting_tells_of_the_groups_own() {
    let sim = Sim::new().with("GPU_SIM_FAULTS", "nvml-accounting");
    let own = hold(&sim, "64", "1GiB");
    let mut stranger = sim
        .client("hold")
        .arg("64")
        .env("GPU_QUOTA_GROUP", sim.group("other"))
        .memory("1GiB")
        .spawn();
    assert_eq!(stranger.line("result"), "result=0");
    let ask = |bare: bool| {
        let pids = [own.pid(), stranger.pid()].map(|pid| pid.to_string());
        let client = sim.client("nvml_accounting").args(pids).memory("1GiB");
        client.bare_if(bare).run().ok().stdout
    };
    let (a, b) = (own.pid(), stranger.pid());
    assert_eq!(
        ask(false),
        format!("pids={a}\n{a}: 0\n{b}: 6\nno place: 2\n")
    );
    assert!(ask(true).ends_with(&format!("{a}: 0\n{b}: 0\nno place: 2\n")));
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

/// A list of pids and MiB, sorted.
fn listed(viewer: &Finished, list: &str) -> Vec<(u32, u64)> {
    let pair = |item: &str| {
        let (pid, mib) = item.split_once(':').unwrap();
        (pid.parse().unwrap(), mib.parse().unwrap())
    };
    sorted(viewer.value(list).split_whitespace().map(pair))
}

fn sorted(items: impl IntoIterator<Item = (u32, u64)>) -> Vec<(u32, u64)> {
    let mut items: Vec<_> = items.into_iter().collect();
    items.sort_unstable();
    items
}
