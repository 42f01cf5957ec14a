//! What no quota concerns reaches the client as the driver says it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{GIB, Sim};

/// Rows 44, 72 and 77: attributes of devices, of links between them, and of memory of each kind.
#[test]
fn attributes() {
    for devices in ["2", "24GiB,80GiB", "80GiB[10GiB,20GiB]"] {
        // One machine: its devices' UUIDs are its own.
        let sim = Sim::new().with("GPU_SIM_DEVICES", devices);
        let run = |bare: bool| {
            let client = sim.client("attributes").memory("1GiB").compute("50%");
            client.bare_if(bare).run().ok()
        };
        let (bare, limited) = (run(true), run(false));
        assert!(
            bare.stdout.lines().count() > 200,
            "{devices}: {}",
            bare.stdout
        );
        // Line by line: the two are long.
        for (with, without) in limited.stdout.lines().zip(bare.stdout.lines()) {
            assert_eq!(with, without, "{devices}");
        }
        assert_eq!(limited.stdout.lines().count(), bare.stdout.lines().count());
        assert_eq!(limited.stderr, "");
    }
}

/// Row 68: an instance of a GPU in MIG mode is a device, known by its own UUID.
#[test]
fn a_mig_instance_has_a_quota_of_its_own() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "80GiB[10GiB,20GiB]");
    let account = sim.client("init").bare().run().ok();
    assert_eq!(account.number("init"), 0);
    let uuid = account.value("uuid0").replace("GPU-", "MIG-");
    let client = sim
        .client("blocks_dlsym")
        .memory(&format!("{uuid}=1GiB"))
        .free_context()
        .env("CUDA_VISIBLE_DEVICES", &uuid)
        .run()
        .ok();
    assert_eq!(
        (client.number("total"), client.number("blocks")),
        (GIB, 4),
        "{uuid}"
    );
    // Another instance's quota does not concern it.
    let other = "MIG-00000000-0000-0000-0000-000000000001";
    let client = sim
        .client("init")
        .memory(&format!("{other}=1GiB,{uuid}=none"))
        .env("CUDA_VISIBLE_DEVICES", &uuid)
        .run()
        .ok();
    assert!(client.number("total0") > 2 * GIB, "{}", client.stdout);
}
