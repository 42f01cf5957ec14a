//! Physical memory by its references: handles, mappings, tiles, multicast objects, other processes. The programs compare at
//! every step what the shim charges with what the simulated device really gave.

use quota_tests::{Client, Sim};

fn quota(client: Client) -> Client {
    client.memory("1GiB").free_context()
}

#[test]
fn references_of_handles_and_mappings() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2");
    let _ = quota(sim.client("vmm_references")).run().ok();
}

/// Row 91: charged once, also after its exporter has ended.
#[test]
fn shared_inside_a_group() {
    let sim = Sim::new();
    let _ = quota(sim.client("vmm_share")).run().ok();
}

/// To the importer, whose group has no other charge for it.
#[test]
fn shared_between_groups() {
    let sim = Sim::new();
    let other = sim.group("other");
    let _ = quota(sim.client("vmm_share")).arg(other).run().ok();
}

#[test]
fn multicast_objects_keep_what_is_bound() {
    let sim = Sim::new()
        .with("GPU_SIM_DEVICES", "2")
        .with("GPU_SIM_MULTICAST", "1");
    let _ = quota(sim.client("multicast")).run().ok();
}
