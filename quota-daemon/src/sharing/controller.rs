//! The controller: from what containers say about themselves to their policy rows.

use std::collections::HashMap;
use std::time::Duration;

use quota_abi::policy::{Row, Turn};
use quota_abi::sync::Ordering;

use super::known::Known;
use super::lend::{Borrower, lend};
use super::own::{Weights, cap};
use super::rows::{set, wake, write_loans};
use super::turns::{Contender, Dealer};
use super::{MS, Reading, WHOLE};
use crate::model::{Compute, Uuid};

/// All of a device: counted, and not waited for.
const ALL: u32 = 1_000_000;
/// How often a device is looked at on which something may have to be lent or taken back.
const LOOK: u64 = 50 * MS;
/// And one on which it is known to be active, and nothing can change but that.
const FAR_LOOK: u64 = 1_000 * MS;
/// How much longer than to the next look a container counts as active.
const AHEAD: u64 = 50 * MS;

/// A pause of a container that takes turns is none before it lasts so long, ns.
const GRACE: u64 = 300_000;
/// Nor for so long after its turn began: its processes have to wake up.
const BEGINNING: u64 = 500_000;

/// How sharing is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Whether containers take turns.
    pub turns: bool,
}

impl Settings {
    /// Whether a container takes turns with others where it is active.
    fn takes_turns(self, known: &Known, member: &Member<'_>) -> bool {
        self.turns && known.own > 0 && !member.observe
    }
}

/// Whether a container has something to do on the device now: work in flight or waiting, or had until just now. One whose turn
/// it is since `since` needs a moment to begin.
fn wants(now: u64, reading: Option<&Reading>, since: Option<u64>) -> bool {
    reading.is_some_and(|reading| {
        reading.busy
            || reading.ends_at.saturating_add(GRACE) > now
            || since.is_some_and(|since| now < since.saturating_add(BEGINNING))
    })
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

    /// Goes on by other settings from the next step.
    pub fn apply(&mut self, settings: Settings) {
        self.settings = settings;
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
        Seen {
            active: known.active,
            now_ppm: (known.has > 0).then_some(known.has),
            got_ppm: known.got(now),
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
                Some(known) if known.active => now.saturating_add(look.max(LOOK) + AHEAD),
                _ => 0,
            };
            set(&member.row.active_until, until);
            let part = known
                .filter(|known| known.active)
                .map_or(0, |known| known.has);
            if member.row.part.load(Ordering::Relaxed) != part {
                member.row.part.store(part, Ordering::Relaxed);
            }
            if member.row.active.load(Ordering::Relaxed) != active {
                member.row.active.store(active, Ordering::Relaxed);
            }
        }
        (active > 0).then_some(look)
    }

    /// Tells whether anything is lent.
    fn write_loans(&self, now: u64, device: &DeviceView<'_>) -> bool {
        let active = |member: &Member<'_>| {
            let known = self.known.get(&(device.uuid, member.container));
            known.filter(|known| known.active)
        };
        let taking = |member: &&Member<'_>| {
            active(member).is_some_and(|known| self.settings.takes_turns(known, member))
        };
        let turns = device.members.iter().filter(taking).count() > 1;
        let mut wanted = device.members.iter().map(|member| {
            let known = active(member);
            let lent = match member.compute {
                // Its turns are in proportion to its share, and while it has one the device is its own.
                Compute::Share { cap_ppm, .. } if turns => known.map(|_| cap_ppm.unwrap_or(ALL)),
                _ => known
                    .filter(|known| known.has > known.own)
                    .map(|known| known.has),
            };
            (member.row, lent)
        });
        write_loans(now, wanted.clone(), || ());
        wanted.any(|(_, lent)| lent.is_some())
    }

    /// Deals turns where two or more take them; tells when to look again.
    fn turns(&mut self, now: u64, device: &DeviceView<'_>) -> Option<u64> {
        let (dealer, seen) = self.dealers.entry(device.uuid).or_default();
        *seen = self.step;
        let holder = dealer.holder();
        self.contenders.clear();
        for (index, member) in device.members.iter().enumerate() {
            let key = (device.uuid, member.container);
            let known = self.known.get(&key).filter(|known| known.active);
            if let Some(known) = known.filter(|known| self.settings.takes_turns(known, member)) {
                let since = holder
                    .filter(|holder| holder.container == member.container)
                    .map(|holder| holder.since);
                self.contenders.push(Contender {
                    index,
                    container: member.container,
                    part: known.has,
                    limited: matches!(member.compute, Compute::Limit { .. }),
                    priority: member.priority,
                    wants: wants(now, member.reading.as_ref(), since),
                    ends_at: member.reading.map_or(0, |reading| reading.ends_at),
                    full: member.reading.is_some_and(|reading| reading.full),
                    unsure: member.reading.is_some_and(|reading| reading.unsure),
                    used: known.used_since,
                    account: known.account,
                });
            }
        }
        if self.contenders.len() < 2 {
            dealer.stop();
        } else {
            dealer.deal(now, &mut self.contenders);
        }
        let dealer = *dealer;
        for contender in &self.contenders {
            if let Some(known) = self.known.get_mut(&(device.uuid, contender.container)) {
                known.account = contender.account;
            }
        }
        self.write_turns(now, &dealer, device);
        (self.contenders.len() > 1).then(|| dealer.next(now))
    }

    /// First everybody else's, then the holder's: two never have it at once.
    fn write_turns(&self, now: u64, dealer: &Dealer, device: &DeviceView<'_>) {
        let holder = dealer.holder();
        for holders in [false, true] {
            for (index, member) in device.members.iter().enumerate() {
                let its = holder.filter(|holder| holder.container == member.container);
                if its.is_some() != holders {
                    continue;
                }
                // In the order of their places, as they were found.
                let place = self
                    .contenders
                    .binary_search_by_key(&index, |one| one.index);
                let contender = place.ok().and_then(|place| self.contenders.get(place));
                let turn = match (its, holder, contender) {
                    (Some(own), ..) => Turn::own(dealer.number(), own.until),
                    (None, Some(_), Some(other)) if !other.account.free => {
                        Turn::others(dealer.number())
                    }
                    _ => Turn::OFF,
                };
                // Before the turn itself: who sees that it is over, or has begun, sees since when. One that was free to start shared the
                // device until now, and has not been in another's turn before.
                let before = Turn(member.row.turn.load(Ordering::Relaxed));
                if let Some(own) = its {
                    set(&member.row.since, own.since);
                } else if before.until() != 0 {
                    set(&member.row.since, holder.map_or(now, |holder| holder.began));
                } else if !before.is_on() {
                    set(&member.row.since, now);
                }
                if set(&member.row.turn, turn.0) && (turn == Turn::OFF || its.is_some()) {
                    wake(&member.row.wake);
                }
            }
        }
    }
}
