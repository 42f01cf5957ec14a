//! Utilisation as a group under a quota sees it: its own work, of what it may have.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Client, Finished, Running, Sim};

/// `GPU_QUOTA_GROUP`, the compute quota and the device of a client that keeps the device busy.
fn busy(client: Client) -> Running {
    let mut running = client.memory("1GiB").free_context().spawn();
    assert_eq!(running.line("busy"), "busy");
    running
}

fn tell(client: Client) -> Finished {
    client.memory("1GiB").free_context().run().ok()
}

/// The one process of a list, and its percentage.
fn only(viewer: &Finished, list: &str) -> (u32, u32) {
    let (pid, percent) = viewer.value(list).split_once(':').unwrap();
    (pid.parse().unwrap(), percent.parse().unwrap())
}

/// Rows 23 and 80: not 0 where there is no limit of time.
#[test]
fn without_a_limit_it_is_the_devices() {
    let sim = Sim::new();
    let worker = busy(sim.client("nvml_busy"));
    let viewer = tell(sim.client("nvml_tell").arg("0"));
    assert_eq!(viewer.number("rates_result"), 0);
    assert!(viewer.number("gpu") >= 50, "{}", viewer.stdout);
    for list in ["samples", "infos"] {
        let (pid, percent) = only(&viewer, list);
        assert_eq!(pid, worker.pid());
        assert!(percent >= 50, "{list}: {percent}");
    }
}

/// All of the quota is 100 %; `GPU_QUOTA_UTILIZATION=device` shows percent of the device.
#[test]
fn it_is_relative_to_the_quota() {
    let sim = Sim::new();
    let _worker = busy(sim.client("nvml_busy").compute("30%"));
    let viewer = || sim.client("nvml_tell").arg("0").compute("30%");
    let relative = tell(viewer());
    assert!(relative.number("gpu") >= 50, "{}", relative.stdout);
    assert!(only(&relative, "samples").1 >= 50, "{}", relative.stdout);
    let plain = tell(viewer().env("GPU_QUOTA_UTILIZATION", "device"));
    assert!((5..=45).contains(&plain.number("gpu")), "{}", plain.stdout);
}

/// Another group's work is not this one's, whether it has a process on the device or none.
#[test]
fn others_work_is_not_shown() {
    let sim = Sim::new();
    let other = sim.group("other");
    let _stranger = busy(sim.client("nvml_busy").env("GPU_QUOTA_GROUP", other));
    let bare = sim.client("nvml_tell").arg("0").bare().run().ok();
    assert!(bare.number("gpu") >= 50, "{}", bare.stdout);
    let without = tell(sim.client("nvml_tell").arg("0"));
    let mut idle = sim.client("hold").arg("64").memory("1GiB").spawn();
    assert_eq!(idle.line("result"), "result=0");
    let with = tell(sim.client("nvml_tell").arg("0"));
    for viewer in [without, with] {
        assert_eq!(viewer.number("gpu"), 0, "{}", viewer.stdout);
        for list in ["samples", "infos"] {
            assert_eq!(viewer.value(list), "");
            assert_eq!(viewer.number(&format!("{list}_result")), 6, "not found");
        }
    }
}

/// Rows 70, 72 and 73: of the right device, when `CUDA_VISIBLE_DEVICES` does not begin at 0.
#[test]
fn it_is_that_of_the_right_device() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "3");
    let _worker = busy(sim.client("nvml_busy").env("CUDA_VISIBLE_DEVICES", "2,0"));
    let viewer = |device: &str| tell(sim.client("nvml_tell").arg(device));
    assert!(viewer("2").number("gpu") >= 50);
    for idle in ["0", "1"] {
        let viewer = viewer(idle);
        assert_eq!(viewer.number("gpu"), 0, "{idle}");
        assert_eq!(viewer.value("Compute"), "", "{idle}");
    }
}

/// Where NVML names no process, nobody can tell whose work it is, and the device's figure stands: not 0.
#[test]
fn without_names_it_is_the_devices() {
    let faults = "nvml-no-processes,nvml-no-utilization";
    let sim = Sim::new().with("GPU_SIM_FAULTS", faults);
    let _worker = busy(sim.client("nvml_busy"));
    let viewer = tell(sim.client("nvml_tell").arg("0"));
    assert!(viewer.number("gpu") >= 50, "{}", viewer.stdout);
}

/// With MIG there are no rates, as documented, and no samples.
#[test]
fn with_mig_there_is_none() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "8GiB[2GiB,2GiB]");
    for bare in [true, false] {
        let client = sim.client("nvml_tell").arg("0").memory("1GiB");
        let viewer = client.bare_if(bare).run().ok();
        assert_eq!(viewer.number("rates_result"), 3);
        assert_eq!(viewer.number("samples_result"), 3);
    }
}
