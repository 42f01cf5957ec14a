//! Processes killed at any instruction of a path that takes or gives back memory: after each kill the next process of the
//! group finds the account exact. The paths and the checks are in `programs/killed.c`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_abi::group::Group;
use quota_tests::{Finished, Sim};

/// For each path; all of them together are more than a thousand.
const KILLS: u64 = 56;

/// Kills on one path, and looks after each. With `GPU_QUOTA_TEST_FULL=1` at every instruction.
#[track_caller]
fn killed_on(path: &str, kills: u64) -> Finished {
    let sim = Sim::new();
    let kills = if quota_tests::full() { 0 } else { kills };
    let fresh = sim.group("fresh");
    let fresh_region = Group::named(&fresh).path();
    let client = sim
        .client("killed")
        .args([path, &kills.to_string(), sim.region().to_str().unwrap()])
        .memory("256MiB")
        .env("GPU_QUOTA_CONTEXT", "16MiB")
        .env("FRESH_REGION", fresh_region.to_str().unwrap())
        .env("FRESH_GROUP", fresh)
        // The first call of a function is not to run the dynamic linker instead.
        .env("LD_BIND_NOW", "1")
        .watchdog(if quota_tests::full() { 3600 } else { 120 })
        .run()
        .ok();
    println!("{path}: {}", client.stdout.replace('\n', ", "));
    if !client.stdout.starts_with("skipped") && kills > 0 {
        assert_eq!(client.number("kills"), kills);
    }
    client
}

/// Such a path has instructions before the driver is called, in it, and after it.
#[track_caller]
fn all_around_the_driver(path: &str) {
    let client = killed_on(path, KILLS);
    if client.stdout.starts_with("skipped") {
        return;
    }
    for part in ["before the driver", "in the driver", "after the driver"] {
        assert!(client.number(part) > 0, "no kill {part}: {}", client.stdout);
    }
}

#[test]
fn allocating() {
    all_around_the_driver("alloc");
}

#[test]
fn freeing() {
    all_around_the_driver("free");
}

#[test]
fn allocating_in_stream_order() {
    all_around_the_driver("alloc_async");
}

#[test]
fn freeing_in_stream_order() {
    all_around_the_driver("free_async");
}

#[test]
fn creating_physical_memory() {
    all_around_the_driver("create");
}

#[test]
fn releasing_physical_memory() {
    all_around_the_driver("release");
}

#[test]
fn mapping() {
    all_around_the_driver("map");
}

#[test]
fn unmapping() {
    all_around_the_driver("unmap");
}

#[test]
fn creating_an_array() {
    all_around_the_driver("array_create");
}

#[test]
fn destroying_an_array() {
    all_around_the_driver("array_destroy");
}

#[test]
fn retaining_the_primary_context() {
    all_around_the_driver("retain");
}

#[test]
fn releasing_the_primary_context() {
    all_around_the_driver("release_context");
}

#[test]
fn creating_a_context() {
    all_around_the_driver("context_create");
}

#[test]
fn destroying_a_context_with_memory() {
    all_around_the_driver("context_destroy");
}

#[test]
fn creating_a_pool_and_taking_from_it() {
    all_around_the_driver("pool_create");
}

#[test]
fn trimming_and_destroying_a_pool() {
    all_around_the_driver("pool_destroy");
}

#[test]
fn allocating_managed_memory() {
    all_around_the_driver("managed");
}

#[test]
fn allocating_pitched_memory() {
    all_around_the_driver("pitched");
}

/// Into a group that has a region already.
#[test]
fn attaching() {
    let _ = killed_on("attach", KILLS);
}

/// While the region is being made.
#[test]
fn attaching_as_the_first() {
    let _ = killed_on("attach_first", KILLS);
}

/// While the slot of one who died before is being cleared.
#[test]
fn reaping() {
    // Tens of thousands of instructions: fewer kills.
    let _ = killed_on("reap", KILLS / 2);
}
