//! Contexts: one constant for each process and device, primary ones by their references, green ones as parts of those, limits
//! of device code; what goes with a context, and what does not.

use quota_tests::Sim;

/// The shim's constant is what the simulated driver takes, so that both sides can be compared.
#[test]
fn what_contexts_cost_and_take_along() {
    let sim = Sim::new().with("GPU_SIM_CONTEXT", "100MiB");
    let client = sim.client("contexts").memory("1GiB");
    let _ = client.env("GPU_QUOTA_CONTEXT", "100MiB").run().ok();
}

#[test]
fn destroyed_beside_threads_that_allocate_in_it() {
    let sim = Sim::new();
    let client = sim.client("contexts_threads").memory("1GiB");
    let _ = client.free_context().run().ok();
}

/// The driver waits for a context's work before it ends it. Other contexts' memory is given back meanwhile.
#[test]
fn while_one_context_ends_the_frees_of_another_are_seen() {
    let sim = Sim::new();
    let client = sim.client("context_going").memory("64MiB");
    let client = client.free_context().run().ok();
    assert_eq!(client.stdout, "done\n");
}

#[test]
fn a_late_record_takes_nobodys_charge() {
    let sim = Sim::new();
    let client = sim.client("context_gone_late_record").memory("1GiB");
    let _ = client.free_context().run().ok();
}

#[test]
fn met_in_the_making_it_counts_once() {
    let sim = Sim::new();
    let client = sim.client("context_met_in_the_making").memory("1GiB");
    let _ = client.env("GPU_QUOTA_CONTEXT", "100MiB").run().ok();
}
