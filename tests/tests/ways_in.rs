//! Every way by which a client reaches the driver meets the same quota.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Client, Finished, GIB, MIB, Sim, artefacts};

/// 1 GiB and nothing taken off for the context.
fn quota(client: Client) -> Client {
    client.memory("1GiB").free_context()
}

/// Four blocks of 256 MiB, then out of memory, without a call of the driver for the refused one.
#[track_caller]
fn gets_exactly_its_quota(finished: Finished) {
    let client = finished.ok();
    assert_eq!(client.number("total"), GIB, "cuDeviceTotalMem");
    assert_eq!(client.number("blocks"), 4);
    assert_eq!(client.number("result"), 2, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_eq!(client.number("whole"), GIB, "cuMemGetInfo total");
    assert_eq!(client.number("free"), 0, "cuMemGetInfo free");
    assert_eq!(
        client.number("driver_calls"),
        4,
        "the refused call must not reach the driver"
    );
    assert_eq!(client.number("free_later"), 256 * MIB);
    assert_eq!(client.stderr, "", "a working client says nothing");
}

#[test]
fn without_the_shim_the_whole_device_is_there() {
    let sim = Sim::new();
    let client = quota(sim.client("blocks_dlsym")).bare().run().ok();
    assert_eq!(client.number("total"), 24 * GIB);
    assert!(client.number("blocks") > 90);
}

#[test]
fn dlopen_and_dlsym() {
    let sim = Sim::new();
    gets_exactly_its_quota(quota(sim.client("blocks_dlsym")).run());
}

#[test]
fn unversioned_name_opened_globally() {
    let sim = Sim::new();
    gets_exactly_its_quota(quota(sim.client("blocks_unversioned")).run());
}

#[test]
fn linked_with_lcuda() {
    let sim = Sim::new();
    gets_exactly_its_quota(quota(sim.client("blocks_linked")).run());
}

#[test]
fn cu_get_proc_address_v2() {
    let sim = Sim::new();
    gets_exactly_its_quota(quota(sim.client("blocks_proc_address").arg("v2")).run());
}

#[test]
fn cu_get_proc_address_with_four_arguments() {
    let sim = Sim::new();
    gets_exactly_its_quota(quota(sim.client("blocks_proc_address").arg("v1")).run());
}

/// Row 64: a driver of 11.x has the 4-argument form alone.
#[test]
fn cu_get_proc_address_of_a_driver_that_has_no_v2() {
    let sim = Sim::new().with("GPU_SIM_DRIVER", "11.4");
    gets_exactly_its_quota(quota(sim.client("blocks_proc_address").arg("v1")).run());
}

#[test]
fn old_driver_by_dlsym_and_linked() {
    let sim = Sim::new().with("GPU_SIM_DRIVER", "11.4");
    gets_exactly_its_quota(quota(sim.client("blocks_dlsym")).run());
    gets_exactly_its_quota(quota(sim.client("blocks_linked")).run());
}

/// Row 32: what one process of a group holds is missing from what the next one sees.
#[test]
fn two_processes_of_a_group_share_one_quota() {
    let sim = Sim::new();
    let mut first = quota(sim.client("blocks_dlsym")).spawn();
    first.line("ready");
    let second = quota(sim.client("blocks_linked")).run().ok();
    assert_eq!(second.number("total"), GIB);
    assert_eq!(second.number("blocks"), 0);
    assert_eq!(second.number("result"), 2);
    assert_eq!(second.number("free"), 0);
    gets_exactly_its_quota(first.finish());
    // The first is gone, and with it what it held.
    gets_exactly_its_quota(quota(sim.client("blocks_dlsym")).run());
}

#[test]
fn two_groups_do_not_share() {
    let sim = Sim::new();
    let group =
        |name: &str| quota(sim.client("blocks_dlsym")).env("GPU_QUOTA_GROUP", sim.group(name));
    let mut first = group("one").spawn();
    first.line("ready");
    gets_exactly_its_quota(group("two").run());
    gets_exactly_its_quota(first.finish());
}

/// The ledger against the simulator's own account of the same moment.
#[test]
fn what_the_ledger_says_is_what_the_device_holds() {
    let sim = Sim::new();
    let mut client = quota(sim.client("blocks_dlsym")).spawn();
    client.line("ready");
    let device = &sim.account().devices[0];
    assert_eq!(device.requested, GIB);
    assert_eq!(device.peak_requested, GIB);
    let _ = client.finish().ok();
    assert_eq!(sim.account().devices[0].requested, 0);
}

/// WSL has two files of the driver where others have a file and a link.
#[test]
fn a_second_copy_of_the_driver_is_the_driver() {
    let sim = Sim::new();
    let copies = tempfile::tempdir().unwrap();
    let original = artefacts().sim.join("libcuda.so.1");
    for name in ["libcuda.so.1", "libcuda.so"] {
        std::fs::copy(&original, copies.path().join(name)).unwrap();
    }
    for order in [
        ["libcuda.so.1", "libcuda.so"],
        ["libcuda.so", "libcuda.so.1"],
    ] {
        let client = sim.client("two_copies").args(order).driver(copies.path());
        let finished = client.memory("1GiB").free_context().run().ok();
        assert_eq!(finished.number("blocks1"), 4, "{order:?}: {finished:?}");
        assert_eq!(finished.number("blocks2"), 0, "{order:?}: {finished:?}");
    }
}

#[test]
fn a_program_that_exports_names_of_the_drivers() {
    let sim = Sim::new();
    let bare = sim.client("exports_names").bare().run().ok();
    assert_eq!((bare.number("blocks"), bare.number("own")), (20, 20));
    let finished = quota(sim.client("exports_names")).run().ok();
    assert_eq!((finished.number("blocks"), finished.number("own")), (4, 5));
}
