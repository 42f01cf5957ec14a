//! What a container can gain by lying about itself: nothing that is another's own.

use super::fluid::{World, always, never, share};
use super::{MS, Reading, WHOLE};
use crate::model::Compute;

/// Every number at its worst.
fn worst() -> Vec<Reading> {
    let mut all = Vec::new();
    for refilled_at in [0, 1, u64::MAX] {
        for counter in [0, u64::MAX, u64::MAX / 2] {
            for busy in [false, true] {
                all.push(Reading {
                    refilled_at,
                    used: counter,
                    waits: counter,
                    launches: counter,
                    busy,
                    ends_at: refilled_at,
                    full: !busy,
                    unsure: busy,
                });
            }
        }
    }
    all
}

#[test]
fn no_number_breaks_it_or_takes_from_others() {
    let mut world = World::new(true)
        .with(share(1), always)
        .with(share(1), never)
        .with(Compute::Limit { ppm: 200_000 }, never);
    for round in 0..200 {
        for reading in worst() {
            world.tenants[1].reading = reading;
            world.tenants[2].reading = worst()[round % worst().len()];
            world.now += MS / 3;
            world.tenants[0].reading.refilled_at = world.now;
            world.step();
            assert!(world.rate(0) >= 500_000 - 1);
        }
    }
}

#[test]
fn no_clock_breaks_it() {
    let mut world = World::new(true)
        .with(share(1), always)
        .with(share(1), always);
    for now in [u64::MAX, 0, u64::MAX - 1, 1, 1 << 63] {
        world.now = now;
        for reading in worst() {
            world.tenants[1].reading = reading;
            world.step();
        }
    }
}

#[test]
fn who_claims_to_be_idle_loses_its_loan_and_keeps_its_own() {
    let mut world = World::new(false)
        .with(share(1), always)
        .with(share(1), always)
        .with(share(2), never);
    world.run(1_000);
    assert_eq!(world.rate(0), 499_999);
    for _ in 0..10 {
        world.now += 20 * MS;
        world.tenants[1].reading.refilled_at = world.now;
        world.tenants[1].reading.launches += 1;
        world.tenants[0].reading = Reading::default();
        world.step();
    }
    assert_eq!((world.rate(0), world.rate(1)), (250_000, WHOLE));
}

#[test]
fn who_claims_to_be_busy_is_lent_no_more_than_its_part() {
    let mut world = World::new(false)
        .with(share(1), always)
        .with(share(1), never)
        .with(share(2), never);
    for _ in 0..50 {
        world.now += 20 * MS;
        world.tenants[0].reading.refilled_at = world.now;
        world.tenants[0].reading.waits += 1;
        world.tenants[1].reading = Reading {
            refilled_at: world.now,
            used: u64::MAX,
            waits: world.now,
            launches: world.now,
            busy: true,
            ends_at: u64::MAX,
            full: false,
            unsure: true,
        };
        world.step();
    }
    assert_eq!((world.rate(0), world.rate(1)), (499_999, 500_000));
}

#[test]
fn a_limit_that_claims_to_use_everything_is_kept_its_limit() {
    let mut world = World::new(false)
        .with(Compute::Limit { ppm: 300_000 }, never)
        .with(share(1), always)
        .with(share(3), never);
    for round in 0..100 {
        world.now += 20 * MS;
        world.tenants[1].reading.refilled_at = world.now;
        world.tenants[0].reading = Reading {
            refilled_at: world.now,
            used: round * u64::from(u32::MAX) * 100,
            ..Reading::default()
        };
        world.step();
    }
    assert_eq!(world.rate(1), 699_999);
}

#[test]
fn a_turn_cannot_be_held_by_seeming_busy() {
    let mut world = World::new(true)
        .with(share(1), always)
        .with(share(1), always);
    world.run(500);
    // The second stays busy without using anything it would report.
    let before = world.tenants[0].had;
    for _ in 0..1_000 {
        world.run(1);
        world.tenants[1].reading.used = 0;
    }
    let had = (world.tenants[0].had - before) / (10 * MS);
    assert!((47..=53).contains(&had), "{had}");
}
