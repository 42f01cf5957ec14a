//! One alone wants the device, and another comes beside it.

use super::rounds::{find, forgive};
use super::{Contender, Dealer, Holder, How, LONGEST};
use crate::sharing::MS;

/// One that has the device alone while another only pauses has turns of this length, again and again.
const WHILE_ONE_PAUSES: u64 = 2 * MS;

impl Dealer {
    /// Who has come beside one that had the device alone, and has work in flight: the turn is its own from the beginning, and not
    /// only after what the other is owed.
    pub(super) fn came_beside(&self, now: u64, contenders: &[Contender]) -> Option<usize> {
        let alone = self.holder.filter(|holder| holder.how == How::Alone)?;
        find(contenders, alone.container).filter(|holder| holder.wants)?;
        contenders
            .iter()
            .enumerate()
            .filter(|(_, one)| one.account.free && one.wants && one.ends_at > now)
            .max_by_key(|(_, one)| (one.priority, one.ends_at))
            .map(|(index, _)| index)
    }

    /// Gives the turn to who has come beside the holder, and has started its work since `before`. Until the one or the other has ended
    /// each has half of the device, and pays for that.
    pub(super) fn give_beside(
        &mut self,
        index: usize,
        before: u64,
        now: u64,
        contenders: &mut [Contender],
    ) {
        let left = |one: &Contender| one.ends_at.clamp(now, now.saturating_add(LONGEST)) - now;
        let other = self.holder.map(|holder| holder.container);
        let mut both = contenders.get(index).map_or(0, left);
        if let Some(other) =
            other.and_then(|other| contenders.iter_mut().find(|one| one.container == other))
        {
            both = both.min(left(other));
            other.account.pay(both);
        }
        self.give(
            index,
            contenders,
            before.saturating_add(2 * both),
            before.saturating_add(both),
        );
        if let Some(holder) = self.holder.as_mut() {
            holder.began = before;
            holder.beside = both;
        }
    }

    /// One alone wants the device, and has it for as long as that is so. Who owes nothing may come beside it at any time; who does
    /// waits for a turn, and owes the less the longer the one goes on; and so does who has a limit, or comes beside one who has.
    pub(super) fn leave_alone(
        &mut self,
        now: u64,
        looked: u64,
        index: usize,
        contenders: &mut [Contender],
    ) {
        let Some(one) = contenders.get(index).copied() else {
            return;
        };
        // What it has in flight when somebody comes back from a pause runs beside that one's work.
        let returns = |other: &Contender| {
            other.container != one.container && other.takes_part(now) && other.account.deficit >= 0
        };
        let lease = if contenders.iter().any(returns) {
            WHILE_ONE_PAUSES
        } else {
            LONGEST
        };
        let until = now.saturating_add(lease);
        let before = self
            .holder
            .filter(|holder| holder.container == one.container);
        let holder = match before {
            Some(holder) if holder.how == How::Alone => {
                forgive(contenders, &one, now.saturating_sub(holder.paid));
                let until = if holder.until < now.saturating_add(lease / 2) {
                    until
                } else {
                    holder.until.min(until)
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
                // With nobody before it, it has begun since the last look.
                let since = match (before, self.holder) {
                    (Some(holder), _) => holder.since,
                    (None, Some(_)) => now,
                    (None, None) => looked,
                };
                Holder {
                    container: one.container,
                    since,
                    began: since,
                    beside: 0,
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
}
