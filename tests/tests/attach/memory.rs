//! Memory under a policy: what holds now is what the region says now.

use std::sync::atomic::Ordering::Relaxed;

use quota_abi::events::{self, What};
use quota_abi::policy::mode;
use quota_abi::{devices, slots};
use quota_tests::{GIB, MIB, Sim};

use crate::fake::{Fake, Ground};
use crate::{allocate, begin, info, under};

const OUT_OF_MEMORY: u32 = 2;

#[test]
fn a_limit_is_raised_and_lowered_under_the_running_program() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let _fake = Fake::granting(&ground);
    let mut steps = under(&sim, &ground.socket());
    begin(&mut steps);
    assert_eq!(allocate(&mut steps, 2 * GIB), OUT_OF_MEMORY);
    ground.memory(4 * GIB);
    assert_eq!(allocate(&mut steps, 2 * GIB), 0);
    assert_eq!(info(&mut steps), (2 * GIB, 4 * GIB));
    // Below what is in use: the next one is refused, and nothing else happens.
    ground.memory(GIB);
    assert_eq!(info(&mut steps), (0, GIB));
    assert_eq!(allocate(&mut steps, MIB), OUT_OF_MEMORY);
    let _ = steps.quiet("cuMemFree_v2 $3");
    ground.memory(quota_abi::policy::NO_LIMIT);
    assert_eq!(allocate(&mut steps, 8 * GIB), 0);
    assert_eq!(info(&mut steps).1, 24 * GIB);
    assert_eq!(steps.stderr(), "");
}

#[test]
fn overhead_counts_as_used_and_free_is_never_below_zero() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(2 * GIB);
    let _fake = Fake::granting(&ground);
    let mut steps = under(&sim, &ground.socket());
    begin(&mut steps);
    ground.row().overhead.store(512 * MIB, Relaxed);
    assert_eq!(info(&mut steps), (2 * GIB - 512 * MIB, 2 * GIB));
    assert_eq!(allocate(&mut steps, 2 * GIB - 511 * MIB), OUT_OF_MEMORY);
    assert_eq!(allocate(&mut steps, 2 * GIB - 512 * MIB), 0);
    ground.row().overhead.store(4 * GIB, Relaxed);
    assert_eq!(info(&mut steps), (0, 2 * GIB));
}

#[test]
fn a_context_is_charged_what_the_policy_says_and_a_variable_raises_it() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(2 * GIB);
    ground.row().context.store(300 * MIB, Relaxed);
    let _fake = Fake::granting(&ground);
    for (variable, charged) in [(None, 300), (Some("0"), 300), (Some("500MiB"), 500)] {
        let mut client = crate::with(sim.client("steps"), &ground.socket());
        if let Some(variable) = variable {
            client = client.env("GPU_QUOTA_CONTEXT", variable);
        }
        let mut steps = client.interpret();
        begin(&mut steps);
        assert_eq!(info(&mut steps).0, 2 * GIB - charged * MIB, "{variable:?}");
        // What was charged is given back, whatever the policy says by then.
        ground.row().context.store(700 * MIB, Relaxed);
        let _ = steps.quiet("cuDevicePrimaryCtxRelease_v2 $1").ok();
        let ledger = devices::ledger(ground.usage(), ground.index()).unwrap();
        assert_eq!(ledger.usage(), 0);
        ground.row().context.store(300 * MIB, Relaxed);
    }
}

#[test]
fn observed_nothing_is_refused_and_everything_is_counted_and_noted() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB).mode(mode::OBSERVE);
    let _fake = Fake::granting(&ground);
    let mut steps = under(&sim, &ground.socket());
    begin(&mut steps);
    assert_eq!(info(&mut steps).1, 24 * GIB, "the device as it is");
    assert_eq!(allocate(&mut steps, GIB / 2), 0);
    let region = ground.usage();
    let denials = || region.devices[ground.index()].denials.load(Relaxed);
    assert_eq!(denials(), 0);
    assert_eq!(allocate(&mut steps, 2 * GIB), 0);
    assert_eq!(denials(), 1);
    let ledger = devices::ledger(region, ground.index()).unwrap();
    assert_eq!(ledger.usage(), 5 * GIB / 2);
    let event = events::last(region, What::Refusal).next().unwrap();
    assert_eq!((event.asked, event.limit), (2 * GIB, GIB));
    // Enforced again from the next call on.
    ground.mode(0);
    assert_eq!(allocate(&mut steps, MIB), OUT_OF_MEMORY);
}

#[test]
fn a_refusal_is_noted_with_its_numbers() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    ground.row().overhead.store(100 * MIB, Relaxed);
    let _fake = Fake::granting(&ground);
    let mut steps = under(&sim, &ground.socket());
    begin(&mut steps);
    assert_eq!(allocate(&mut steps, 200 * MIB), 0);
    assert_eq!(allocate(&mut steps, GIB), OUT_OF_MEMORY);
    let event = events::last(ground.usage(), What::Refusal).next().unwrap();
    assert_eq!(event.asked, GIB);
    assert_eq!((event.own, event.all), (200 * MIB, 200 * MIB));
    assert_eq!(event.limit, GIB - 100 * MIB);
    assert_eq!(event.pid, steps.pid());
    assert!(event.at > 0);
}

/// One that nobody of its pid namespace is left to see dead. Its memory is free once the daemon has declared it so.
#[test]
fn what_a_declared_dead_process_held_is_free_before_a_refusal() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let _fake = Fake::granting(&ground);
    let mut steps = under(&sim, &ground.socket());
    begin(&mut steps);
    let stranger = quota_abi::life::Identity {
        pid: 7,
        start: 7,
        namespace: 1,
        image: 0,
    };
    let slot = slots::claim(ground.usage(), &stranger).unwrap();
    let ledger = devices::ledger(ground.usage(), ground.index()).unwrap();
    ledger.force(slot, 900 * MIB);
    assert_eq!(allocate(&mut steps, 200 * MIB), OUT_OF_MEMORY);
    let word = slots::Owner::of(&stranger).word();
    ground.policy().dead[slot].store(word, Relaxed);
    assert_eq!(allocate(&mut steps, 200 * MIB), 0);
    assert_eq!(ledger.held_by(slot), 0);
}
