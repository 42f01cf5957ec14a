//! What is told of use: GPU time, waits, refusals, and what is lent.

use super::*;
use quota_abi::bucket::Rate;
use quota_abi::events::{self, Event, What};
use quota_abi::sync::Ordering;
use rustix::thread::futex;

const TWO: &str = "[[container]]\nname = \"a\"\nmemory = \"1GiB\"\nweight = 1\n\
                   [[container]]\nname = \"b\"\nmemory = \"1GiB\"\nweight = 3\n";

fn bucket(attached: &Attached) -> &quota_abi::bucket::Bucket {
    let index = quota_abi::devices::index_of(&attached.usage, &GPU.0).unwrap();
    &attached.usage.get().buckets[index]
}

#[test]
fn what_was_used_over_the_last_second_is_told_without_having_been_asked_before() {
    let daemon = Daemon::start(TWO);
    let attached = attach(&daemon.socket("a"));
    bucket(&attached).charge(7_000_000_000);
    std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            let start = Instant::now();
            let mut charged = Duration::ZERO;
            while start.elapsed() < Duration::from_millis(1500) {
                std::thread::sleep(Duration::from_millis(5));
                let half = start.elapsed() / 2;
                bucket(&attached).charge(i64::try_from((half - charged).as_nanos()).unwrap());
                charged = half;
            }
        });
        std::thread::sleep(Duration::from_millis(100));
        let share = daemon.manager().status().containers[0].devices[0].clone();
        user.join().unwrap();
        let got = share.got_percent.unwrap();
        // A wide bound: half of the clock, of which the looks may see a little more or less.
        assert!((25.0..75.0).contains(&got), "{got}");
        assert!(share.gpu_time_ns >= 7_000_000_000);
    });
}

#[test]
fn what_idle_ones_leave_is_lent_to_who_rings() {
    let daemon = Daemon::start(TWO);
    let attached = attach(&daemon.socket("a"));
    let row = attached.policy.get().row(&GPU.0).unwrap();
    assert_eq!(row.rate.load(Ordering::Relaxed), 250_000);
    let own = Rate::from_ppm(250_000).unwrap();
    wait_until("the loan", || {
        let now = super::super::status::monotonic();
        bucket(&attached).refill(now, own);
        let bell = &attached.policy.get().header.bell;
        let _ = futex::wake(bell, futex::Flags::empty(), 1);
        let active = row.active_until.load(Ordering::Relaxed) > now;
        row.rate_at(now) == Some(999_999) && active
    });
    // It stops; then nothing is lent any more, whether or not anybody says so.
    wait_until("its end", || {
        row.rate_at(super::super::status::monotonic()) == Some(250_000)
    });
}

#[test]
fn refusals_and_waits_are_told_with_their_arithmetic() {
    let daemon = Daemon::start(TWO);
    let attached = attach(&daemon.socket("a"));
    let index = quota_abi::devices::index_of(&attached.usage, &GPU.0).unwrap();
    let now = super::super::status::monotonic();
    let event = Event {
        at: now - 1000,
        pid: 71,
        device: u8::try_from(index).unwrap(),
        slot: 3,
        asked: 500,
        own: (-7_i64).cast_unsigned(),
        all: 900,
        limit: 250_000,
    };
    events::note(&attached.usage, What::Refusal, &event);
    events::note(&attached.usage, What::Wait, &event);
    let why = daemon.manager().why("a").unwrap();
    let (refusal, wait) = (&why.refusals[0], &why.waits[0]);
    assert_eq!(
        (refusal.pid_inside, refusal.uuid, refusal.asked_bytes),
        (71, Some(GPU), 500)
    );
    assert_eq!((refusal.held_bytes, refusal.room_bytes), (900, 250_000));
    assert!(refusal.ago_ns >= 1000);
    assert_eq!(
        (wait.level_ns, wait.waited_ns, wait.rate_percent),
        (-7, 900, 25.0)
    );
}

#[test]
fn counters_that_leap_are_damage_and_not_told() {
    let daemon = Daemon::start(TWO);
    let attached = attach(&daemon.socket("a"));
    bucket(&attached).count_launches(5);
    let launches = || daemon.manager().status().containers[0].devices[0].launches;
    assert_eq!(launches(), 5);
    bucket(&attached).count_launches(u64::MAX - 100);
    assert_eq!(launches(), 5);
    let damage = daemon.manager().status().containers[0].damage.clone();
    assert!(damage.unwrap().contains("leapt"));
}
