//! What the controller knows of one container on one device.

use super::WHOLE;
use super::activity::Activity;
use super::controller::Member;
use super::meter::Meter;
use super::own::{Weights, cap};
use super::turns::Account;
use crate::model::Compute;

/// What hard limits use is rounded up to this many ppm, and what a share seems to want likewise: loans then stay as they are while little
/// changes.
const GRAIN: u32 = 20_000;

/// What is known of a container on a device from step to step.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    activity: Activity,
    meter: Meter,
    /// GPU time that it had used in all, by its own account, at the last look; and what it used since the one before.
    used: Option<u64>,
    pub(super) used_since: u64,
    /// What it is owed of turns.
    pub(super) account: Account,
    /// Whether it was active at the last step.
    pub(super) active: bool,
    /// Its own rate; 0: its time is free.
    pub(super) own: u32,
    /// What it has, loans included.
    pub(super) has: u32,
    /// The step at which it was last there.
    pub(super) step: u64,
}

impl Known {
    pub(super) fn look(&mut self, now: u64, step: u64, weights: Weights, member: &Member<'_>) {
        self.step = step;
        let used = member.reading.map(|reading| reading.used);
        // Backwards is an estimate taken back, or a lie.
        self.used_since = used
            .zip(self.used)
            .map_or(0, |(now, before)| now.saturating_sub(before));
        self.used = used;
        self.own = match member.compute {
            Compute::Free => 0,
            Compute::Limit { ppm } => ppm.clamp(1, WHOLE),
            Compute::Share { weight, cap_ppm } => weights.guarantee(weight).min(cap(cap_ppm)),
        };
        self.has = self.own;
        self.active = self.activity.look(now, member.reading.as_ref()) && self.own > 0;
        self.meter.feed(now, member.reading.as_ref());
    }

    /// What it used lately; nothing if it is idle.
    pub(super) fn got(&self, now: u64) -> u32 {
        self.meter.ppm(now).filter(|_| self.active).unwrap_or(0)
    }

    /// What one with a hard limit uses of the device, all that it may where that is not known.
    pub(super) fn used(&self, now: u64) -> u32 {
        let used = self.meter.ppm(now).unwrap_or(self.own);
        used.div_ceil(GRAIN).saturating_mul(GRAIN).min(self.own)
    }

    /// Up to where a share seems to want: twice what it uses, or all there is where its launches wait, where it uses most of
    /// what it had, and where nothing is known.
    pub(super) fn wants(&self, now: u64, had: u32) -> u32 {
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
