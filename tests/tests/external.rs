//! Memory of other APIs.

use quota_tests::{Client, Sim};

fn quota(client: Client) -> Client {
    client.memory("1GiB").free_context()
}

/// Row 89, as far as CUDA sees such memory.
#[test]
fn charged_to_the_importer() {
    let sim = Sim::new();
    let client = quota(sim.client("external"));
    let _ = client.env("OTHER_GROUP", sim.group("other")).run().ok();
}

#[test]
fn charged_once_inside_a_group() {
    let sim = Sim::new();
    let _ = quota(sim.client("external")).arg("same group").run().ok();
}
