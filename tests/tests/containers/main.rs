//! Real containers: podman and runc, with the devices that the daemon publishes. What runs in each is a client of the simulated GPU;
//! what it got is read off the simulator's account. One table of cases is printed.
//!
//! `cargo test -p quota-tests --test containers -- --nocapture`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

mod images;
mod library;
mod life;
mod policy;
mod rootless;
mod sharing;
mod stage;
mod ways;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use quota_tests::{Sim, is_root};
use stage::Stage;

/// What is tried, and what was seen: both for the table.
type Case = (&'static str, fn(&Stage<'_>) -> String);

const CASES: &[&[Case]] = &[
    ways::CASES,
    images::CASES,
    policy::CASES,
    sharing::CASES,
    life::CASES,
    rootless::CASES,
    // The last: it takes the library away from all.
    library::CASES,
];

#[test]
fn everything_that_runs_in_a_container_is_held_to_its_quota() {
    if !is_root() {
        return println!("skipped: containers of root, and a daemon that mounts, need root");
    }
    let files = Stage::files();
    let sim = Sim::new().with("GPU_SIM", files.path().join("gpu").to_str().unwrap());
    let stage = match Stage::set(&sim, files.path()) {
        Ok(stage) => stage,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut failed = Vec::new();
    let chosen = std::env::var("CONTAINERS_CASE").unwrap_or_default();
    for (what, case) in CASES.iter().copied().flatten() {
        if !what.contains(&chosen) {
            continue;
        }
        let begin = Instant::now();
        let seen = catch_unwind(AssertUnwindSafe(|| case(&stage)));
        let seen = seen.unwrap_or_else(|_| {
            failed.push(*what);
            "FAILED".into()
        });
        println!(
            "{what:<52} {seen}  ({:.1} s)",
            begin.elapsed().as_secs_f64()
        );
    }
    assert!(failed.is_empty(), "{failed:?}\n{}", stage.daemon.log());
}
