//! Turns: while several containers want a device, one at a time starts work on it.
//!
//! Dealt by deficit round robin over the time that turns last, which no container can misreport: while a container has its turn
//! the device is its own, so it pays for all of it. A turn ends when its holder has nothing in flight and nothing waiting, or
//! with its lease. Who is owed time and has the highest priority is next; of equals, who has not had a turn for longest.
//!
//! With turns and no daemon, launches would wait for a turn that nobody deals: a turn holds only while the row's
//! `active_until` lies ahead, which the daemon renews, and a row of an idle container says that turns are off.

use super::MS;

/// How long a turn is on average.
const TURN: u64 = 5 * MS;
/// No lease is shorter, whatever is owed: a hand-over must cost little against it.
const SHORTEST: u64 = MS;
/// Nor longer: the others wait for its end.
const LONGEST: u64 = 20 * MS;
/// While turns are dealt, whether the holder has finished is looked at so often.
pub(super) const LOOK: u64 = MS;
/// Nobody owes more than this: a turn that ends late (a stopped daemon) costs its holder no more.
const DEEPEST: i64 = 10 * LONGEST.cast_signed();

/// One who takes turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    /// Its place among the members of the device.
    pub(super) index: usize,
    /// Its container.
    pub(super) container: u64,
    /// Its own share, which its turns are in proportion to.
    pub(super) own: u32,
    /// Higher goes first within a round.
    pub(super) priority: i32,
    /// Whether it has work in flight or waiting.
    pub(super) wants: bool,
    /// What it is owed.
    pub(super) account: Account,
}

/// What a contender is owed, kept from step to step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Nanoseconds of turn; negative: owes.
    deficit: i64,
    /// Number of its last turn.
    last: u64,
}

/// What there is to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deal {
    /// As before.
    Keep,
    /// Nobody wants the device: anybody may start.
    Open,
    /// A new turn, of the contender with this index.
    Turn {
        index: usize,
        number: u64,
        until: u64,
    },
}

/// Deals the turns of one device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dealer {
    number: u64,
    holder: Option<Holder>,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    container: u64,
    since: u64,
    until: u64,
}

impl Dealer {
    /// Nobody takes turns.
    pub(super) fn stop(&mut self) {
        self.holder = None;
    }

    /// Number of the last turn that was dealt.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whose turn it is.
    pub(super) fn holder(&self) -> Option<u64> {
        self.holder.map(|holder| holder.container)
    }

    /// When to look again.
    pub(super) fn next(&self, now: u64) -> u64 {
        self.holder.map_or(LOOK, |holder| {
            holder.until.saturating_sub(now).clamp(MS / 10, LOOK)
        })
    }

    /// Ends the turn if it is over, and deals the next one.
    pub(super) fn deal(&mut self, now: u64, contenders: &mut [Contender]) -> Deal {
        let had_one = self.holder.is_some();
        if let Some(holder) = self.holder {
            let place = contenders
                .iter_mut()
                .find(|one| one.container == holder.container);
            if let Some(place) = place {
                // A clock that goes backwards is not one; but nothing here depends on it.
                if place.wants && now < holder.until && now >= holder.since {
                    return Deal::Keep;
                }
                place.account.pay(now.saturating_sub(holder.since));
            }
            self.holder = None;
        }
        for contender in contenders.iter_mut().filter(|one| !one.wants) {
            // Who has nothing to do saves nothing up; what it owes, it owes.
            contender.account.deficit = contender.account.deficit.min(0);
        }
        replenish(contenders);
        let next = contenders
            .iter_mut()
            .filter(|one| one.wants && one.account.deficit > 0)
            .min_by_key(|one| (std::cmp::Reverse(one.priority), one.account.last));
        let Some(next) = next else {
            return if had_one { Deal::Open } else { Deal::Keep };
        };
        self.number += 1;
        next.account.last = self.number;
        let lease = next.account.deficit.unsigned_abs();
        let until = now.saturating_add(lease.clamp(SHORTEST, LONGEST));
        self.holder = Some(Holder {
            container: next.container,
            since: now,
            until,
        });
        Deal::Turn {
            index: next.index,
            number: self.number,
            until,
        }
    }
}

impl Account {
    fn pay(&mut self, lasted: u64) {
        let lasted = i64::try_from(lasted).unwrap_or(i64::MAX);
        self.deficit = self.deficit.saturating_sub(lasted).max(-DEEPEST);
    }
}

/// Begins new rounds until somebody who wants the device is owed time: all at once, however many that takes.
fn replenish(contenders: &mut [Contender]) {
    let wanting = || contenders.iter().filter(|one| one.wants);
    let own: u64 = wanting().map(|one| u64::from(one.own.max(1))).sum();
    let count = u64::try_from(wanting().count()).unwrap_or(u64::MAX);
    let quantum = |one: &Contender| {
        let part = (TURN * count).saturating_mul(u64::from(one.own.max(1))) / own.max(1);
        i64::try_from(part.max(1)).unwrap_or(i64::MAX)
    };
    let rounds = wanting()
        .map(|one| (1 - one.account.deficit).max(0).unsigned_abs())
        .zip(wanting().map(|one| quantum(one).unsigned_abs()))
        .map(|(lacks, quantum)| lacks.div_ceil(quantum))
        .min()
        .unwrap_or(0);
    let rounds = i64::try_from(rounds).unwrap_or(i64::MAX);
    if rounds == 0 {
        return;
    }
    for one in contenders.iter_mut().filter(|one| one.wants) {
        let quantum = quantum(one);
        let more = quantum.saturating_mul(rounds);
        one.account.deficit = one.account.deficit.saturating_add(more).min(quantum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contenders that want the device all the time; how long each had it within `time`, with turns that end by their lease.
    fn had(
        mut contenders: Vec<Contender>,
        time: u64,
        drains: impl Fn(u64, u64) -> bool,
    ) -> Vec<u64> {
        let mut dealer = Dealer::default();
        let mut had = vec![0; contenders.len()];
        let mut now = 1 << 40;
        let end = now + time;
        let mut since = now;
        while now < end {
            for one in &mut contenders {
                one.wants =
                    dealer.holder() != Some(one.container) || !drains(one.container, now - since);
            }
            if let Deal::Turn { .. } = dealer.deal(now, &mut contenders) {
                since = now;
            }
            let step = dealer.next(now);
            if let Some(holder) = dealer.holder() {
                had[usize::try_from(holder).unwrap()] += step;
            }
            now += step;
        }
        had
    }

    fn contender(container: u64, own: u32) -> Contender {
        Contender {
            index: usize::try_from(container).unwrap(),
            container,
            own,
            priority: 0,
            wants: true,
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
        let first = dealer.deal(1, &mut contenders);
        assert!(matches!(first, Deal::Turn { index: 1, .. }), "{first:?}");
        let had = percent(&had(contenders, 10_000 * MS, |_, _| false));
        assert_eq!(had, [50, 50]);
    }

    #[test]
    fn a_silent_holder_loses_it_with_its_lease_and_a_gone_one_at_once() {
        let mut contenders = vec![contender(0, 500_000), contender(1, 500_000)];
        let mut dealer = Dealer::default();
        let Deal::Turn { index, until, .. } = dealer.deal(1, &mut contenders) else {
            panic!("nobody has it");
        };
        assert_eq!(index, 0);
        assert_eq!(dealer.deal(until - 1, &mut contenders), Deal::Keep);
        assert!(matches!(
            dealer.deal(until, &mut contenders),
            Deal::Turn { index: 1, .. }
        ));
        contenders.remove(1);
        assert!(matches!(
            dealer.deal(until, &mut contenders),
            Deal::Turn { index: 0, .. }
        ));
    }

    #[test]
    fn with_nobody_wanting_it_is_open_and_said_once() {
        let mut contenders = vec![contender(0, 500_000), contender(1, 500_000)];
        let mut dealer = Dealer::default();
        dealer.deal(1, &mut contenders);
        for one in &mut contenders {
            one.wants = false;
        }
        assert_eq!(dealer.deal(2, &mut contenders), Deal::Open);
        assert_eq!(dealer.deal(3, &mut contenders), Deal::Keep);
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
}
