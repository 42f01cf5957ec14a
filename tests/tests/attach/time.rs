//! GPU time under a policy. The judge is the simulator's account; bounds are wide, for machines where tests compete.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use quota_abi::events::{self, What};
use quota_abi::layout::DEVICES;
use quota_abi::policy::{Loan, mode};
use quota_tests::{Running, Sim};

use crate::fake::{Bell, Fake, Ground};
use crate::with;

fn launching(sim: &Sim, ground: &Arc<Ground>, kernel_ns: &str, stretch_ms: &str) -> Running {
    let client = sim.client("stretches").args([kernel_ns, stretch_ms]);
    with(client, &ground.socket()).spawn()
}

/// The per mille of a stretch.
fn share(client: &mut Running, number: u32) -> u64 {
    let line = client.line(&format!("stretch {number}: "));
    let permille = line.split(' ').nth(2).unwrap();
    permille.parse().unwrap()
}

/// The first stretch from `next` on whose share is within bounds; the next one after it.
#[track_caller]
fn comes_to(client: &mut Running, next: u32, bounds: std::ops::Range<u64>) -> u32 {
    let mut seen = Vec::new();
    for number in next..next + 12 {
        seen.push(share(client, number));
        if bounds.contains(seen.last().unwrap()) {
            return number + 1;
        }
    }
    panic!("never within {bounds:?} per mille: {seen:?}");
}

#[test]
fn a_rate_is_changed_lifted_and_set_again_under_the_running_program() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).rate(300_000);
    let _fake = Fake::granting(&ground);
    let mut client = launching(&sim, &ground, "100000", "200");
    let next = comes_to(&mut client, 0, 260..340);
    ground.rate(100_000);
    let next = comes_to(&mut client, next, 70..130);
    ground.mode(0);
    let next = comes_to(&mut client, next, 500..1100);
    // What it has queued meanwhile has to be worked off first.
    ground.rate(300_000);
    let next = comes_to(&mut client, next, 260..340);
    let again = comes_to(&mut client, next, 260..340);
    assert!(again > next);
}

#[test]
fn a_limit_set_on_a_process_without_one_holds() {
    let sim = Sim::new();
    let ground = Ground::new(&sim);
    let _fake = Fake::granting(&ground);
    let mut client = launching(&sim, &ground, "100000", "200");
    let next = comes_to(&mut client, 0, 500..1100);
    ground.rate(200_000);
    comes_to(&mut client, next, 150..250);
    assert!(ground.usage().buckets[ground.index()].used() > 0);
}

#[test]
fn a_loan_is_used_while_it_lasts() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).rate(100_000);
    let _fake = Fake::granting(&ground);
    let mut client = launching(&sim, &ground, "100000", "200");
    let next = comes_to(&mut client, 0, 70..130);
    // One second, and nobody takes it back.
    let until = now() + 1_500_000_000;
    ground
        .row()
        .loan
        .store(Loan::new(700_000, until).0, Relaxed);
    ground.wake();
    let next = comes_to(&mut client, next, 500..800);
    assert!(now() < until, "lent too shortly for this machine");
    comes_to(&mut client, next, 70..130);
    assert!(now() > until);
}

/// At a tenth of a per cent a launch of 20 ms waits for 20 s: longer than the watchdog.
#[test]
fn a_raised_rate_wakes_a_launch_that_waits() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).rate(900_000);
    let _fake = Fake::granting(&ground);
    let client = sim.client("stretches").args(["20000000", "0"]);
    let mut client = with(client, &ground.socket()).watchdog(15).spawn();
    client.line("stretch 3: ");
    ground.rate(1_000);
    let bucket = &ground.usage().buckets[ground.index()];
    let begin = Instant::now();
    while bucket.level() > -5_000_000 {
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{}",
            bucket.level()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    ground.rate(900_000);
    client.line("stretch 8: ");
}

#[test]
fn a_launch_that_waited_is_noted_with_its_numbers() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).rate(100_000);
    let _fake = Fake::granting(&ground);
    let mut client = launching(&sim, &ground, "5000000", "0");
    client.line("stretch 5: ");
    let event = events::last(ground.usage(), What::Wait).next().unwrap();
    assert!(event.all >= 1_000_000, "{event:?}");
    assert!(event.level() < 5_000_000, "{event:?}");
    assert!(event.asked > 0 && event.asked < 100_000_000, "{event:?}");
    assert_eq!((event.pid, event.limit), (client.pid(), 100_000));
    assert!(event.at <= now() && event.at + 60_000_000_000 > now());
}

#[test]
fn observed_launches_do_not_wait_and_would_have_is_counted() {
    let sim = Sim::new();
    let ground = Ground::new(&sim)
        .rate(100_000)
        .mode(mode::COMPUTE | mode::OBSERVE);
    let _fake = Fake::granting(&ground);
    let mut client = launching(&sim, &ground, "100000", "200");
    comes_to(&mut client, 0, 500..1100);
    let bucket = ground.usage().buckets[ground.index()].read();
    assert!(bucket.waited > 100_000_000, "{bucket:?}");
    assert!(events::last(ground.usage(), What::Wait).next().is_some());
}

#[test]
fn the_daemon_is_rung_for_while_it_does_not_know_and_sees_who_is_busy() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).rate(500_000);
    let _fake = Fake::granting(&ground);
    let bell = Bell::listen(&ground);
    let mut client = launching(&sim, &ground, "100000", "100");
    client.line("stretch 3: ");
    assert!(bell.rung() > 0);
    // It works, and both bits are set. While it waits for its own time, with nothing in flight, there are none.
    let both = 1 << ground.index() | 1 << (ground.index() + DEVICES);
    let begin = Instant::now();
    while ground.usage().slots[0].busy.load(Relaxed) != both {
        assert!(begin.elapsed() < Duration::from_secs(10), "never busy");
    }
    // It knows: not once more.
    ground.row().active_until.store(u64::MAX / 2, Relaxed);
    std::thread::sleep(Duration::from_millis(50));
    let before = bell.rung();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(bell.rung(), before);
}

/// The host's monotonic clock, which this process reads as it is.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a live out-pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}
