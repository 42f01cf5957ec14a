//! Deficit round robin: what each container is owed of the device's time, and who is next.

use super::{LONGEST, OVERRUN, SHORTEST};
use crate::sharing::MS;

/// How long a turn is on average.
const TURN: u64 = 10 * MS;
/// Turns are so many times as long where the end of somebody's turns is seen and not reckoned: the device is idle until it is seen.
const LONGER: u64 = 4;
/// Who pauses for no longer than this keeps what it is owed, and is owed its part of the rounds meanwhile: a program that waits for the end of each
/// of its steps has its share too, in more and shorter turns.
const PAUSE: u64 = 20 * MS;
/// Whose estimates were of no use is taken to be so for this long.
const REMEMBERED: u64 = 500 * MS;
/// So much has to be owed for a turn.
const WORTH: i64 = SHORTEST.cast_signed();
/// What may be left of a turn for the next one beyond what that gives: a kernel that did not fit waits for it.
const CARRIED: i64 = LONGEST.cast_signed();
/// Nobody owes more than this: a turn that ends late (a stopped daemon) costs its holder no more.
pub(super) const DEEPEST: i64 = 8 * OVERRUN.cast_signed();

/// One who takes turns.
#[derive(Clone, Copy, Debug)]
pub(in crate::sharing) struct Contender {
    /// Its place among the members of the device.
    pub(in crate::sharing) index: usize,
    /// Its container.
    pub(in crate::sharing) container: u64,
    /// What its turns are in proportion to, ppm.
    pub(in crate::sharing) part: u32,
    /// Whether it has a limit of its own, besides its turns: what it uses has to be measured, in turns that are nobody else's.
    pub(in crate::sharing) limited: bool,
    /// Higher goes first within a round.
    pub(in crate::sharing) priority: i32,
    /// Whether it has work in flight or waiting, or had until just now.
    pub(in crate::sharing) wants: bool,
    /// When its work in flight will have ended, as it says.
    pub(in crate::sharing) ends_at: u64,
    /// Whether what it has to start next does not fit into its turn.
    pub(in crate::sharing) full: bool,
    /// Whether its estimates tell little of when something ends.
    pub(in crate::sharing) unsure: bool,
    /// GPU time that it used since the last step, by its own account, ns.
    pub(in crate::sharing) used: u64,
    /// What it is owed.
    pub(in crate::sharing) account: Account,
}

/// What a contender is owed, kept from step to step.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sharing) struct Account {
    /// Nanoseconds of turn; negative: owes.
    pub(in crate::sharing) deficit: i64,
    /// Number of its last turn.
    pub(in crate::sharing) last: u64,
    /// Until when its turns are long, because their ends have to be waited for.
    pub(in crate::sharing) unsure_until: u64,
    /// When it last wanted the device.
    pub(in crate::sharing) wanted_at: u64,
    /// It may start without a turn: it owes nothing, and nobody but the holder wants the device.
    pub(in crate::sharing) free: bool,
}

pub(super) fn find(contenders: &[Contender], container: u64) -> Option<&Contender> {
    contenders.iter().find(|one| one.container == container)
}

/// Whether somebody of higher priority waits: it comes beside what is in flight, which the device's own time slices see to.
pub(super) fn outdone(contenders: &[Contender], holder: &Contender) -> bool {
    contenders
        .iter()
        .any(|one| one.wants && one.priority > holder.priority && one.account.deficit > 0)
}

/// A container that has paid up to one time pays up to another; if that is earlier, what it started turned out shorter, and it has the
/// rest back.
pub(super) fn pay_up_to(contenders: &mut [Contender], container: u64, paid: u64, until: u64) {
    let mut places = contenders.iter_mut();
    if let Some(place) = places.find(|one| one.container == container) {
        place.account.pay(until.saturating_sub(paid));
        let back = i64::try_from(paid.saturating_sub(until)).unwrap_or(i64::MAX);
        place.account.deficit = place.account.deficit.saturating_add(back);
    }
}

/// What the others owe becomes less while one alone uses the device for `lasted`, as in the rounds that it would take.
pub(super) fn forgive(contenders: &mut [Contender], one: &Contender, lasted: u64) {
    let others = contenders.iter_mut();
    for other in
        others.filter(|other| other.container != one.container && other.account.deficit < 0)
    {
        let part = u128::from(lasted) * u128::from(other.part.max(1)) / u128::from(one.part.max(1));
        let part = i64::try_from(part).unwrap_or(i64::MAX);
        other.account.deficit = other.account.deficit.saturating_add(part).min(0);
    }
}

/// Whose turn is next, of several who want the device.
pub(super) fn pick(now: u64, contenders: &mut [Contender]) -> Option<usize> {
    for contender in contenders.iter_mut().filter(|one| !one.takes_part(now)) {
        // Who has nothing to do saves nothing up; what it owes, it owes.
        contender.account.deficit = contender.account.deficit.min(0);
    }
    replenish(now, contenders);
    contenders
        .iter()
        .enumerate()
        .filter(|(_, one)| one.wants && one.account.deficit >= WORTH)
        .min_by_key(|(_, one)| (std::cmp::Reverse(one.priority), one.account.last))
        .map(|(index, _)| index)
}

/// Takes note of who wants the device, and of whose estimates are of no use.
pub(super) fn note(now: u64, contenders: &mut [Contender]) {
    for one in contenders.iter_mut() {
        if one.wants {
            one.account.wanted_at = now;
        }
        if one.unsure {
            one.account.unsure_until = now.saturating_add(REMEMBERED);
        }
    }
}

impl Contender {
    /// Whether rounds are for it too: it wants the device, or did a moment ago.
    pub(super) fn takes_part(&self, now: u64) -> bool {
        self.wants
            || self.account.wanted_at != 0 && now.saturating_sub(self.account.wanted_at) < PAUSE
    }
}

/// The longest turn of a contender, ns.
pub(super) fn longest(now: u64, one: &Contender) -> u64 {
    if one.account.unsure_until > now {
        LONGEST * LONGER
    } else {
        LONGEST
    }
}

impl Account {
    pub(super) fn pay(&mut self, lasted: u64) {
        let lasted = i64::try_from(lasted).unwrap_or(i64::MAX);
        self.deficit = self.deficit.saturating_sub(lasted).max(-DEEPEST);
    }
}

/// Begins new rounds until somebody who wants the device is owed time: all at once, however many that takes.
fn replenish(now: u64, contenders: &mut [Contender]) {
    let wanting = || contenders.iter().filter(|one| one.wants);
    let taking = || contenders.iter().filter(|one| one.takes_part(now));
    let parts: u64 = taking().map(|one| u64::from(one.part.max(1))).sum();
    let count = u64::try_from(taking().count()).unwrap_or(u64::MAX);
    let longer = taking().any(|one| one.account.unsure_until > now);
    let turn = if longer { TURN * LONGER } else { TURN };
    let quantum = |one: &Contender| {
        let part = (turn * count).saturating_mul(u64::from(one.part.max(1))) / parts.max(1);
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
    for one in contenders.iter_mut().filter(|one| one.takes_part(now)) {
        let quantum = quantum(one);
        let more = quantum.saturating_mul(rounds);
        one.account.deficit = one
            .account
            .deficit
            .saturating_add(more)
            .min(quantum.saturating_add(CARRIED).max(WORTH));
    }
}
