//! The controller: from what containers say about themselves to their policy rows.

use std::collections::HashMap;
use std::time::Duration;

use quota_abi::policy::{Loan, Row, Turn};
use quota_abi::sync::{AtomicU32, Ordering};
use rustix::thread::futex;

use super::activity::Activity;
use super::lend::{Borrower, lend};
use super::meter::Meter;
use super::own::{Weights, cap};
use super::turns::{Account, Contender, Deal, Dealer};
use super::{MS, Reading, WHOLE};
use crate::model::{Compute, Uuid};

/// How often a device is looked at on which something may have to be lent or taken back.
const LOOK: u64 = 50 * MS;
/// And one on which it is known to be active, and nothing can change but that.
const FAR_LOOK: u64 = 1_000 * MS;
/// How long a loan holds, and how much longer than to the next look a container counts as active.
const LOAN: u64 = 100 * MS;
/// A loan is renewed when less than this is left of it.
const RENEW: u64 = 75 * MS;
/// What hard limits use is rounded up to this many ppm, and what a share seems to want likewise: loans then stay as they are while little
/// changes.
const GRAIN: u32 = 20_000;

/// How sharing is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Whether containers take turns.
    pub turns: bool,
}

/// A container on a device.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// Its number, which no other container ever gets.
    pub container: u64,
    /// How its GPU time is ruled.
    pub compute: Compute,
    /// Higher is lent to first, and taken from last.
    pub priority: i32,
    /// Nothing of it is delayed: it takes no turns.
    pub observe: bool,
    /// What it says; `None`: nothing of it lives, or what it says cannot be read.
    pub reading: Option<Reading>,
    /// Its row for the device.
    pub row: &'a Row,
}

/// A device with every container that is declared on it.
pub struct DeviceView<'a> {
    /// The device.
    pub uuid: Uuid,
    /// The containers, idle ones too.
    pub members: Vec<Member<'a>>,
}

/// What the controller found of a container on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether it has work there.
    pub active: bool,
    /// What it may use, loans included; `None` where time is free.
    pub now_ppm: Option<u32>,
    /// What it used lately.
    pub got_ppm: u32,
}

/// What is known of a container on a device from step to step.
#[derive(Clone, Copy, Default)]
struct Known {
    activity: Activity,
    meter: Meter,
    account: Account,
    active: bool,
    own: u32,
    has: u32,
    step: u64,
}

/// Shares out all devices.
#[derive(Default)]
pub struct Controller {
    settings: Settings,
    step: u64,
    known: HashMap<(Uuid, u64), Known>,
    dealers: HashMap<Uuid, (Dealer, u64)>,
    borrowers: Vec<Borrower>,
    contenders: Vec<Contender>,
}

impl Controller {
    /// One that knows nothing. What an earlier one wrote stays in force until the first step, or its end.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Looks at everything, and writes every row's loan, turn and activity. `now` is `CLOCK_MONOTONIC` in ns, taken after the
    /// readings. Tells when to look again at the latest; `None`: when somebody rings.
    pub fn step(&mut self, now: u64, devices: &[DeviceView<'_>]) -> Option<Duration> {
        self.step = self.step.wrapping_add(1);
        let next = devices
            .iter()
            .filter_map(|device| self.device(now, device))
            .min();
        let step = self.step;
        self.known.retain(|_, known| known.step == step);
        self.dealers.retain(|_, (_, seen)| *seen == step);
        next.map(Duration::from_nanos)
    }

    /// What the last step found.
    #[must_use]
    pub fn seen(&self, now: u64, uuid: Uuid, container: u64) -> Seen {
        let Some(known) = self.known.get(&(uuid, container)) else {
            return Seen::default();
        };
        let got = known.meter.ppm(now).filter(|_| known.active);
        Seen {
            active: known.active,
            now_ppm: (known.has > 0).then_some(known.has),
            got_ppm: got.unwrap_or(0),
        }
    }

    fn device(&mut self, now: u64, device: &DeviceView<'_>) -> Option<u64> {
        let weights = Weights::of(device.members.iter().map(|member| member.compute));
        self.borrowers.clear();
        let mut spare = WHOLE;
        let (mut active, mut shares) = (0_u32, 0_u32);
        for (index, member) in device.members.iter().enumerate() {
            let known = self
                .known
                .entry((device.uuid, member.container))
                .or_default();
            let before = known.has;
            known.look(now, self.step, weights, member);
            if !known.active {
                continue;
            }
            active = active.saturating_add(1);
            match member.compute {
                Compute::Free => {}
                Compute::Limit { .. } => spare = spare.saturating_sub(known.used(now)),
                Compute::Share { weight, cap_ppm } => {
                    shares += 1;
                    spare = spare.saturating_sub(known.own);
                    self.borrowers.push(Borrower {
                        index,
                        weight,
                        priority: member.priority,
                        wants: known.wants(now, before),
                        cap: cap(cap_ppm),
                        has: known.own,
                    });
                }
            }
        }
        lend(spare, &mut self.borrowers);
        for borrower in &self.borrowers {
            let key = device.members.get(borrower.index);
            let key = key.map(|member| (device.uuid, member.container));
            if let Some(known) = key.and_then(|key| self.known.get_mut(&key)) {
                known.has = borrower.has;
            }
        }
        let lent = self.write_loans(now, device);
        let turns = self.turns(now, device);
        let look = match turns {
            Some(turns) => turns,
            None if lent || shares > 0 && active > 1 => LOOK,
            None => FAR_LOOK,
        };
        for member in &device.members {
            let known = self.known.get(&(device.uuid, member.container));
            let until = match known {
                Some(known) if known.active => now.saturating_add(look.max(LOOK) + LOAN / 2),
                _ => 0,
            };
            set(&member.row.active_until, until);
            if member.row.active.load(Ordering::Relaxed) != active {
                member.row.active.store(active, Ordering::Relaxed);
            }
        }
        (active > 0).then_some(look)
    }

    /// First what is taken back, then what is given: at no moment more is lent than there is. Tells whether anything is lent.
    fn write_loans(&self, now: u64, device: &DeviceView<'_>) -> bool {
        let mut any = false;
        for giving in [false, true] {
            for member in &device.members {
                let known = self.known.get(&(device.uuid, member.container));
                let lent = known
                    .filter(|known| known.active && known.has > known.own)
                    .map(|known| known.has);
                any |= lent.is_some();
                let old = Loan(member.row.loan.load(Ordering::Relaxed));
                let more = lent > old.rate(now);
                if more == giving {
                    write_loan(member.row, now, old, lent);
                }
            }
        }
        any
    }

    /// Deals turns where two or more take them; tells when to look again.
    fn turns(&mut self, now: u64, device: &DeviceView<'_>) -> Option<u64> {
        self.contenders.clear();
        if self.settings.turns {
            for (index, member) in device.members.iter().enumerate() {
                let key = (device.uuid, member.container);
                let known = self.known.get(&key).filter(|known| known.active);
                if let Some(known) = known.filter(|known| known.own > 0 && !member.observe) {
                    self.contenders.push(Contender {
                        index,
                        container: member.container,
                        own: known.own,
                        priority: member.priority,
                        wants: member.reading.is_some_and(|reading| reading.busy),
                        account: known.account,
                    });
                }
            }
        }
        let (dealer, seen) = self.dealers.entry(device.uuid).or_default();
        *seen = self.step;
        let deal = if self.contenders.len() < 2 {
            dealer.stop();
            Deal::Open
        } else {
            dealer.deal(now, &mut self.contenders)
        };
        let dealer = *dealer;
        for contender in &self.contenders {
            if let Some(known) = self.known.get_mut(&(device.uuid, contender.container)) {
                known.account = contender.account;
            }
        }
        self.write_turns(&dealer, deal, device);
        (self.contenders.len() > 1).then(|| dealer.next(now))
    }

    /// First everybody else's, then the holder's: two never have it at once.
    fn write_turns(&self, dealer: &Dealer, deal: Deal, device: &DeviceView<'_>) {
        let taking = |index: usize| self.contenders.iter().any(|one| one.index == index);
        for (index, member) in device.members.iter().enumerate() {
            let held = dealer.holder() == Some(member.container);
            let turn = match deal {
                Deal::Keep if held => continue,
                _ if dealer.holder().is_none() || !taking(index) => Turn::OFF,
                _ => Turn::others(dealer.number()),
            };
            let is_next = matches!(deal, Deal::Turn { index: next, .. } if next == index);
            if !is_next && set(&member.row.turn, turn.0) && turn == Turn::OFF {
                wake(&member.row.wake);
            }
        }
        if let Deal::Turn {
            index,
            number,
            until,
        } = deal
            && let Some(member) = device.members.get(index)
            && set(&member.row.turn, Turn::own(number, until).0)
        {
            wake(&member.row.wake);
        }
    }
}

impl Known {
    fn look(&mut self, now: u64, step: u64, weights: Weights, member: &Member<'_>) {
        self.step = step;
        self.own = match member.compute {
            Compute::Free => 0,
            Compute::Limit { ppm } => ppm.clamp(1, WHOLE),
            Compute::Share { weight, cap_ppm } => weights.guarantee(weight).min(cap(cap_ppm)),
        };
        self.has = self.own;
        self.active = self.activity.look(now, member.reading.as_ref()) && self.own > 0;
        self.meter.feed(now, member.reading.as_ref());
    }

    /// What one with a hard limit uses of the device, all that it may where that is not known.
    fn used(&self, now: u64) -> u32 {
        let used = self.meter.ppm(now).unwrap_or(self.own);
        used.div_ceil(GRAIN).saturating_mul(GRAIN).min(self.own)
    }

    /// Up to where a share seems to want: twice what it uses, or all there is where its launches wait, where it uses most of
    /// what it had, and where nothing is known.
    fn wants(&self, now: u64, had: u32) -> u32 {
        let Some(used) = self.meter.ppm(now).filter(|_| !self.meter.waited()) else {
            return WHOLE;
        };
        if u64::from(used) * 4 >= u64::from(had) * 3 {
            return WHOLE;
        }
        let twice = used.saturating_mul(2).div_ceil(GRAIN) * GRAIN;
        twice.clamp(self.own, WHOLE)
    }
}

fn write_loan(row: &Row, now: u64, old: Loan, lent: Option<u32>) {
    let was = old.rate(now);
    let new = match lent {
        Some(rate)
            if was == lent && old.until() >= now.saturating_add(RENEW) && is_near(old, now) =>
        {
            Loan::new(rate, old.until())
        }
        Some(rate) => Loan::new(rate, now.saturating_add(LOAN)),
        None => Loan(0),
    };
    if set(&row.loan, new.0) && was != lent {
        wake(&row.wake);
    }
}

/// A loan that ends later than any that is given is damage, or of another clock.
fn is_near(loan: Loan, now: u64) -> bool {
    loan.until() <= now.saturating_add(LOAN)
}

/// Whether the word changed.
fn set(word: &quota_abi::sync::AtomicU64, value: u64) -> bool {
    let changed = word.load(Ordering::Relaxed) != value;
    if changed {
        word.store(value, Ordering::Release);
    }
    changed
}

/// Raises the word and wakes all that sleep on it.
fn wake(word: &AtomicU32) {
    word.fetch_add(1, Ordering::Release);
    // Whoever sleeps there wakes by the clock all the same.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.unsigned_abs());
}
