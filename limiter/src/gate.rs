//! Where a launch waits: for GPU time, and for work in flight to become less. By the clock alone.

use quota_abi::sync::Ordering::{Acquire, Relaxed};

use crate::cost::Cost;
use crate::device::{Admission, Device};
use crate::engine::Engine;
use crate::flight::{BOUND, PATIENCE};
use crate::gpu::Gpu;
use crate::shape::{Stream, Work};
use crate::terms::{Account, Doing, Whose};
use crate::thread::Thread;
use crate::turns::{Booked, force};
use crate::waits::Wait;

/// The longest wait of one launch, ns, unless the debt that it found asks for more.
pub(crate) const LONGEST_WAIT: u64 = 100_000_000;
/// The same of one that has nothing ahead of it but work on its own stream, ns: that cannot wait for the launch itself, but only for what the
/// same thread does after it.
pub(crate) const LONGEST_BEHIND: u64 = 400_000_000;
/// The same behind work of its own shape on its own stream, ns: a row of kernels. While the first of them shares the device with
/// others' turns, or is not paid for, more of them must not follow it.
pub(crate) const LONGEST_ROW: u64 = 4_000_000_000;
/// The shortest sleep of the bound on work in flight, ns; each further one is twice as long.
const FIRST_NAP: u64 = 200_000;

/// Where a launch runs.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) index: usize,
    pub(crate) device: &'a Device,
    pub(crate) account: Account,
}

impl Place<'_> {
    /// What work of this kind takes in the group.
    pub(crate) fn typical(&self, work: &Work) -> i64 {
        self.account.bucket.typical(work.kind())
    }
}

/// What is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The key of its stream.
    pub(crate) stream: usize,
    /// Its shape; 0: a transfer.
    pub(crate) shape: u64,
}

impl Held {
    pub(crate) fn work(work: &Work) -> Self {
        Self {
            stream: work.stream.key(),
            shape: work.shape,
        }
    }

    pub(crate) fn transfer(stream: Stream) -> Self {
        Self {
            stream: stream.key(),
            shape: 0,
        }
    }
}

/// Whether there is room for a launch behind what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// At once.
    Was,
    /// After a while.
    Came,
    /// It goes ahead without any: what is in flight may wait for it.
    None,
}

/// How long one launch waits at most.
///
/// While work of this process is in flight, it may be waiting for this very launch, and every moment of waiting
/// adds to its duration. So its estimate counts for nothing here: the launch waits for the debt that was settled
/// when it came, or [`LONGEST_WAIT`]. Once nothing is in flight nothing can depend on the launch, and it waits
/// for all the debt that there is then.
struct Patience {
    deadline: u64,
    flying: bool,
}

impl Patience {
    /// `longest`: while work of this process is in flight.
    fn begin(place: Place<'_>, wait: u64, longest: u64, now: u64) -> Self {
        Self {
            deadline: now.saturating_add(settled(place, wait).max(longest)),
            flying: !place.device.flight.is_empty(),
        }
    }

    fn until(&mut self, place: Place<'_>, wait: u64, now: u64) -> u64 {
        if self.flying && place.device.flight.is_empty() {
            self.flying = false;
            self.deadline = self.deadline.max(now.saturating_add(wait));
        }
        self.deadline
    }
}

/// How much of a wait is for debt that was settled, and not for the estimate of what is in flight.
fn settled(place: Place<'_>, wait: u64) -> u64 {
    let fills_at = place.account.bucket.rate().unwrap_or(place.account.rate);
    wait.saturating_sub(fills_at.time_for(place.device.flight.work()))
}

impl Engine {
    /// What a launch is charged: its cost; more if work of the same shape has been running for longer.
    pub(crate) fn price(&self, place: Place<'_>, work: &Work, cost: Cost, now: u64) -> i64 {
        if !place.device.flight.is_off() {
            return cost.ns;
        }
        // The estimate of something that does not end is wrong. By how much is not known, and work that
        // waits for this launch may be what does not end: so no more than 100 ms of waiting.
        let overdue = self
            .markers
            .pending(place.index)
            .filter(|(_, marker)| marker.shape.load(Relaxed) == work.shape)
            .filter_map(|(_, marker)| marker.at_least(now))
            .max()
            .unwrap_or(0);
        let overdue = i64::try_from(overdue).unwrap_or(i64::MAX);
        cost.ns
            .max(overdue.min(place.account.rate.earned(LONGEST_WAIT)))
    }

    /// Takes GPU time for a launch, and the device; waits until there is some, and it is the container's turn. True if it had to.
    pub(crate) fn take(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        mut place: Place<'_>,
        held: Held,
        price: i64,
    ) -> bool {
        let device = place.device;
        let least = (price - thread.batch.get()).max(0);
        let most = least.max(thread.appetite(place.account.rate.batch()) - thread.batch.get());
        let begin = gpu.now();
        let mut now = begin;
        let mut patience = None;
        let mut wait_of = Wait {
            waited: 0,
            now,
            price,
            level: 0,
            forced: false,
        };
        let granted = loop {
            let word = place.account.wake_word();
            // SYNC POINT with the daemon, which changes a rate before it raises the word.
            let seen = word.load(Acquire);
            match device.account(now) {
                Some(account) => place.account = account,
                // The limit was lifted.
                None => break least,
            }
            let Account { bucket, rate, .. } = place.account;
            let wait = match device.admit(place.account, least, most, patience.is_some(), now) {
                Admission::Granted(amount) => break amount,
                Admission::Wait(wait) => wait,
            };
            if patience.is_none() {
                wait_of.level = bucket.level();
            }
            if place.account.observed {
                wait_of.waited = wait;
                place.count_wait(wait_of);
                // As if it had waited.
                bucket.lift(rate.resume());
                bucket.charge(least);
                break least;
            }
            let patience = patience.get_or_insert_with(|| {
                self.close_all(gpu, thread, held.stream);
                self.settle_all(gpu, place, now);
                Patience::begin(place, wait, self.longest_wait(place.index, held), now)
            });
            let deadline = patience.until(place, wait, now);
            let relief = self.relief(place, held, settled(place, wait), LONGEST_BEHIND, begin);
            let deadline = deadline.min(relief);
            if now >= deadline {
                if now >= relief {
                    device.flight.relieve();
                }
                bucket.charge(least);
                wait_of.forced = true;
                break least;
            }
            let mut until = now.saturating_add(wait).min(deadline);
            // What is in flight may turn out cheaper than it was charged: then the wait is shorter by its estimate.
            if !device.flight.is_empty() {
                let look = device.flight.next_look(now);
                until = until.min(look.max(now.saturating_add(settled(place, wait))));
                if matches!(place.account.whose(now), Whose::Ours { .. }) {
                    // Or longer: then the daemon has to hear of it.
                    until = until.min(self.look_for_the_end(place, now));
                }
            }
            self.ring(gpu, place.account, now);
            if device.flight.is_empty() {
                // It waits for its own time: the device may be another's.
                place.account.terms.say(Doing::Nothing);
                self.end_turn(gpu, place, now);
            } else {
                place.account.terms.say(Doing::Works);
            }
            gpu.sleep_until(until, word, seen);
            now = gpu.now();
            self.settle_all(gpu, place, now);
        };
        let booked = if wait_of.forced {
            Booked {
                amount: force(place.account.bucket, now, granted),
                waited: false,
            }
        } else {
            self.await_turn(gpu, thread, place, held, (least, granted))
        };
        place.account.terms.say(Doing::Works);
        place.account.bucket.give_back(granted - booked.amount);
        thread.grant(booked.amount);
        if patience.is_none() {
            return booked.waited;
        }
        place.count_wait(Wait {
            waited: now - begin,
            now,
            ..wait_of
        });
        true
    }

    /// Waits while too much is in flight, for a while. Whether it had to, and there is room now.
    pub(crate) fn bound_flight(
        &self,
        gpu: &impl Gpu,
        thread: &Thread,
        place: Place<'_>,
        held: Held,
        price: i64,
    ) -> Room {
        let flight = &place.device.flight;
        let begin = gpu.now();
        let mut excess = flight.excess(price, place.device.is_sure(), begin);
        if excess == 0 || place.account.observed {
            return Room::Was;
        }
        let level = place.account.bucket.level();
        self.close_all(gpu, thread, held.stream);
        self.settle_all(gpu, place, begin);
        let (mut now, mut nap) = (begin, FIRST_NAP);
        while excess > 0 {
            let relief = self.relief(place, held, 0, LONGEST_BEHIND, begin);
            let patience = if self.is_behind(place.index, held).0 {
                let known = flight.remaining(begin).max(0).unsigned_abs();
                known.saturating_add(PATIENCE).min(LONGEST_BEHIND)
            } else {
                PATIENCE
            };
            let deadline = relief.min(begin + patience);
            if now >= deadline {
                if now >= relief {
                    flight.relieve();
                }
                flight.turn_off();
                break;
            }
            let until = now + excess.min(BOUND).unsigned_abs().max(nap);
            self.look_for_the_end(place, now);
            let word = place.account.wake_word();
            gpu.sleep_until(until.min(deadline), word, word.load(Acquire));
            nap = if flight.is_late(now) {
                nap.saturating_mul(2).min(LONGEST_WAIT)
            } else {
                FIRST_NAP
            };
            now = gpu.now();
            if flight.is_late(now) && self.is_behind(place.index, held).0 {
                place.account.refill_after_own(now);
            }
            self.settle_all(gpu, place, now);
            excess = flight.excess(price, place.device.is_sure(), now);
        }
        place.count_wait(Wait {
            waited: now - begin,
            now,
            price,
            level,
            forced: excess > 0,
        });
        if excess > 0 { Room::None } else { Room::Came }
    }

    /// Charges a launch to a device by its estimate, without measuring it, and waits for the time.
    pub fn toll(&self, gpu: &impl Gpu, index: usize, work: &Work) {
        let Some(device) = self.device(index) else {
            return;
        };
        let now = gpu.now();
        let Some(account) = device.account(now) else {
            return;
        };
        let place = Place {
            index,
            device,
            account,
        };
        let price = self.costs.find_or_guess(work, || place.typical(work)).ns;
        let thread = Thread::new();
        gpu.quietly(|| {
            self.settle(gpu, place, now);
            self.take(gpu, &thread, place, Held::work(work), price)
        });
        let unspent = thread.batch.get() - price;
        account.bucket.give_back(unspent);
        account.bucket.rebook(-unspent);
        account.bucket.count_launches(1);
    }
}
