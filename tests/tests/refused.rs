//! A process whose quota cannot be enforced gets nothing, whether or not it looks at what `cuInit` answered, and even where
//! the driver has been initialised all the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::os::unix::ffi::OsStrExt;

use quota_abi::layout::DEVICES;
use quota_abi::{devices, region::Mapped};
use quota_tests::{Finished, Sim};

/// Every call that takes memory, time, or a context.
const CALLS: &[&str] = &[
    "context", "primary", "linear", "managed", "async", "physical", "launch", "info",
];
const NOT_INITIALIZED: u64 = 3;
const NOT_PERMITTED: u64 = 800;

#[track_caller]
fn gets_nothing(sim: &Sim, finished: &Finished) {
    for call in CALLS {
        assert_eq!(
            finished.number(call),
            NOT_INITIALIZED,
            "{call}: {finished:?}"
        );
    }
    assert_eq!(
        finished.stderr.lines().count(),
        1,
        "the reason, once: {finished:?}"
    );
    assert_eq!(
        sim.account().devices[0].peak_requested,
        0,
        "the driver was asked for memory"
    );
}

#[test]
fn without_a_quota_the_program_gets_what_it_asks() {
    let sim = Sim::new();
    let finished = sim.client("carry_on").arg("past").run().ok();
    for call in ["context", "linear", "managed", "physical", "info"] {
        assert_eq!(finished.number(call), 0, "{call}: {finished:?}");
    }
}

#[test]
fn a_bad_setting() {
    let sim = Sim::new();
    let finished = sim.client("carry_on").arg("init").memory("lots").run().ok();
    assert_eq!(finished.number("init"), NOT_PERMITTED);
    assert_eq!(finished.number("again"), NOT_PERMITTED);
    assert!(finished.stderr.contains("GPU_QUOTA_MEMORY"), "{finished:?}");
    gets_nothing(&sim, &finished);
}

#[test]
fn a_bad_setting_and_a_driver_initialised_past_us() {
    let sim = Sim::new();
    let finished = sim.client("carry_on").arg("past").memory("lots").run().ok();
    assert!(finished.stderr.contains("GPU_QUOTA_MEMORY"), "{finished:?}");
    gets_nothing(&sim, &finished);
}

#[test]
fn a_bad_share_and_a_driver_initialised_past_us() {
    let sim = Sim::new();
    let finished = sim
        .client("carry_on")
        .arg("past")
        .compute("200%")
        .run()
        .ok();
    assert!(
        finished.stderr.contains("GPU_QUOTA_COMPUTE"),
        "{finished:?}"
    );
    gets_nothing(&sim, &finished);
}

/// The driver is initialised before the devices can be counted.
#[test]
fn a_group_that_has_seen_too_many_devices() {
    for way in ["init", "past"] {
        let sim = Sim::new();
        let path = std::ffi::CString::new(sim.region().as_os_str().as_bytes()).unwrap();
        let region = Mapped::open_or_create(&path).unwrap();
        for device in 0..DEVICES {
            let uuid = [u8::try_from(device).unwrap() + 1; 16];
            assert!(devices::index_of(&region, &uuid).is_some());
        }
        let finished = sim.client("carry_on").arg(way).memory("1GiB").run().ok();
        if way == "init" {
            assert_eq!(finished.number("init"), NOT_PERMITTED);
            assert_eq!(finished.number("again"), NOT_PERMITTED);
        }
        assert!(finished.stderr.contains("GPU_QUOTA_GROUP"), "{finished:?}");
        gets_nothing(&sim, &finished);
    }
}
