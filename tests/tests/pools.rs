//! Pools of stream-ordered memory: after every step the group is charged what the simulated device holds for them.

#![allow(
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Client, MIB, Sim};

const LIMIT: u64 = 256 * MIB;
/// What a pool of the simulated driver grows by.
const SEGMENT: u64 = 32 * MIB;

fn quota(client: Client) -> Client {
    client.memory("256MiB").free_context()
}

/// Runs one case of `programs/pool_cases.c`. Nothing is left at its end; the highest that the device ever held.
#[track_caller]
fn case(sim: &Sim, name: &str) -> u64 {
    let client = quota(sim.client("pool_cases").arg(name)).run().ok();
    assert_eq!(client.stdout, "done\n");
    assert_eq!(client.stderr, "");
    let account = sim.account();
    assert_eq!(account.devices[0].requested, 0, "{name}");
    account.devices[0].peak_requested
}

#[test]
fn any_call_that_allocates_with_any_that_frees() {
    assert!(case(&Sim::new(), "pairings") <= LIMIT);
}

#[test]
fn over_the_limit_the_driver_is_not_called() {
    assert!(case(&Sim::new(), "refusals") <= LIMIT);
}

#[test]
fn slack_is_trimmed_before_anything_is_refused() {
    assert!(case(&Sim::new(), "slack") <= LIMIT);
}

#[test]
fn every_pools_slack_is_found() {
    assert!(case(&Sim::new(), "many_pools") <= LIMIT);
}

#[test]
fn attributes_change_what_is_held_and_never_what_is_believed() {
    assert!(case(&Sim::new(), "attributes") <= LIMIT);
}

#[test]
fn a_destroyed_pool_stays_charged_until_its_last_memory_is_back() {
    assert!(case(&Sim::new(), "destroyed") <= LIMIT);
}

#[test]
fn plain_calls_take_from_whichever_pool_is_current() {
    assert!(case(&Sim::new(), "current_pool") <= LIMIT);
}

#[test]
fn pools_in_host_memory_are_not_charged() {
    assert!(case(&Sim::new(), "on_the_host") <= LIMIT);
}

/// The driver's segment was larger than what was left. For a moment the device held it.
#[test]
fn a_segment_that_does_not_fit_is_undone() {
    assert!(case(&Sim::new(), "undone") <= LIMIT + SEGMENT);
}

#[test]
fn a_devices_own_pool_goes_with_its_last_context() {
    assert!(case(&Sim::new(), "last_context") <= LIMIT);
}

#[test]
fn memory_is_charged_to_the_device_of_its_stream() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "2");
    assert!(case(&sim, "of_another_device") <= LIMIT);
}

/// What four threads had in flight may have taken a segment each before the answer was known.
#[test]
fn threads_that_never_wait_stay_within_the_limit_and_what_they_have_in_flight() {
    let peak = case(&Sim::new(), "threads");
    assert!(peak <= LIMIT + 4 * SEGMENT, "{} MiB", peak / MIB);
}

/// Many processes, since a process meets a pool but once.
#[test]
fn threads_that_meet_a_pool_at_once_meet_one_pool() {
    for _ in 0..20 {
        let sim = Sim::new();
        let client = sim.client("pool_cases").arg("met_at_once");
        let finished = client.memory("128MiB").free_context().run().ok();
        assert_eq!(finished.stdout, "done\n", "{}", finished.stderr);
    }
}

#[test]
fn plain_memory_that_is_freed_in_order_is_charged_until_its_stream_gets_there() {
    assert!(case(&Sim::new(), "in_order") <= LIMIT);
}

#[test]
fn a_destroyed_pool_is_charged_until_streams_get_to_its_last_frees() {
    assert!(case(&Sim::new(), "dying") <= LIMIT);
}

#[test]
fn what_the_driver_gives_back_in_a_wait_is_there_for_others() {
    for wait in ["context", "stream", "event"] {
        let sim = Sim::new();
        let mut keeper = quota(sim.client("pool_cases").arg("waited").env("WAIT", wait)).spawn();
        keeper.line("waited");
        let other = quota(sim.client("view")).run().ok();
        assert_eq!(other.value("begin"), format!("0 {LIMIT} {LIMIT}"), "{wait}");
        let _ = keeper.finish().ok();
    }
}
