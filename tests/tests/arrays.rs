//! Arrays: exact for every shape and version, and without memory until some is mapped. The programs compare at every step
//! what the shim charges with what the simulated device really gave.

use quota_tests::{Client, Sim};

fn quota(client: Client) -> Client {
    client.memory("1GiB").free_context()
}

#[test]
fn every_shape() {
    let sim = Sim::new();
    let _ = quota(sim.client("arrays")).run().ok();
}

/// Of a driver that does not tell what arrays need: charged by the descriptor.
#[test]
fn every_shape_by_its_descriptor() {
    let sim = Sim::new().with("GPU_SIM_DEFERRED_ARRAYS", "0");
    let _ = quota(sim.client("arrays")).run().ok();
}

/// To ask the driver waits for nothing that runs.
#[test]
fn made_beside_a_kernel_that_never_ends() {
    let sim = Sim::new();
    let client = quota(sim.client("array_beside_kernel")).run().ok();
    assert_eq!(client.stdout, "made\n");
}

/// A device that takes more for an array than its descriptor says: charged what it takes.
#[test]
fn what_the_device_needs() {
    let sim = Sim::new().with("GPU_SIM_ARRAY_GRAIN", "65536");
    let _ = quota(sim.client("arrays")).arg("65536").run().ok();
}

#[test]
fn tiles_keep_physical_memory() {
    let sim = Sim::new();
    let _ = quota(sim.client("sparse_arrays")).run().ok();
}
