//! Stories of sharing, told in virtual time.

use super::fluid::{World, always, never, share};
use super::{Settings, WHOLE};
use crate::model::Compute;

fn near(had: &[u64], expected: &[u64], by: u64) -> bool {
    had.len() == expected.len() && had.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) <= by)
}

#[test]
fn the_worked_example() {
    // 5, 5 and 10; the third is idle for the second of three seconds.
    let third = |ms| {
        if (1_000..2_000).contains(&ms) {
            0
        } else {
            always(ms)
        }
    };
    let mut world = World::new(false)
        .with(share(5), always)
        .with(share(5), always)
        .with(share(10), third);
    assert_eq!(world.run(1_000), [25, 25, 50]);
    // Noticed after 60 ms of silence, at a look each 50.
    let had = world.run(200);
    assert!(had[0] >= 35 && had[1] >= 35, "{had:?}");
    assert_eq!(world.run(799), [50, 50, 0]);
    // Its own at once, and what was lent is back within 100 ms: the first milliseconds are all that shows.
    assert_eq!(world.run(100)[2], 50);
    assert!(world.rate(0) <= 250_000 && world.rate(1) <= 250_000);
    assert_eq!(world.run(900), [25, 25, 50]);
}

#[test]
fn taken_back_at_the_first_ring() {
    let second = |ms| if ms < 500 { 0 } else { always(ms) };
    let mut world = World::new(false)
        .with(share(1), always)
        .with(share(1), second);
    world.run(499);
    assert!(world.rate(0) > 990_000);
    let woken = world.tenants[0]
        .row
        .wake
        .load(quota_abi::sync::Ordering::Relaxed);
    world.run(3);
    assert!(world.rate(0) <= 500_000, "{}", world.rate(0));
    assert!(
        world.tenants[0]
            .row
            .wake
            .load(quota_abi::sync::Ordering::Relaxed)
            > woken
    );
    // And without a ring, at the next look: the ring is lost if the row says that it is active already.
}

#[test]
fn a_dead_daemon_lends_nothing_and_takes_nothing() {
    let mut world = World::new(false)
        .with(share(1), always)
        .with(share(3), never);
    world.run(500);
    assert!(world.rate(0) > 990_000);
    world.daemon = false;
    world.run(100);
    assert_eq!(world.rate(0), 250_000);
    assert_eq!(world.run(1_000), [25, 0]);
    // The next one lends again.
    world.daemon = true;
    world.controller = super::Controller::new(Settings::default());
    world.run(100);
    assert_eq!(world.run(500), [100, 0]);
}

#[test]
fn gaps_of_thirty_milliseconds_flap_nothing() {
    let loops = |ms| if ms % 60 < 30 { always(ms) } else { 0 };
    let mut world = World::new(false)
        .with(share(1), always)
        .with(share(1), loops);
    world.run(1_000);
    let before = world.tenants[0]
        .row
        .wake
        .load(quota_abi::sync::Ordering::Relaxed);
    world.run(5_000);
    let after = world.tenants[0]
        .row
        .wake
        .load(quota_abi::sync::Ordering::Relaxed);
    assert_eq!(before, after, "loans came and went");
}

#[test]
fn hard_limits_are_left_what_they_use() {
    // One that uses a tenth of the device, of the half that it may.
    let limit = Compute::Limit { ppm: 500_000 };
    let mut world = World::new(false)
        .with(limit, |_| 100_000)
        .with(share(1), always)
        .with(share(3), never);
    world.run(1_000);
    let had = world.run(1_000);
    assert!(near(&had, &[10, 89, 0], 2), "{had:?}");
    // One that uses all of it.
    world.tenants[0].demand = Box::new(always);
    world.run(1_000);
    let had = world.run(1_000);
    assert_eq!(had, [50, 50, 0]);
}

#[test]
fn what_one_leaves_goes_to_those_who_wait() {
    // Three of equal weight, one idle; of the active ones, one uses a fifth of what is its own.
    let mut world = World::new(false)
        .with(share(1), |_| 60_000)
        .with(share(1), always)
        .with(share(1), never);
    world.run(1_000);
    let had = world.run(1_000);
    // Its own third stays its own; of the third that is lent, all goes to the one that waits.
    assert_eq!(had, [6, 67, 0]);
    assert_eq!(world.rate(0), 333_333);
    // When it wants more it has its own at once, and its part of the loan soon.
    world.tenants[0].demand = Box::new(always);
    world.run(500);
    let had = world.run(500);
    assert_eq!(had, [50, 50, 0]);
}

#[test]
fn caps_and_priorities() {
    let capped = Compute::Share {
        weight: 5,
        cap_ppm: Some(300_000),
    };
    let mut world = World::new(false)
        .with(capped, always)
        .with(share(5), always)
        .with(share(10), never);
    world.run(500);
    assert_eq!(world.run(500), [30, 70, 0]);
    let mut world = World::new(false)
        .with(share(5), always)
        .with(share(5), always)
        .priority(1)
        .with(share(10), never);
    world.run(500);
    assert_eq!(world.run(500), [25, 75, 0]);
}

#[test]
fn the_idle_daemon_sleeps() {
    let mut world = World::new(false)
        .with(share(1), |ms| if ms < 300 { 1_000_000 } else { 0 })
        .with(share(1), never);
    world.run(500);
    let steps = world.steps;
    world.run(60_000);
    assert_eq!(world.steps, steps);
    assert_eq!(
        world.tenants[0]
            .row
            .active_until
            .load(quota_abi::sync::Ordering::Relaxed),
        0
    );
    // One alone has nothing to borrow: a look each second.
    let mut world = World::new(false).with(share(1), always);
    world.run(500);
    let steps = world.steps;
    world.run(10_000);
    assert!(world.steps - steps <= 11, "{}", world.steps - steps);
    assert_eq!(world.rate(0), WHOLE);
}

#[test]
fn turns_are_dealt_by_share_and_one_at_a_time() {
    let mut world = World::new(true)
        .with(share(5), always)
        .with(share(5), always)
        .with(share(10), |ms| if ms < 5_000 { 1_000_000 } else { 0 });
    world.run(100);
    let had = world.run(4_000);
    assert!(near(&had, &[25, 25, 50], 2), "{had:?}");
    world.run(1_500);
    let had = world.run(1_000);
    assert!(near(&had, &[50, 50, 0], 2), "{had:?}");
    // One that is alone takes no turns.
    world.tenants[0].demand = Box::new(never);
    world.run(500);
    assert_eq!(world.run(500), [0, 100, 0]);
    let off = |index: usize| {
        world.tenants[index]
            .row
            .turn
            .load(quota_abi::sync::Ordering::Relaxed)
            == 0
    };
    assert!(off(0) && off(1) && off(2));
}

#[test]
fn turns_end_with_the_settings_that_asked_for_them() {
    let mut world = World::new(true)
        .with(share(1), always)
        .with(share(1), always);
    let on = |world: &World| {
        let turns = world.tenants.iter().map(|tenant| &tenant.row.turn);
        turns
            .filter(|turn| turn.load(quota_abi::sync::Ordering::Relaxed) != 0)
            .count()
    };
    world.run(100);
    assert_eq!(on(&world), 2);
    world.controller.apply(Settings { turns: false });
    world.run(5);
    assert_eq!(on(&world), 0);
    world.controller.apply(Settings { turns: true });
    world.run(100);
    assert_eq!(on(&world), 2);
}

#[test]
fn turns_with_a_hard_limit_and_a_dead_daemon() {
    let mut world = World::new(true)
        .with(Compute::Limit { ppm: 300_000 }, always)
        .with(share(1), always);
    world.run(500);
    world.daemon = false;
    world.run(200);
    // Nobody's lease runs for ever, and the rows say themselves that nobody deals any more.
    for tenant in &world.tenants {
        let turn =
            quota_abi::policy::Turn(tenant.row.turn.load(quota_abi::sync::Ordering::Relaxed));
        assert!(!turn.is_on() || !turn.may_run(world.now));
        assert!(
            tenant
                .row
                .active_until
                .load(quota_abi::sync::Ordering::Relaxed)
                < world.now
        );
    }
}
