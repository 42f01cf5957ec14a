//! The dealer by itself.

use super::rounds::DEEPEST;
use super::*;

/// Contenders that want the device all the time; how long each had it within `time`, with turns that end by their lease.
fn had(mut contenders: Vec<Contender>, time: u64, drains: impl Fn(u64, u64) -> bool) -> Vec<u64> {
    let mut dealer = Dealer::default();
    let mut had = vec![0; contenders.len()];
    let mut now = 1 << 40;
    let end = now + time;
    let mut since = now;
    while now < end {
        for one in &mut contenders {
            one.wants = dealer
                .holder()
                .is_none_or(|holder| holder.container != one.container)
                || !drains(one.container, now - since);
        }
        let before = dealer.number();
        dealer.deal(now, &mut contenders);
        if dealer.number() != before {
            since = now;
        }
        let step = dealer.next(now);
        if let Some(holder) = dealer.holder() {
            had[usize::try_from(holder.container).unwrap()] += step;
        }
        now += step;
    }
    had
}

fn contender(container: u64, part: u32) -> Contender {
    Contender {
        index: usize::try_from(container).unwrap(),
        container,
        part,
        limited: false,
        priority: 0,
        wants: true,
        ends_at: 0,
        full: false,
        unsure: false,
        used: 0,
        account: Account::default(),
    }
}

fn percent(had: &[u64]) -> Vec<u64> {
    let all: u64 = had.iter().sum();
    had.iter().map(|had| (had * 100 + all / 2) / all).collect()
}

#[test]
fn turns_are_in_proportion_to_shares() {
    for owns in [
        [250_000, 250_000, 499_999],
        [100_000, 300_000, 600_000],
        [10_000, 90_000, 900_000],
    ] {
        let contenders = (0..3)
            .map(|i| contender(i, owns[usize::try_from(i).unwrap()]))
            .collect();
        let had = percent(&had(contenders, 60_000 * MS, |_, _| false));
        for (had, own) in had.iter().zip(owns) {
            assert!(
                had.abs_diff(u64::from(own) / 10_000) <= 1,
                "{had:?} of {own}"
            );
        }
    }
}

#[test]
fn one_that_finishes_early_pays_for_what_it_had_and_the_rest_is_shared() {
    let contenders = (0..3).map(|i| contender(i, 333_333)).collect();
    let had = had(contenders, 10_000 * MS, |container, lasted| {
        container == 0 && lasted >= MS
    });
    assert!(had[0] < had[1] / 2, "{had:?}");
    assert!(had[1].abs_diff(had[2]) < 100 * MS, "{had:?}");
}

#[test]
fn priority_goes_first_and_gets_no_more() {
    let mut contenders = vec![contender(0, 500_000), contender(1, 500_000)];
    contenders[1].priority = 5;
    let mut dealer = Dealer::default();
    dealer.deal(1, &mut contenders);
    assert_eq!(dealer.holder().unwrap().container, 1);
    let had = percent(&had(contenders, 10_000 * MS, |_, _| false));
    assert_eq!(had, [50, 50]);
}

fn holds(dealer: &Dealer) -> Option<u64> {
    dealer.holder().map(|holder| holder.container)
}

#[test]
fn a_silent_holder_loses_it_with_its_lease_and_a_gone_one_at_once() {
    let mut contenders = vec![contender(0, 500_000), contender(1, 500_000)];
    let mut dealer = Dealer::default();
    dealer.deal(1, &mut contenders);
    let first = dealer.holder().unwrap();
    assert_eq!(first.container, 0);
    dealer.deal(first.until - EARLY - 1, &mut contenders);
    assert_eq!(dealer.holder(), Some(first));
    dealer.deal(first.until, &mut contenders);
    assert_eq!(holds(&dealer), Some(1));
    contenders.remove(1);
    dealer.deal(first.until + 1, &mut contenders);
    assert_eq!(holds(&dealer), Some(0));
}

#[test]
fn with_nobody_wanting_it_is_open() {
    let mut contenders = vec![contender(0, 500_000), contender(1, 500_000)];
    let mut dealer = Dealer::default();
    dealer.deal(1, &mut contenders);
    for one in &mut contenders {
        one.wants = false;
    }
    dealer.deal(2, &mut contenders);
    assert_eq!(holds(&dealer), None);
    assert!(contenders.iter().all(|one| one.account.free));
}

/// A turn lasts until what was started in it has run, and no longer than that is waited for; the holder pays.
#[test]
fn work_that_runs_on_is_waited_for_and_paid() {
    let mut contenders = vec![contender(0, 500_000), contender(1, 500_000)];
    let mut dealer = Dealer::default();
    let begin = 1 << 40;
    dealer.deal(begin, &mut contenders);
    contenders[0].ends_at = begin + 60 * MS;
    for ms in 1..60 {
        dealer.deal(begin + ms * MS, &mut contenders);
        assert_eq!(holds(&dealer), Some(0), "{ms}");
    }
    dealer.deal(begin + 60 * MS - LEAD, &mut contenders);
    assert_eq!(holds(&dealer), Some(1));
    let owes = contenders[0].account.deficit + contenders[1].account.deficit.min(0);
    assert!((-51_000_000..-48_000_000).contains(&owes), "{owes}");
    // One that claims to run for ever.
    let mut contenders = vec![contender(0, 500_000), contender(1, 500_000)];
    let mut dealer = Dealer::default();
    dealer.deal(begin, &mut contenders);
    contenders[0].ends_at = u64::MAX;
    dealer.deal(begin + LONGEST + OVERRUN, &mut contenders);
    assert_eq!(holds(&dealer), Some(1));
}

/// While one alone wants the device, the others may come beside it, if they owe nothing.
#[test]
fn one_alone_has_it_for_as_long_as_it_lasts() {
    let mut contenders = vec![contender(0, 500_000), contender(1, 500_000)];
    let mut dealer = Dealer::default();
    contenders[1].wants = false;
    contenders[1].account.deficit = -30 * MS.cast_signed();
    let begin = 1 << 40;
    for ms in 0..29 {
        dealer.deal(begin + ms * MS, &mut contenders);
        assert_eq!(holds(&dealer), Some(0));
        assert!(!contenders[1].account.free, "{ms}");
    }
    dealer.deal(begin + 31 * MS, &mut contenders);
    assert!(contenders[1].account.free);
    // What it used beside the other it pays for: the other is next.
    contenders[1].wants = true;
    contenders[1].used = 4 * MS;
    dealer.deal(begin + 32 * MS, &mut contenders);
    assert_eq!(holds(&dealer), Some(0));
    assert!(contenders.iter().all(|one| !one.account.free));
}

#[test]
fn no_clock_and_no_share_breaks_it() {
    let mut contenders = vec![contender(0, 0), contender(1, u32::MAX), contender(2, 1)];
    let mut dealer = Dealer::default();
    for now in [0, u64::MAX, 0, 1 << 63, 5, u64::MAX - 1, u64::MAX] {
        dealer.deal(now, &mut contenders);
        dealer.next(now);
    }
    assert!(contenders.iter().all(|one| one.account.deficit >= -DEEPEST));
}
