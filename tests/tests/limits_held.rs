//! The check that ends every test of this suite: no group held more than its limit at any instant.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use quota_tests::{Client, GIB, Sim};

/// Takes 3 GiB and gives them back: nothing is left to be seen at the end.
fn three_gib(sim: &Sim) -> Client {
    sim.client("steps").memory("1GiB").free_context()
}

fn run(client: Client) {
    let mut client = client.interpret();
    let _ = client.quiet("cuInit 0").ok();
    let _ = client.quiet("cuDevicePrimaryCtxRetain &0 0").ok();
    let _ = client.quiet("cuCtxSetCurrent $0").ok();
    for slot in 1..=3 {
        client.quiet(format!("cuMemAlloc_v2 &{slot} {GIB}"));
    }
    for slot in 1..=3 {
        client.quiet(format!("cuMemFree_v2 ${slot}"));
    }
}

/// A client that is declared to be limited and is not, which is what a shim that lets something through looks like.
#[test]
fn a_limit_that_is_not_kept_fails_its_test() {
    let sim = Sim::new();
    run(three_gib(&sim).env("LD_PRELOAD", ""));
    let found = sim.check_limits().unwrap_err();
    assert!(
        found.contains(&format!("{} bytes of device 0 at once", 3 * GIB)),
        "{found}"
    );
    // The end of a simulation is where every test fails by it.
    let end = catch_unwind(AssertUnwindSafe(|| drop(sim)));
    assert!(end.is_err());
}

#[test]
fn a_limit_that_is_kept_is_compared() {
    let sim = Sim::new();
    run(three_gib(&sim));
    assert_eq!(sim.check_limits(), Ok(1));
}

/// The sum over a group counts, under the label that a test chose, and groups of one label are allowed the sum of theirs.
#[test]
fn labels_and_groups() {
    let sim = Sim::new();
    let limited = |group: &str| three_gib(&sim).env("GPU_QUOTA_GROUP", sim.group(group));
    run(limited("a").env("GPU_SIM_TENANT", "both"));
    run(limited("b").env("GPU_SIM_TENANT", "both"));
    assert_eq!(sim.check_limits(), Ok(1));
    run(limited("c").without("GPU_QUOTA_MEMORY"));
    assert_eq!(sim.check_limits(), Ok(1), "no limit, nothing to compare");
    run(limited("d").memory("0=2GiB").env("LD_PRELOAD", ""));
    assert!(sim.check_limits().is_err());
    run(limited("d").memory("4GiB"));
    assert_eq!(sim.check_limits(), Ok(2), "the most that one was allowed");
}

/// Nothing is compared for clients without a shim, and no simulation is made just to look at it.
#[test]
fn who_is_not_limited_is_not_compared() {
    let sim = Sim::new();
    assert_eq!(sim.check_limits(), Ok(0));
    run(three_gib(&sim).bare());
    assert_eq!(sim.check_limits(), Ok(0));
}
