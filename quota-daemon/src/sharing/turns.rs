//! Turns: while several containers want a device, one at a time starts work on it.
//!
//! Dealt by deficit round robin over the time that turns last, which no container can misreport: while a container has its turn
//! the device is its own, so it pays for all of it. What the holder starts ends with its lease, as far as it can tell; the next turn is dealt
//! just before, so that the device is not idle while a process wakes up. A turn ends early when its holder has nothing in flight and
//! nothing waiting, and late when something runs on; for that the others wait, up to a bound, and the holder pays.
//! Who is owed time and has the highest priority is next; of equals, who has not had a turn for longest.
//!
//! With turns and no daemon, launches would wait for a turn that nobody deals: a turn holds only while the row's
//! `active_until` lies ahead, which the daemon renews, and a row of an idle container says that turns are off.

use super::MS;

/// How long a turn is on average.
const TURN: u64 = 10 * MS;
/// No lease is shorter, whatever is owed: a hand-over must cost little against it.
const SHORTEST: u64 = MS;
/// So much has to be owed for a turn.
const WORTH: i64 = SHORTEST.cast_signed();
/// Nor longer: the others wait for its end.
const LONGEST: u64 = 20 * MS;
/// For so long beyond its lease the others wait for work of the holder that has not ended. A longer kernel shares the device
/// with theirs from then on.
const OVERRUN: u64 = 250 * MS;
/// How long before the end of a turn the daemon wakes up to deal the next one: what it takes until it is awake itself, and then a process
/// that waits.
const LEAD: u64 = 130_000;
/// The next turn is dealt rather so much too early than later: the device is shared for that long, and not idle.
const EARLY: u64 = 200_000;
/// While turns are dealt, whether the holder has finished is looked at so often.
pub(super) const LOOK: u64 = MS;
/// And no more often.
const SHORT_LOOK: u64 = MS / 20;
/// What a holder said of its last turn is not taken for this one's before so long after it began.
const BEGINNING: u64 = MS / 2;
/// Nobody owes more than this: a turn that ends late (a stopped daemon) costs its holder no more.
const DEEPEST: i64 = 8 * OVERRUN.cast_signed();

/// What may be left of a turn for the next one beyond what that gives: a kernel that did not fit waits for it.
const CARRIED: i64 = LONGEST.cast_signed();

/// One who takes turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    /// Its place among the members of the device.
    pub(super) index: usize,
    /// Its container.
    pub(super) container: u64,
    /// What its turns are in proportion to, ppm.
    pub(super) part: u32,
    /// Higher goes first within a round.
    pub(super) priority: i32,
    /// Whether it has work in flight or waiting, or had until just now.
    pub(super) wants: bool,
    /// When its work in flight will have ended, as it says.
    pub(super) ends_at: u64,
    /// Whether what it has to start next does not fit into its turn.
    pub(super) full: bool,
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
    /// Nobody has to wait for anybody: anybody may start.
    Open,
    /// A turn of the contender with this index, and what it starts has to end by `until`.
    Turn {
        index: usize,
        number: u64,
        since: u64,
        until: u64,
    },
}

/// Deals the turns of one device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dealer {
    number: u64,
    holder: Option<Holder>,
    /// When to look again.
    look: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    container: u64,
    /// Since when the device is its own.
    since: u64,
    /// Up to when it has paid for that.
    paid: u64,
    until: u64,
    /// Its lease was cut short for one of higher priority.
    cut: bool,
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

    /// Whose turn it is, and since when.
    pub(super) fn holder(&self) -> Option<(u64, u64)> {
        self.holder.map(|holder| (holder.container, holder.since))
    }

    /// How long until the next look.
    pub(super) fn next(&self, now: u64) -> u64 {
        self.look.saturating_sub(now).clamp(SHORT_LOOK, LOOK)
    }

    /// Ends the turn if it is over, and deals the next one.
    pub(super) fn deal(&mut self, now: u64, contenders: &mut [Contender]) -> Deal {
        self.look = now.saturating_add(LOOK);
        let before = self.holder;
        /*TRACE*/
        if std::env::var_os("TRACE").is_some() {
            eprint!(
                "{:9.3} {:?}",
                (now % 100_000_000_000) as f64 / 1e6,
                self.holder.map(|h| (
                    h.container,
                    (h.since as i64 - now as i64) / 1000,
                    (h.paid as i64 - now as i64) / 1000,
                    (h.until as i64 - now as i64) / 1000
                ))
            );
            for c in contenders.iter() {
                eprint!(
                    " | {} {}{} ends {} def {}",
                    c.container,
                    if c.wants { "wants" } else { "-" },
                    if c.full { " full" } else { "" },
                    (c.ends_at as i64 - now as i64) / 1000,
                    c.account.deficit / 1000
                );
            }
            eprintln!();
        } /*END*/
        let mut since = now;
        // A clock that goes backwards is not one; but nothing here depends on it.
        if let Some(holder) = before.filter(|holder| holder.since <= now.saturating_add(LONGEST)) {
            let mut after = None;
            if let Some(place) = find(contenders, holder.container) {
                if place.goes_on(now, &holder)
                    && wanting(contenders) > 1
                    && !outdone(contenders, &holder)
                {
                    self.look = self.look.min(holder.until.saturating_sub(LEAD));
                    return Deal::Keep;
                }
                after = Some(place.ends_at.max(now));
            }
            if let Some(ends_at) = after {
                // Whoever is next, this is what the turn will have cost.
                let mut then: Vec<Contender> = contenders.to_vec();
                if let Some(place) = then
                    .iter_mut()
                    .find(|one| one.container == holder.container)
                {
                    place.account.pay(ends_at.saturating_sub(holder.paid));
                }
                let next = pick(&mut then);
                let same = next.is_some_and(|next| {
                    then.get(next)
                        .is_some_and(|one| one.container == holder.container)
                });
                let ends = ends_at <= now.saturating_add(EARLY)
                    || now >= holder.until.saturating_add(OVERRUN);
                if next.is_some() && !same && !ends && !outdone(contenders, &holder) {
                    self.look = self.look.min(ends_at.saturating_sub(LEAD));
                    return self.cut(now, holder, contenders);
                }
                if same {
                    contenders.copy_from_slice(&then);
                    if let Some(index) = next {
                        return self.give(index, contenders, holder.since, ends_at);
                    }
                }
                since = ends_at.min(now.saturating_add(EARLY));
                if let Some(place) = contenders
                    .iter_mut()
                    .find(|one| one.container == holder.container)
                {
                    place.account.pay(since.saturating_sub(holder.paid));
                }
            }
        }
        self.holder = None;
        match pick(contenders) {
            Some(index) => self.give(index, contenders, since, since),
            None if before.is_some() => Deal::Open,
            None => Deal::Keep,
        }
    }

    /// Gives the turn to a contender: the device is its own since `since`, and it pays from `paid` on.
    fn give(&mut self, index: usize, contenders: &mut [Contender], since: u64, paid: u64) -> Deal {
        let Some(next) = contenders.get_mut(index) else {
            return Deal::Keep;
        };
        self.number += 1;
        next.account.last = self.number;
        let lease = next.account.deficit.max(0).unsigned_abs();
        let until = paid.saturating_add(lease.clamp(SHORTEST, LONGEST));
        let holder = Holder {
            container: next.container,
            since,
            paid,
            until,
            cut: false,
        };
        self.holder = Some(holder);
        self.look = self.look.min(until.saturating_sub(LEAD));
        self.turn(next.index, holder)
    }

    /// The holder starts nothing more, and keeps the turn until what it has started has run.
    fn cut(&mut self, now: u64, holder: Holder, contenders: &[Contender]) -> Deal {
        if holder.cut || holder.until <= now.saturating_add(EARLY) {
            return Deal::Keep;
        }
        let Some(place) = find(contenders, holder.container) else {
            return Deal::Keep;
        };
        let cut = Holder {
            until: now,
            cut: true,
            ..holder
        };
        self.holder = Some(cut);
        self.turn(place.index, cut)
    }

    fn turn(&self, index: usize, holder: Holder) -> Deal {
        Deal::Turn {
            index,
            number: self.number,
            since: holder.since,
            until: holder.until,
        }
    }
}

fn find(contenders: &[Contender], container: u64) -> Option<&Contender> {
    contenders.iter().find(|one| one.container == container)
}

fn wanting(contenders: &[Contender]) -> usize {
    contenders.iter().filter(|one| one.wants).count()
}

/// Whether somebody of higher priority waits: it comes beside what is in flight, which the device's own time slices see to.
fn outdone(contenders: &[Contender], holder: &Holder) -> bool {
    let priority = find(contenders, holder.container).map(|one| one.priority);
    contenders
        .iter()
        .any(|one| one.wants && Some(one.priority) > priority)
}

impl Contender {
    /// Whether it has more to start in its turn.
    fn goes_on(&self, now: u64, holder: &Holder) -> bool {
        let begins = now < holder.since.saturating_add(BEGINNING);
        self.wants && (!self.full || begins) && now.saturating_add(EARLY) < holder.until
    }
}

/// Whose turn is next; `None` where nobody has to wait for anybody.
fn pick(contenders: &mut [Contender]) -> Option<usize> {
    for contender in contenders.iter_mut().filter(|one| !one.wants) {
        // Who has nothing to do saves nothing up; what it owes, it owes.
        contender.account.deficit = contender.account.deficit.min(0);
    }
    if wanting(contenders) < 2 {
        return None;
    }
    replenish(contenders);
    contenders
        .iter()
        .enumerate()
        .filter(|(_, one)| one.wants && one.account.deficit >= WORTH)
        .min_by_key(|(_, one)| (std::cmp::Reverse(one.priority), one.account.last))
        .map(|(index, _)| index)
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
    let parts: u64 = wanting().map(|one| u64::from(one.part.max(1))).sum();
    let count = u64::try_from(wanting().count()).unwrap_or(u64::MAX);
    let quantum = |one: &Contender| {
        let part = (TURN * count).saturating_mul(u64::from(one.part.max(1))) / parts.max(1);
        i64::try_from(part.max(1)).unwrap_or(i64::MAX)
    };
    let rounds = wanting()
        .map(|one| (WORTH - one.account.deficit).max(0).unsigned_abs())
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
        one.account.deficit = one
            .account
            .deficit
            .saturating_add(more)
            .min(quantum.saturating_add(CARRIED).max(WORTH));
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
                one.wants = dealer
                    .holder()
                    .is_none_or(|(holder, _)| holder != one.container)
                    || !drains(one.container, now - since);
            }
            if let Deal::Turn { .. } = dealer.deal(now, &mut contenders) {
                since = now;
            }
            let step = dealer.next(now);
            if let Some((holder, _)) = dealer.holder() {
                had[usize::try_from(holder).unwrap()] += step;
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
            priority: 0,
            wants: true,
            ends_at: 0,
            full: false,
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
        assert_eq!(dealer.deal(until - LEAD - 1, &mut contenders), Deal::Keep);
        assert!(matches!(
            dealer.deal(until, &mut contenders),
            Deal::Turn { index: 1, .. }
        ));
        // Alone it has nobody to wait for.
        contenders.remove(1);
        assert_eq!(dealer.deal(until, &mut contenders), Deal::Open);
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
