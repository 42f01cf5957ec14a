//! A device and its containers as a fluid, in virtual time: who wants to run runs at the rate that its row says. What is left
//! out is everything below a millisecond: kernels, slices, estimates.

use std::time::Duration;

use quota_abi::policy::{Row, Turn, mode};
use quota_abi::sync::{AtomicU32, AtomicU64, Ordering};

use super::{Controller, DeviceView, MS, Member, Reading, Settings, own_ppm};
use crate::model::{Compute, Uuid};

/// The moment at which every story begins.
pub(super) const START: u64 = 1 << 40;
const UUID: Uuid = Uuid([7; 16]);
const ORDER: Ordering = Ordering::Relaxed;

/// A container.
pub(super) struct Tenant {
    pub(super) compute: Compute,
    pub(super) priority: i32,
    pub(super) row: Box<Row>,
    /// What it would use, in ppm, at a time since the start in ms.
    pub(super) demand: Box<dyn Fn(u64) -> u32>,
    /// What it says of itself.
    pub(super) reading: Reading,
    /// What it has really had, GPU ns.
    pub(super) had: u64,
}

/// A device.
pub(super) struct World {
    pub(super) now: u64,
    pub(super) tenants: Vec<Tenant>,
    pub(super) controller: Controller,
    /// Whether the daemon lives.
    pub(super) daemon: bool,
    pub(super) steps: u64,
    due: Option<u64>,
    stepped: u64,
    tick: u64,
}

pub(super) fn zero_row() -> Box<Row> {
    let word = || AtomicU64::new(0);
    let half = || AtomicU32::new(0);
    Box::new(Row {
        key: word(),
        rest: word(),
        memory: word(),
        overhead: word(),
        context: word(),
        mode: half(),
        rate: half(),
        loan: word(),
        turn: word(),
        active_until: word(),
        wake: half(),
        active: half(),
        since: word(),
        part: half(),
    })
}

pub(super) fn share(weight: u32) -> Compute {
    Compute::Share {
        weight,
        cap_ppm: None,
    }
}

/// Wants all the time.
pub(super) fn always(_: u64) -> u32 {
    1_000_000
}

/// Wants nothing.
pub(super) fn never(_: u64) -> u32 {
    0
}

impl World {
    pub(super) fn new(turns: bool) -> Self {
        Self {
            now: START,
            tenants: Vec::new(),
            controller: Controller::new(Settings { turns }),
            daemon: true,
            steps: 0,
            due: None,
            stepped: 0,
            // Turns end in between.
            tick: if turns { MS / 20 } else { MS },
        }
    }

    pub(super) fn with(mut self, compute: Compute, demand: impl Fn(u64) -> u32 + 'static) -> Self {
        let row = zero_row();
        row.mode.store(mode::COMPUTE, ORDER);
        self.tenants.push(Tenant {
            compute,
            priority: 0,
            row,
            demand: Box::new(demand),
            reading: Reading::default(),
            had: 0,
        });
        self.declare();
        self
    }

    pub(super) fn priority(mut self, priority: i32) -> Self {
        self.tenants.last_mut().unwrap().priority = priority;
        self
    }

    /// What the daemon does when containers come and go.
    pub(super) fn declare(&mut self) {
        let all: Vec<_> = self.tenants.iter().map(|tenant| tenant.compute).collect();
        for tenant in &self.tenants {
            let own = own_ppm(tenant.compute, all.iter().copied()).unwrap_or(0);
            tenant.row.rate.store(own, ORDER);
        }
    }

    pub(super) fn rate(&self, index: usize) -> u32 {
        self.tenants[index].row.rate_at(self.now).unwrap()
    }

    pub(super) fn step(&mut self) -> Option<Duration> {
        self.steps += 1;
        let members = self
            .tenants
            .iter()
            .enumerate()
            .map(|(index, tenant)| Member {
                container: index as u64,
                compute: tenant.compute,
                priority: tenant.priority,
                observe: false,
                reading: Some(tenant.reading),
                row: &tenant.row,
            });
        let view = DeviceView {
            uuid: UUID,
            members: members.collect(),
        };
        let next = self.controller.step(self.now, &[view]);
        self.stepped = self.now;
        self.due = next.map(|next| {
            self.now
                .saturating_add(u64::try_from(next.as_nanos()).unwrap())
        });
        next
    }

    /// Lets `ms` pass; what each tenant had of the device meanwhile, in whole percent.
    pub(super) fn run(&mut self, ms: u64) -> Vec<u64> {
        let before: Vec<_> = self.tenants.iter().map(|tenant| tenant.had).collect();
        for _ in 0..ms * MS / self.tick {
            self.tick();
        }
        let had = self
            .tenants
            .iter()
            .zip(before)
            .map(|(tenant, before)| tenant.had - before);
        had.map(|had| (had * 100 + ms * MS / 2) / (ms * MS))
            .collect()
    }

    fn tick(&mut self) {
        self.now += self.tick;
        let mut rings = false;
        for tenant in &mut self.tenants {
            let wants = (tenant.demand)((self.now - START) / MS);
            tenant.reading.busy = wants > 0;
            if wants == 0 {
                continue;
            }
            tenant.reading.refilled_at = self.now;
            rings |= tenant.row.active_until.load(ORDER) < self.now;
            let turn = Turn(tenant.row.turn.load(ORDER));
            let may = tenant.row.rate_at(self.now).unwrap();
            // With turns the device is one's own, and the rate what one may have of it on average: a bucket that the
            // model leaves out.
            let got = match turn.is_on() {
                true if turn.may_run(self.now) => wants,
                true => 0,
                false => wants.min(may),
            };
            if got > 0 {
                tenant.reading.ends_at = self.now + self.tick;
            }
            tenant.reading.waits += u64::from(got < wants);
            tenant.reading.launches += 1;
            tenant.had += u64::from(got) * self.tick / 1_000_000;
            tenant.reading.used = tenant.had;
        }
        let due = self.due.is_some_and(|due| due <= self.now);
        if self.daemon && (due || rings && self.now - self.stepped >= 2 * MS) {
            self.step();
        }
    }
}
