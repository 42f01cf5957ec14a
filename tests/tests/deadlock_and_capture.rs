//! Programs that a careless gate would hang or break. Each runs under 2 % of GPU time and must end
//! as it does without the shim, answer for answer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::time::Duration;

use quota_tests::{Client, Sim};

/// Runs the program bare and limited; both must end, with the same output. Returns how much longer the limited one took.
#[track_caller]
fn ends_as_bare(name: &str, args: &[&str], sim_env: &[(&str, &str)]) -> Duration {
    let run = |bare: bool| {
        let mut sim = Sim::new();
        for (variable, value) in sim_env {
            sim = sim.with(variable, value);
        }
        let client: Client = sim.client(name).args(args).compute("2%").memory("1GiB");
        client
            .bare_if(bare)
            .watchdog(if bare { 20 } else { 90 })
            .run()
            .ok()
    };
    let bare = run(true);
    let limited = run(false);
    assert_eq!(limited.stdout, bare.stdout, "{name} {args:?}");
    assert_eq!(limited.stderr, bare.stderr, "{name} {args:?}");
    // What spins while a launch is held must be paid: at 2 %, fifty times that. So nothing may be held for long.
    assert!(
        limited.elapsed < Duration::from_secs(6),
        "{name} {args:?}: {:?}",
        limited.elapsed
    );
    println!(
        "{name} {args:?}: bare {:?}, limited {:?}",
        bare.elapsed, limited.elapsed
    );
    limited.elapsed.saturating_sub(bare.elapsed)
}

/// What was spun has to be paid.
#[track_caller]
fn is_limited(longer: Duration) {
    assert!(longer > Duration::from_millis(50), "only {longer:?} longer");
}

#[test]
fn a_kernel_that_waits_for_a_kernel_on_another_stream() {
    is_limited(ends_as_bare("wait_for_other_stream", &[], &[]));
}

#[test]
fn a_host_flag_behind_a_lock_that_the_gated_thread_holds() {
    ends_as_bare("host_flag_behind_lock", &[], &[]);
}

#[test]
fn a_kernel_that_never_ends() {
    ends_as_bare("never_ending_kernel", &[], &[]);
}

#[test]
fn a_stream_that_waits_for_a_value() {
    is_limited(ends_as_bare("stream_waits_for_value", &[], &[]));
}

#[test]
fn two_devices_driven_by_one_thread() {
    let devices = [("GPU_SIM_DEVICES", "2")];
    is_limited(ends_as_bare("two_devices_one_thread", &[], &devices));
}

/// Row 29, for each mode.
#[test]
fn capture_in_global_mode_beside_throttled_work() {
    ends_as_bare("capture_beside_work", &["global"], &[]);
}

#[test]
fn capture_in_thread_local_mode_beside_throttled_work() {
    ends_as_bare("capture_beside_work", &["thread_local"], &[]);
}

#[test]
fn capture_in_relaxed_mode_beside_throttled_work() {
    ends_as_bare("capture_beside_work", &["relaxed"], &[]);
}

#[test]
fn what_a_capturing_thread_may_do_is_the_drivers_to_say() {
    for mode in ["global", "thread_local", "relaxed"] {
        ends_as_bare("capture_own_thread", &[mode], &[]);
    }
}
