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

mod beside;
mod rounds;
#[cfg(test)]
mod tests;

use super::MS;
pub(super) use rounds::{Account, Contender};
use rounds::{find, longest, note, outdone, pay_up_to, pick};

/// No lease is shorter, whatever is owed: a hand-over must cost little against it.
const SHORTEST: u64 = MS;
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
    /// Since when it has had work there: the others' work ran beside its own from then on.
    pub(super) began: u64,
    /// For so long it shares the device with work of another's: what it has booked takes longer by as much.
    beside: u64,
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
        note(now, contenders);
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
            self.give_beside(index, before.min(now), now, contenders);
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

    /// Several want the device.
    fn go_round(&mut self, now: u64, contenders: &mut [Contender]) {
        let mut since = now;
        if let Some(holder) = self.holder
            && let Some(place) = find(contenders, holder.container)
        {
            let outdone = outdone(contenders, place);
            if holder.how == How::Dealt && holder.goes_on(now, place) && !outdone {
                self.look = self.look.min(holder.until.saturating_sub(LEAD));
                return;
            }
            let ends_at = holder.ends_at(now, place);
            // Whoever is next, this is what the turn will have cost.
            let mut then = contenders.to_vec();
            if holder.how != How::Alone {
                pay_up_to(&mut then, holder.container, holder.paid, ends_at);
            }
            let next = pick(now, &mut then);
            let same = next
                .and_then(|next| then.get(next))
                .is_some_and(|next| next.container == holder.container);
            if same && holder.how == How::Dealt && holder.paid == ends_at && holder.until > ends_at
            {
                // It has that turn already.
                self.look = self.look.min(ends_at.saturating_sub(LEAD));
                return;
            }
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
                pay_up_to(contenders, holder.container, holder.paid, since);
            }
        }
        self.holder = None;
        if let Some(index) = pick(now, contenders) {
            self.give(index, contenders, since, since);
        }
    }

    fn pay_for_turn(&self, now: u64, contenders: &mut [Contender]) {
        if let Some(holder) = self.holder.filter(|holder| holder.how != How::Alone) {
            pay_up_to(contenders, holder.container, holder.paid, now);
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
        let until = paid.saturating_add(lease.clamp(SHORTEST, longest(self.looked, next)));
        self.holder = Some(Holder {
            container: next.container,
            since,
            began: since,
            beside: 0,
            until,
            paid,
            how: How::Dealt,
        });
        self.look = self.look.min(until.saturating_sub(LEAD));
    }
}

impl Holder {
    /// When its work in flight will have ended; `place`: what it says.
    fn ends_at(&self, now: u64, place: &Contender) -> u64 {
        if place.ends_at > now {
            place.ends_at.saturating_add(self.beside)
        } else {
            now
        }
    }

    /// Whether it has more to start in its turn; `place`: what it says.
    fn goes_on(&self, now: u64, place: &Contender) -> bool {
        let begins = now < self.since.saturating_add(BEGINNING);
        place.wants && (!place.full || begins) && now.saturating_add(EARLY) < self.until
    }
}
