//! Weak references to the driver in a library that is opened after the start.

#![allow(
    clippy::unwrap_used,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Sim, library};

/// What `cuInit` answers through such a reference; -1 where it is absent.
fn answer(bare: bool, driver: bool) -> i64 {
    let sim = Sim::new();
    let mut client = sim.client("weak_later").arg(library("weak_user"));
    client = match driver {
        true => client.arg("libcuda.so.1"),
        false => client.no_driver(),
    };
    let finished = client.memory("1GiB").bare_if(bare).run().ok();
    let (_, answer) = finished.stdout.trim().split_once(": ").unwrap();
    answer.parse().unwrap()
}

#[test]
fn with_a_driver_they_reach_it() {
    for bare in [true, false] {
        assert_eq!(answer(bare, true), 0);
    }
}

/// A limit of what is possible, stated in README.md: at the start such references are put back to zero, later nobody asks.
/// A call that follows is answered as where the driver's library does not load.
#[test]
fn without_a_driver_they_find_one_that_answers_there_is_none() {
    const SHARED_OBJECT_INIT_FAILED: i64 = 303;
    assert_eq!(answer(true, false), -1);
    assert_eq!(answer(false, false), SHARED_OBJECT_INIT_FAILED);
}
