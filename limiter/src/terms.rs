//! By what a device's time is ruled: the variables of this process, a daemon's policy, or both.
//!
//! Without a daemon the processes of a group agree on the bucket's rate among themselves. With one it is the daemon's, which
//! changes from one moment to the next: so an account holds for the moment at which it was asked for.

use quota_abi::bucket::{Bucket, Rate};
use quota_abi::layout::{DEVICES, Region};
use quota_abi::policy::{Policy, Row, Turn, mode};
use quota_abi::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// What one device goes by, for as long as the process lives.
pub struct Terms {
    /// Its GPU time, shared by the container.
    pub bucket: &'static Bucket,
    /// This process's own limit.
    pub own: Option<Rate>,
    /// What a daemon says.
    pub rule: Option<Rule>,
    /// This process's place in the usage region; none in a model.
    pub seat: Option<Seat>,
}

/// What a daemon says of one device.
#[derive(Clone, Copy)]
pub struct Rule {
    /// The container's policy region.
    pub policy: &'static Policy,
    /// The device's row of it.
    pub row: &'static Row,
}

/// Where a process and a device are in a usage region.
#[derive(Clone, Copy)]
pub struct Seat {
    /// The container's usage region.
    pub region: &'static Region,
    /// The device's row.
    pub device: usize,
    /// The process's slot.
    pub slot: usize,
    /// Its pid, as it sees itself.
    pub pid: u32,
}

/// A device's account at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub bucket: &'static Bucket,
    /// What this process may use.
    pub rate: Rate,
    /// What the daemon gives to the whole container; without a daemon the processes agree.
    ruled: Option<Rate>,
    /// Nothing is delayed, and what would have been is counted.
    pub observed: bool,
    pub terms: &'static Terms,
}

/// What a process has to do on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Nothing,
    /// A launch waits, and nothing is in flight.
    Waits,
    /// There is work in flight, or just about to be.
    Works,
}

/// Whose turn it is on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Turns are not taken: whoever has time may run.
    Anybodys,
    /// The container's, since the device was done with what came before. What it starts has to end by `until`.
    Ours { since: u64, until: u64 },
    /// Another's, since the device was done with the container's last one.
    Others { since: u64 },
}

impl core::fmt::Debug for Terms {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Terms")
            .field("own", &self.own)
            .field("ruled", &self.rule.is_some())
            .finish_non_exhaustive()
    }
}

impl Terms {
    /// Whether there is anything to count.
    pub(crate) fn is_limited(&self) -> bool {
        self.own.is_some() || self.mode() & mode::COMPUTE != 0
    }

    fn mode(&self) -> u32 {
        self.rule.map_or(0, |rule| rule.row.mode.load(Relaxed))
    }

    /// The account as it is at `now`; `None` where time is free.
    pub(crate) fn account(&'static self, now: u64) -> Option<Account> {
        let ruled = self.rule.and_then(|rule| rule.row.rate_at(now));
        let ruled = ruled.map(Rate::up_to_whole);
        let rate = match (ruled, self.own) {
            (Some(ruled), Some(own)) => ruled.min(own),
            (Some(rate), None) | (None, Some(rate)) => rate,
            (None, None) => return None,
        };
        Some(Account {
            bucket: self.bucket,
            rate,
            ruled,
            observed: self.mode() & mode::OBSERVE != 0,
            terms: self,
        })
    }

    /// Says what this process has to do on the device: only a daemon wants to know.
    pub(crate) fn say(&self, doing: Doing) {
        let Some((seat, _)) = self.seat.zip(self.rule) else {
            return;
        };
        let Some(slot) = seat.region.slots.get(seat.slot) else {
            return;
        };
        let device = seat.device % DEVICES;
        let bits = 1 << device | 1 << (device + DEVICES);
        let new = match doing {
            Doing::Nothing => 0,
            Doing::Waits => 1 << device,
            Doing::Works => bits,
        };
        let old = slot.busy.load(Relaxed);
        if old & bits != new {
            slot.busy.fetch_and(!bits | new, Relaxed);
            slot.busy.fetch_or(new, Relaxed);
        }
    }

    /// Whether a process of the container has work in flight on the device.
    pub(crate) fn somebody_works(&self) -> bool {
        self.is_busy(DEVICES, |_| true)
    }

    /// Whether another one than this has.
    pub(crate) fn siblings_work(&self) -> bool {
        self.is_busy(DEVICES, |other| other)
    }

    /// Whether another one than this has, or waits to launch some.
    pub(crate) fn siblings_want(&self) -> bool {
        self.is_busy(0, |other| other)
    }

    /// Whether the bit is set of a process that counts, who is told whether that is another one than this.
    fn is_busy(&self, bits: usize, counts: impl Fn(bool) -> bool) -> bool {
        self.seat.is_some_and(|seat| {
            let used = seat.region.header.high_water.load(Relaxed);
            let used = usize::try_from(used).unwrap_or(usize::MAX);
            let bit = 1 << (seat.device % DEVICES + bits);
            let mut slots = seat.region.slots.iter().take(used).enumerate();
            slots.any(|(index, slot)| {
                slot.busy.load(Relaxed) & bit != 0 && counts(index != seat.slot)
            })
        })
    }

    /// The daemon's bell, if it does not know yet that the container is active here.
    pub(crate) fn bell(&self, now: u64) -> Option<&'static AtomicU32> {
        let Rule { policy, row } = self.rule?;
        (row.active_until.load(Relaxed) < now).then_some(&policy.header.bell)
    }

    /// The word that the daemon sleeps on; without a daemon, one that nobody sleeps on.
    pub(crate) fn bell_word(&self) -> &'static AtomicU32 {
        self.rule
            .map_or(self.bucket.wake_word(), |rule| &rule.policy.header.bell)
    }

    /// The word that counts changes of limits and modes.
    pub fn generation(&self) -> Option<&'static AtomicU64> {
        self.rule.map(|rule| &rule.policy.header.generation)
    }
}

impl Account {
    /// Credits the time since the last refill, at the rate that holds.
    pub(crate) fn refill(self, now: u64) -> i64 {
        match self.ruled {
            Some(ruled) => self.bucket.impose(now, ruled),
            None => self.bucket.refill(now, self.rate),
        }
    }

    /// Credits the time that was spent waiting for a turn.
    pub(crate) fn refill_after_others(self, now: u64) {
        if let Some(ruled) = self.ruled {
            self.bucket.impose_after_others(now, ruled);
        }
    }

    /// Credits the time in which nothing was launched because work in flight took longer than it was charged for.
    pub(crate) fn refill_after_own(self, now: u64) {
        match self.ruled {
            Some(ruled) => self.bucket.impose_after_others(now, ruled),
            None => self.bucket.refill_after_own(now, self.rate),
        };
    }

    /// The word that launches sleep on.
    pub(crate) fn wake_word(self) -> &'static AtomicU32 {
        match self.terms.rule {
            Some(rule) => &rule.row.wake,
            None => self.bucket.wake_word(),
        }
    }

    /// Whether the daemon says that other containers have work on the device too.
    pub(crate) fn is_contended(self) -> bool {
        self.active() > 1
    }

    /// Containers that have work on the device, as the daemon says.
    pub(crate) fn active(self) -> u64 {
        self.terms
            .rule
            .map_or(1, |rule| rule.row.active.load(Relaxed).into())
    }

    /// Until when the daemon says that it deals turns.
    pub(crate) fn dealt_until(self) -> u64 {
        self.terms
            .rule
            .map_or(u64::MAX, |rule| rule.row.active_until.load(Relaxed))
    }

    /// Whose turn it is. A daemon that deals turns says all the while that the container is active; when it has died, turns are
    /// off.
    pub(crate) fn whose(self, now: u64) -> Whose {
        let Some(Rule { row, .. }) = self.terms.rule else {
            return Whose::Anybodys;
        };
        let turn = Turn(row.turn.load(Relaxed));
        if !turn.is_on() || self.observed || row.active_until.load(Relaxed) <= now {
            return Whose::Anybodys;
        }
        let since = row.since.load(Relaxed);
        match turn.until() {
            0 => Whose::Others { since },
            until => Whose::Ours { since, until },
        }
    }
}
