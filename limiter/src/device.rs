//! One limited device as this process sees it.

use core::ptr;

use quota_abi::bucket::{OwnShare, Taken};
use quota_abi::sync::{
    AtomicI64, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::flight::Flight;
use crate::settler::Settler;
use crate::siblings::Siblings;
use crate::terms::{Account, Doing, Terms, Whose};
use crate::try_lock::TryLock;
use crate::waits::Noted;

/// Bytes per microsecond, where a device does not say: 200 GB/s, as slow devices have.
const SLOW_MEMORY: u32 = 200_000;
/// What the smallest fill or copy takes, ns.
const TRANSFER: i64 = 2_000;
/// No fill or copy takes longer, however many bytes its arguments name: a second.
const LONGEST_TRANSFER: i64 = 1_000_000_000;

/// The next turn is dealt a little before the work of this one has ended, ns.
const OVERLAP: u64 = 200_000;

/// Estimates that miss by less than this tell well enough when a turn ends, ns.
const SURE: i64 = 150_000;
/// No error counts for more, ns: it must be forgotten in a while.
const MOST_ERROR: i64 = 10_000_000;
/// How often the daemon is told that a turn may end, ns.
const BETWEEN: u64 = 500_000;

/// A device's terms, and the work in flight.
#[derive(Debug)]
pub struct Device {
    terms: AtomicPtr<Terms>,
    /// Bytes that its memory moves in a microsecond; 0: unknown.
    bandwidth: AtomicU32,
    own: OwnShare,
    pub(crate) flight: Flight,
    pub(crate) settler: TryLock<Settler>,
    pub(crate) noted: Noted,
    /// When the daemon last said that other containers have work here too, and nobody had a turn.
    contended_at: AtomicU64,
    pub(crate) siblings: Siblings,
    /// When the container's present turn began, or else its last one; 0: it had none.
    turn_since: AtomicU64,
    /// By how much measurements missed their estimates lately, ns.
    error: AtomicI64,
    /// When the daemon was last told that a turn may end.
    told: AtomicU64,
}

/// What other containers had of a device during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OthersHad {
    /// So many ns: none in the container's own turn, and their slices of what ran on after it.
    Part(i64),
    /// They had work there too.
    Unknown,
}

/// Whether work may start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may; so much was taken for it.
    Granted(i64),
    /// Not before so many ns have gone by.
    Wait(u64),
}

impl Device {
    pub(crate) const fn new() -> Self {
        Self {
            terms: AtomicPtr::new(ptr::null_mut()),
            bandwidth: AtomicU32::new(0),
            own: OwnShare::new(),
            flight: Flight::new(),
            settler: TryLock::new(Settler::new()),
            noted: Noted::new(),
            contended_at: AtomicU64::new(0),
            siblings: Siblings::new(),
            turn_since: AtomicU64::new(0),
            error: AtomicI64::new(0),
            told: AtomicU64::new(0),
        }
    }

    /// Sets what it goes by from now on.
    pub fn hold_to(&self, terms: &'static Terms) {
        // SYNC POINT: pairs with the load in `terms`.
        self.terms.store(ptr::from_ref(terms).cast_mut(), Release);
    }

    /// What it goes by.
    pub(crate) fn terms(&self) -> Option<&'static Terms> {
        // SAFETY: null, or what `hold_to` stored, which is a `&'static Terms`.
        unsafe { self.terms.load(Acquire).as_ref() }
    }

    /// Sets the bandwidth of its memory, in bytes per microsecond.
    pub fn set_bandwidth(&self, bandwidth: u32) {
        self.bandwidth.store(bandwidth, Relaxed);
    }

    /// What moving so many bytes in or out of its memory takes, ns.
    pub(crate) fn transfer_time(&self, bytes: u64) -> i64 {
        let bandwidth = match self.bandwidth.load(Relaxed) {
            0 => SLOW_MEMORY,
            known => known,
        };
        let moving = u128::from(bytes) * 1000 / u128::from(bandwidth);
        i64::try_from(moving)
            .unwrap_or(i64::MAX)
            .min(LONGEST_TRANSFER)
            .saturating_add(TRANSFER)
    }

    /// Whether its time is limited, or counted.
    pub(crate) fn is_limited(&self) -> bool {
        self.terms().is_some_and(Terms::is_limited)
    }

    /// Its account as it is now, if it has a limit.
    pub(crate) fn account(&self, now: u64) -> Option<Account> {
        self.terms()?.account(now)
    }

    /// Takes `least` or up to `most`, or says how long there will be nothing to take. Who has `waited` goes
    /// on when there is enough for a burst, others as long as there is anything.
    pub(crate) fn admit(
        &self,
        account: Account,
        least: i64,
        most: i64,
        waited: bool,
        now: u64,
    ) -> Admission {
        let Account { bucket, rate, .. } = account;
        account.refill(now);
        if rate.is_whole() {
            // Nobody else wants any. What was charged too much is no reason to wait.
            bucket.lift(1);
        }
        let own = match account.terms.own {
            Some(_) => self.own.refill(bucket, now, rate),
            // The daemon's rate alone, which the bucket has.
            None => i64::MAX,
        };
        let from = if waited { rate.resume() } else { 1 };
        if own < from {
            return Admission::Wait(rate.time_for(rate.resume() - own).max(1));
        }
        let from = if rate.is_whole() { 1 } else { from };
        match bucket.take(from, least, most) {
            Taken::Granted(amount) => Admission::Granted(amount),
            Taken::Empty(level) => {
                let fills_at = bucket.rate().unwrap_or(rate);
                Admission::Wait(fills_at.time_for(rate.resume() - level).max(1))
            }
        }
    }

    /// Takes note of whether other containers have work here too, and of the container's turn.
    pub(crate) fn look_around(&self, account: Account, now: u64) {
        match account.whose(now) {
            Whose::Anybodys if account.is_contended() => self.contended_at.store(now, Relaxed),
            Whose::Ours { since, .. } => self.turn_since.store(since, Relaxed),
            Whose::Anybodys | Whose::Others { .. } => {}
        }
    }

    /// What others had of the device between `opened`, and `ended` by the host's clock, as far as is known.
    pub(crate) fn others_had(
        &self,
        account: Account,
        opened: u64,
        ended: i64,
        now: u64,
    ) -> OthersHad {
        self.look_around(account, now);
        let ended = ended.max(0).unsigned_abs();
        let ours = self.turn_since.load(Relaxed);
        let unknown_if = |unknown| match unknown {
            true => OthersHad::Unknown,
            false => OthersHad::Part(0),
        };
        match account.whose(now) {
            Whose::Anybodys => unknown_if(self.contended_at.load(Relaxed) >= opened.max(1)),
            Whose::Ours { since, .. } => unknown_if(opened.saturating_add(OVERLAP) < since),
            Whose::Others { .. } if ours == 0 || opened.saturating_add(OVERLAP) < ours => {
                OthersHad::Unknown
            }
            Whose::Others { since } => {
                let beside = ended.saturating_sub(since.saturating_add(OVERLAP));
                let active = account.active().max(2);
                let theirs = beside / active * (active - 1);
                OthersHad::Part(i64::try_from(theirs).unwrap_or(i64::MAX))
            }
        }
    }

    /// Takes note of by how much a measurement missed its estimate.
    pub(crate) fn missed_by(&self, ns: i64) {
        let error = self.error.load(Relaxed);
        let ns = ns.saturating_abs().min(MOST_ERROR);
        self.error.store(error + (ns - error) / 4, Relaxed);
    }

    /// Whether estimates tell well enough when work will have ended.
    pub(crate) fn is_sure(&self) -> bool {
        self.error.load(Relaxed) < SURE
    }

    /// Whether the daemon is to be told that the turn that began at `since` may end, or that its work is `over`: not in its beginning, and
    /// not all the time.
    pub(crate) fn is_to_tell(&self, since: u64, over: bool, now: u64) -> bool {
        let last = self.told.load(Relaxed);
        let again = if over { BETWEEN / 8 } else { BETWEEN };
        now >= last
            .saturating_add(again)
            .max(since.saturating_add(BETWEEN))
            && self.told.swap(now, Relaxed) < now
    }

    /// The program has nothing in flight here that we know of, and nothing waits: the container's turn may end.
    pub(crate) fn rest(&self) {
        if self.flight.is_empty()
            && let Some(terms) = self.terms()
        {
            terms.say(Doing::Nothing);
        }
    }

    /// Forgets what a forked child does not have: its parent's terms and work in flight.
    pub(crate) fn reset(&self) {
        self.terms.store(ptr::null_mut(), Release);
        self.contended_at.store(0, Relaxed);
        self.siblings.reset();
        self.turn_since.store(0, Relaxed);
        self.error.store(0, Relaxed);
        self.told.store(0, Relaxed);
        self.flight.reset();
        self.settler.release_in_child();
        if let Some(mut settler) = self.settler.try_lock() {
            settler.reset();
        }
    }
}
