//! Where a launch waits for its container's turn, where the daemon deals turns.
//!
//! While it has the turn, a container books the device ahead: what it starts has to end with the turn, by its estimates, all its
//! processes together ([`Bucket::book`]). So the daemon can read off one word when the device will be done, and deals the next turn just
//! before. A launch that is longer than a turn finds the device empty, goes ahead, and the daemon waits for its end.
//!
//! As at the gate, work in flight may be waiting for this very launch: while there is any, no wait is longer than the gate's, nor goes on
//! when work seems to wait for it. With nothing in flight nothing can depend on the launch, and it waits for as long as others
//! take their turns.

use quota_abi::bucket::Bucket;
use quota_abi::sync::Ordering::Acquire;

use crate::engine::Engine;
use crate::gate::{Held, LONGEST_ROW, Place};
use crate::gpu::Gpu;
use crate::terms::{Account, Doing, Whose};
use crate::thread::Thread;
use crate::waits::Wait;

/// How far ahead processes of one container book a device that nobody else wants, all together, ns. So each has work in flight for a
/// while and what is longer than that runs alone, is measured alone, and is not eight times in the way of whoever comes.
const AHEAD: u64 = 20_000_000;
/// The longest wait for a turn with nothing in flight, ns: a daemon that lives deals it sooner, unless somebody's kernel is longer than that.
const LONGEST_TURN: u64 = 30_000_000_000;
/// The shortest sleep of a launch that looks for the end of what is in flight, ns.
const NAP: u64 = 50_000;
/// How far ahead what is overdue is said to go on, ns: the daemon must hear of it before it deals the next turn.
const BEYOND: u64 = 350_000;
/// It is seen to have ended so much later than it has, ns, or the estimate is off by as much: nothing goes on yet.
const LATE: u64 = 150_000;
/// How often it looks while the turn is to end, ns.
const SOON: u64 = 250_000;
/// And the longest.
const LONGEST_NAP: u64 = 1_000_000;
/// A container whose launches wait is heard of so often, ns, however long others have the device.
const SIGN_OF_LIFE: u64 = 100_000_000;

/// What was booked for a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Booked {
    /// GPU time, ns.
    pub(crate) amount: i64,
    /// Whether the launch had to wait for it.
    pub(crate) waited: bool,
}

impl Account {
    /// Books the device, if it is the container's turn and there is room in it.
    fn book(self, now: u64, least: i64, most: i64) -> Option<i64> {
        let until = match self.whose(now) {
            Whose::Anybodys if self.rate.is_whole() && self.terms.siblings_want() => {
                now.saturating_add(AHEAD)
            }
            Whose::Anybodys => u64::MAX,
            Whose::Ours { until, .. } if until > now => until,
            Whose::Ours { .. } | Whose::Others { .. } => return None,
        };
        self.bucket.book(now, least, most, until)
    }
}

impl Engine {
    /// Books the device for a launch: `least`, or up to `most` ns. Waits until it is the container's turn, for a while.
    pub(crate) fn await_turn(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        place: Place<'_>,
        held: Held,
        (least, most): (i64, i64),
    ) -> Booked {
        let begin = gpu.now();
        let Place {
            account, device, ..
        } = place;
        if let Some(amount) = account.book(begin, least, most) {
            return Booked {
                amount,
                waited: false,
            };
        }
        self.close_all(gpu, thread, held.stream);
        self.settle_all(gpu, place, begin);
        let level = account.bucket.level();
        let word = account.wake_word();
        let mut now = begin;
        let (amount, forced) = loop {
            // SYNC POINT with the daemon, which changes the turn before it raises the word.
            let seen = word.load(Acquire);
            if let Some(amount) = account.book(now, least, most) {
                break (amount, false);
            }
            let flying = !device.flight.is_empty();
            let patience = if flying {
                self.longest_wait(place.index, held)
            } else {
                LONGEST_TURN
            };
            let relief = self.relief(place, held, 0, LONGEST_ROW, begin);
            let deadline = relief.min(begin + patience);
            if now >= deadline {
                if now >= relief {
                    device.flight.relieve();
                }
                break (force(account.bucket, now, least), true);
            }
            account
                .terms
                .say(if flying { Doing::Works } else { Doing::Waits });
            self.ring(gpu, account, now);
            if !flying {
                account.bucket.is_over();
                if self.forgets_bookings(place, now) {
                    continue;
                }
            }
            let until = match account.whose(now) {
                _ if flying => self.look_for_the_end(place, now),
                // Until half of what is booked has run.
                Whose::Anybodys => now + account.bucket.ends_at(now).saturating_sub(now) / 2 + NAP,
                Whose::Ours { .. } | Whose::Others { .. } => deadline,
            };
            self.end_turn(gpu, place, now);
            // A daemon that dies deals no more, and says no more that it lives.
            let alive = account.dealt_until().min(now + SIGN_OF_LIFE).max(now + NAP);
            gpu.sleep_until(until.min(deadline).min(alive), word, seen);
            now = gpu.now();
            if now >= account.bucket.refilled_at().saturating_add(SIGN_OF_LIFE) {
                // The daemon takes whom it has not heard of for an idle one, and turns would end.
                account.refill_after_others(now);
            }
            self.settle_all(gpu, place, now);
        };
        account.terms.say(Doing::Works);
        account.refill_after_others(now);
        place.count_wait(Wait {
            waited: now - begin,
            now,
            price: least,
            level,
            forced,
        });
        Booked {
            amount,
            waited: true,
        }
    }

    /// A launch that was booked in the container's turn, and has waited for room since: it starts in the next one if that is over.
    pub(crate) fn regain_turn(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        place: Place<'_>,
        held: Held,
        price: i64,
    ) {
        if let Whose::Others { .. } = place.account.whose(gpu.now()) {
            place.account.bucket.rebook(-price);
            self.await_turn(gpu, thread, place, held, (price, price));
        }
    }

    /// When to look again whether what is in flight has ended: at the end of the oldest by its estimate, and sooner while the
    /// container's turn is to end with it. What is longer is said to go on, so that the next turn is not dealt meanwhile; and
    /// where estimates often miss, until it is seen to have ended.
    pub(crate) fn look_for_the_end(&self, place: Place<'_>, now: u64) -> u64 {
        let Place {
            account, device, ..
        } = place;
        let head = device.flight.head_ends_at();
        let late = now.saturating_sub(head);
        // The longer it goes on beyond its time, the longer it may.
        let nap = (late / 16).clamp(NAP, LONGEST_NAP);
        if !matches!(account.whose(now), Whose::Ours { .. }) {
            return head.max(now + nap);
        }
        let sure = device.is_sure();
        let look = match head.checked_sub(now) {
            Some(left) if sure => now + left.clamp(NAP, SOON),
            Some(left) => now + (left / 2).clamp(2 * NAP, SOON),
            None => now + nap,
        };
        if (late > LATE || !sure) && !device.flight.is_stuck(now) {
            account.bucket.goes_on(look + BEYOND, sure);
        }
        look
    }

    /// Tells the daemon that what the container has to launch does not fit into the rest of its turn: the next one may begin when what
    /// is booked has run.
    pub(crate) fn end_turn(&self, gpu: &impl Gpu, place: Place<'_>, now: u64) {
        let Place {
            account, device, ..
        } = place;
        if let Whose::Ours { since, .. } = account.whose(now) {
            let over = device.flight.is_empty();
            let news = account.bucket.say_full() || over;
            if news && device.is_to_tell(since, over, now) {
                gpu.ring(account.terms.bell_word());
            }
        }
    }

    /// Whether something is booked although no process of the container has anything in flight: for work that was shorter, or of the
    /// dead. It is forgotten.
    fn forgets_bookings(&self, place: Place<'_>, now: u64) -> bool {
        let account = place.account;
        let may_book = match account.whose(now) {
            Whose::Anybodys => true,
            Whose::Ours { until, .. } => until > now,
            Whose::Others { .. } => false,
        };
        may_book
            && account.bucket.ends_at(now) > now + BEYOND
            && !account.terms.somebody_works()
            && account.bucket.forget_bookings()
    }
}

/// Books what goes ahead out of turn.
pub(crate) fn force(bucket: &Bucket, now: u64, least: i64) -> i64 {
    bucket.book(now, least, least, u64::MAX).unwrap_or(least)
}
