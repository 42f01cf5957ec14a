//! Turns: while several containers want a device, one at a time starts work on it.
//!
//! Dealt by deficit round robin over the time that turns last, which no container can misreport: while a container has its turn
//! the device is its own, so it pays for all of it; for what it used beside another that had the device alone it pays by its own account. What the holder starts ends with its lease, as far as it can tell; the next turn is dealt
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
    /// Whether it has a limit of its own, besides its turns: what it uses has to be measured, in turns that are nobody else's.
    pub(super) limited: bool,
    /// Higher goes first within a round.
    pub(super) priority: i32,
    /// Whether it has work in flight or waiting, or had until just now.
    pub(super) wants: bool,
    /// When its work in flight will have ended, as it says.
    pub(super) ends_at: u64,
    /// Whether what it has to start next does not fit into its turn.
    pub(super) full: bool,
    /// GPU time that it used since the last step, by its own account, ns.
    pub(super) used: u64,
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
    /// It may start without a turn: it owes nothing, and nobody but the holder wants the device.
    pub(super) free: bool,
}

/// Deals the turns of one device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dealer {
    number: u64,
    holder: Option<Holder>,
    /// When to look again.
    look: u64,
    /// When it was last looked.
    looked: u64,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) container: u64,
    /// Since when the device is its own.
    pub(super) since: u64,
    /// What it starts has to end by then.
    pub(super) until: u64,
    /// Up to when it has paid for that.
    paid: u64,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// For as long as is owed.
    Dealt,
    /// What it has started has still to run.
    Ending,
    /// For as long as nobody else wants it.
    Alone,
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
    pub(super) fn holder(&self) -> Option<Holder> {
        self.holder
    }

    /// How long until the next look.
    pub(super) fn next(&self, now: u64) -> u64 {
        self.look.saturating_sub(now).clamp(SHORT_LOOK, LOOK)
    }

    /// Ends the turn if it is over, and deals the next one.
    pub(super) fn deal(&mut self, now: u64, contenders: &mut [Contender]) {
        self.look = now.saturating_add(LOOK);
        // A clock that goes backwards is not one; but nothing here depends on it.
        if self
            .holder
            .is_some_and(|holder| holder.since > now.saturating_add(LONGEST))
        {
            self.holder = None;
        }
        let before = core::mem::replace(&mut self.looked, now);
        let came = self.came_beside(now, contenders);
        for (index, one) in contenders.iter_mut().enumerate() {
            if one.account.free && came != Some(index) {
                one.account.pay(one.used);
            }
        }
        if let Some(index) = came {
            for one in contenders.iter_mut() {
                one.account.free = false;
            }
            // What it has started it has started since the last look.
            self.give(index, contenders, before.min(now), before.min(now));
            return;
        }
        let mut wanting = contenders.iter().enumerate().filter(|(_, one)| one.wants);
        match (wanting.next().map(|(index, _)| index), wanting.next()) {
            (Some(index), None) => self.leave_alone(now, before.min(now), index, contenders),
            (Some(_), Some(_)) => {
                for one in contenders.iter_mut() {
                    one.account.free = false;
                }
                self.go_round(now, contenders);
            }
            (None, _) => {
                self.pay_for_turn(now, contenders);
                self.holder = None;
                for one in contenders.iter_mut() {
                    one.account.free = true;
                }
            }
        }
    }

    /// Who has come beside one that had the device alone, and has work in flight: the turn is its own from the beginning, and not
    /// only after what the other is owed.
    fn came_beside(&self, now: u64, contenders: &[Contender]) -> Option<usize> {
        let alone = self.holder.filter(|holder| holder.how == How::Alone)?;
        find(contenders, alone.container).filter(|holder| holder.wants)?;
        contenders
            .iter()
            .enumerate()
            .filter(|(_, one)| one.account.free && one.wants && one.ends_at > now)
            .max_by_key(|(_, one)| (one.priority, one.ends_at))
            .map(|(index, _)| index)
    }

    /// One alone wants the device, and has it for as long as that is so. Who owes nothing may come beside it at any time; who does
    /// waits for a turn, and owes the less the longer the one goes on; and so does who has a limit, or comes beside one who has.
    fn leave_alone(&mut self, now: u64, looked: u64, index: usize, contenders: &mut [Contender]) {
        let Some(one) = contenders.get(index).copied() else {
            return;
        };
        let until = now.saturating_add(LONGEST);
        let before = self
            .holder
            .filter(|holder| holder.container == one.container);
        let holder = match before {
            Some(holder) if holder.how == How::Alone => {
                forgive(contenders, &one, now.saturating_sub(holder.paid));
                let until = if holder.until < now.saturating_add(LONGEST / 2) {
                    until
                } else {
                    holder.until
                };
                Holder {
                    until,
                    paid: now,
                    ..holder
                }
            }
            _ => {
                self.pay_for_turn(now, contenders);
                self.number += 1;
                Holder {
                    container: one.container,
                    // With nobody before it, it has begun since the last look.
                    since: match (before, self.holder) {
                        (Some(holder), _) => holder.since,
                        (None, Some(_)) => now,
                        (None, None) => looked,
                    },
                    until,
                    paid: now,
                    how: How::Alone,
                }
            }
        };
        self.holder = Some(holder);
        for other in contenders.iter_mut() {
            other.account.free = other.account.deficit >= 0
                && other.container != one.container
                && !other.limited
                && !one.limited;
        }
    }

    /// Several want the device.
    fn go_round(&mut self, now: u64, contenders: &mut [Contender]) {
        let mut since = now;
        if let Some(holder) = self.holder
            && let Some(place) = find(contenders, holder.container)
        {
            let outdone = outdone(contenders, place);
            if holder.how == How::Dealt && place.goes_on(now, &holder) && !outdone {
                self.look = self.look.min(holder.until.saturating_sub(LEAD));
                return;
            }
            let ends_at = place.ends_at.max(now);
            // Whoever is next, this is what the turn will have cost.
            let mut then = contenders.to_vec();
            if holder.how != How::Alone {
                pay(
                    &mut then,
                    holder.container,
                    ends_at.saturating_sub(holder.paid),
                );
            }
            let next = pick(&mut then);
            let same = next
                .and_then(|next| then.get(next))
                .is_some_and(|next| next.container == holder.container);
            if same && let Some(index) = next {
                contenders.copy_from_slice(&then);
                self.give(index, contenders, holder.since, ends_at);
                return;
            }
            let ends =
                ends_at <= now.saturating_add(EARLY) || now >= holder.until.saturating_add(OVERRUN);
            if !ends && !outdone {
                self.look = self.look.min(ends_at.saturating_sub(LEAD));
                self.holder = Some(Holder {
                    until: holder.until.min(now),
                    how: match holder.how {
                        How::Alone => How::Alone,
                        How::Dealt | How::Ending => How::Ending,
                    },
                    ..holder
                });
                return;
            }
            since = ends_at.min(now.saturating_add(EARLY));
            if holder.how != How::Alone {
                pay(
                    contenders,
                    holder.container,
                    since.saturating_sub(holder.paid),
                );
            }
        }
        self.holder = None;
        if let Some(index) = pick(contenders) {
            self.give(index, contenders, since, since);
        }
    }

    fn pay_for_turn(&self, now: u64, contenders: &mut [Contender]) {
        if let Some(holder) = self.holder.filter(|holder| holder.how != How::Alone) {
            pay(
                contenders,
                holder.container,
                now.saturating_sub(holder.paid),
            );
        }
    }

    /// Gives the turn to a contender: the device is its own since `since`, and it pays from `paid` on.
    fn give(&mut self, index: usize, contenders: &mut [Contender], since: u64, paid: u64) {
        let Some(next) = contenders.get_mut(index) else {
            return;
        };
        self.number += 1;
        next.account.last = self.number;
        let lease = next.account.deficit.max(0).unsigned_abs();
        let until = paid.saturating_add(lease.clamp(SHORTEST, LONGEST));
        self.holder = Some(Holder {
            container: next.container,
            since,
            until,
            paid,
            how: How::Dealt,
        });
        self.look = self.look.min(until.saturating_sub(LEAD));
    }
}

fn find(contenders: &[Contender], container: u64) -> Option<&Contender> {
    contenders.iter().find(|one| one.container == container)
}

/// Whether somebody of higher priority waits: it comes beside what is in flight, which the device's own time slices see to.
fn outdone(contenders: &[Contender], holder: &Contender) -> bool {
    contenders
        .iter()
        .any(|one| one.wants && one.priority > holder.priority && one.account.deficit > 0)
}

fn pay(contenders: &mut [Contender], container: u64, lasted: u64) {
    let mut places = contenders.iter_mut();
    if let Some(place) = places.find(|one| one.container == container) {
        place.account.pay(lasted);
    }
}

/// What the others owe becomes less while one alone uses the device for `lasted`, as in the rounds that it would take.
fn forgive(contenders: &mut [Contender], one: &Contender, lasted: u64) {
    let others = contenders.iter_mut();
    for other in
        others.filter(|other| other.container != one.container && other.account.deficit < 0)
    {
        let part = u128::from(lasted) * u128::from(other.part.max(1)) / u128::from(one.part.max(1));
        let part = i64::try_from(part).unwrap_or(i64::MAX);
        other.account.deficit = other.account.deficit.saturating_add(part).min(0);
    }
}

impl Contender {
    /// Whether it has more to start in its turn.
    fn goes_on(&self, now: u64, holder: &Holder) -> bool {
        let begins = now < holder.since.saturating_add(BEGINNING);
        self.wants && (!self.full || begins) && now.saturating_add(EARLY) < holder.until
    }
}

/// Whose turn is next, of several who want the device.
fn pick(contenders: &mut [Contender]) -> Option<usize> {
    for contender in contenders.iter_mut().filter(|one| !one.wants) {
        // Who has nothing to do saves nothing up; what it owes, it owes.
        contender.account.deficit = contender.account.deficit.min(0);
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
}
