//! Promises that the card cannot keep: nothing is replaced by managed or host memory, and nothing is charged that is not there. The
//! program gets the driver's own refusal.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Client, GIB, MIB, Sim};

/// `hold` in a group with 20 of the card's 24 GiB.
fn hold(sim: &Sim, group: &str, mebibytes: u64) -> Client {
    let client = sim.client("hold").arg(mebibytes.to_string());
    let client = client.env("GPU_QUOTA_GROUP", sim.group(group));
    client.memory("20GiB").free_context()
}

#[test]
fn two_groups_that_are_promised_more_than_the_card() {
    let sim = Sim::new();
    let mut first = hold(&sim, "a", 16 * 1024).spawn();
    first.line("ready");
    let refused = hold(&sim, "b", 16 * 1024).run().ok();
    assert_eq!(refused.number("result"), 2, "8 GiB are left, less contexts");
    let fits = hold(&sim, "b", 6 * 1024).run().ok();
    assert_eq!(
        fits.number("result"),
        0,
        "nothing was left charged by the refusal"
    );
    let device = &sim.account().devices[0];
    assert_eq!(device.peak_requested, 22 * GIB);
    let _ = first.finish().ok();
}

#[test]
fn a_limit_above_the_card_limits_nothing() {
    let sim = Sim::new();
    let finished = sim.client("init").memory("100GiB").run().ok();
    assert_eq!(finished.number("total0"), 24 * GIB);
    let client = sim.client("hold").arg((30 * GIB / MIB).to_string());
    let finished = client.memory("100GiB").free_context().run().ok();
    assert_eq!(finished.number("result"), 2);
}
