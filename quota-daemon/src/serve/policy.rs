//! What a container may have, written into its policy word by word: only what differs, so that a new daemon that finds
//! everything as it should be changes nothing.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use quota_abi::devices::halves;
use quota_abi::ledger::UNIT;
use quota_abi::policy::{NO_LIMIT, Policy, Row, Turn, mode};
use quota_abi::sync::{AtomicU32, AtomicU64, Ordering};
use rustix::thread::futex;

use crate::model::{Compute, Device, Origin, Quota, Selector, Spec, Uuid};
use crate::sharing;

/// All of a device, in ppm.
const ALL: u32 = 1_000_000;

/// Bytes that a context is charged where nothing is known.
pub(super) const CONTEXT: u64 = 400 << 20;

/// What holds for all containers.
#[derive(Debug)]
pub(super) struct World<'a> {
    devices: &'a [Device],
    contexts: &'a BTreeMap<Uuid, u64>,
    /// How all containers of each device are ruled: shares depend on each other.
    computes: BTreeMap<Uuid, Vec<Compute>>,
}

/// What a container may have of each device that it may use. Includes devices that NVML does not know, if they are named by
/// UUID.
#[must_use]
pub(super) fn quotas(devices: &[Device], spec: &Spec) -> BTreeMap<Uuid, Quota> {
    let named = spec
        .devices
        .iter()
        .filter_map(|(selector, quota)| match selector {
            Selector::Uuid(uuid) => Some((*uuid, *quota)),
            Selector::Index(_) => None,
        });
    let known = devices
        .iter()
        .filter_map(|device| Some((device.uuid, spec.quota(device)?)));
    named.chain(known).collect()
}

impl<'a> World<'a> {
    /// The devices that NVML knows, what a context has been measured to take, and all containers.
    pub(super) fn new(
        devices: &'a [Device],
        contexts: &'a BTreeMap<Uuid, u64>,
        specs: impl Iterator<Item = &'a Spec>,
    ) -> Self {
        let mut world = Self {
            devices,
            contexts,
            computes: BTreeMap::new(),
        };
        for spec in specs {
            for (uuid, quota) in quotas(devices, spec) {
                world.computes.entry(uuid).or_default().push(quota.compute);
            }
        }
        world
    }

    /// What is a container's own of a device's time, in ppm.
    #[must_use]
    pub(super) fn own_ppm(&self, uuid: Uuid, compute: Compute) -> Option<u32> {
        let all = self.computes.get(&uuid).into_iter().flatten();
        sharing::own_ppm(compute, all.copied())
    }

    /// Whether a device that NVML does not know may be one that `spec` means.
    fn may_mean(&self, spec: &Spec, uuid: Uuid) -> bool {
        let unknown = self.devices.iter().all(|device| device.uuid != uuid);
        let by_index = spec
            .devices
            .keys()
            .any(|key| matches!(key, Selector::Index(_)));
        unknown && (spec.every.is_some() || by_index)
    }

    /// Writes a container's rows. `true` if anything has changed.
    pub(super) fn write(&self, policy: &Policy, spec: &Spec) -> bool {
        let quotas = quotas(self.devices, spec);
        let mut changed = false;
        for row in &policy.rows {
            let Some(uuid) = row.uuid().map(Uuid) else {
                continue;
            };
            if !quotas.contains_key(&uuid) && !self.may_mean(spec, uuid) {
                withdraw(row);
                changed = true;
            }
        }
        for (uuid, quota) in &quotas {
            changed |= match policy.row(&uuid.0) {
                Some(row) => self.fill(row, *uuid, quota),
                None => self.add(policy, *uuid, quota),
            };
        }
        if changed {
            policy.header.generation.fetch_add(1, Ordering::AcqRel);
            policy
                .rows
                .iter()
                .filter(|row| row.uuid().is_some())
                .for_each(wake);
        }
        changed
    }

    fn add(&self, policy: &Policy, uuid: Uuid, quota: &Quota) -> bool {
        let Some(row) = place_for(policy, uuid) else {
            tracing::error!(%uuid, "a container can have no more than {} devices", policy.rows.len());
            return false;
        };
        row.key.store(0, Ordering::Relaxed);
        forget_loans(row);
        row.overhead.store(0, Ordering::Relaxed);
        self.fill(row, uuid, quota);
        let (key, rest) = halves(&uuid.0);
        row.rest.store(rest, Ordering::Release);
        // SYNC POINT with `Policy::row`: who finds the key finds the limits.
        row.key.store(key, Ordering::Release);
        true
    }

    fn fill(&self, row: &Row, uuid: Uuid, quota: &Quota) -> bool {
        let memory = quota
            .memory_bytes
            .map_or(NO_LIMIT, |bytes| bytes / UNIT * UNIT);
        let measured = self.contexts.get(&uuid).copied();
        let context = quota.context_bytes.or(measured).unwrap_or(CONTEXT);
        let observe = if quota.observe { mode::OBSERVE } else { 0 };
        let mut changed = put(&row.memory, memory);
        changed |= put(&row.context, context);
        // All of a device is counted and not waited for: what is owed from before is no debt any more.
        let whole = matches!(quota.compute, Compute::Limit { ppm } if ppm >= ALL);
        let own = self.own_ppm(uuid, quota.compute);
        changed |= match own.map(|own| if whole { ALL } else { own }) {
            None => put_half(&row.mode, observe) | put_half(&row.rate, 0),
            // The rate first: who sees the mode must not find the rate of before.
            Some(own) => put_half(&row.rate, own) | put_half(&row.mode, observe | mode::COMPUTE),
        };
        changed
    }
}

/// The row of a device that is new to a container: the one that it had before, else one that nobody had. Processes keep the
/// address of a row, so that it passes to another device only where there is no other.
fn place_for(policy: &Policy, uuid: Uuid) -> Option<&Row> {
    let (_, own) = halves(&uuid.0);
    let with = |rest: &dyn Fn(u64) -> bool| {
        policy.rows.iter().find(|row| {
            row.key.load(Ordering::Relaxed) == 0 && rest(row.rest.load(Ordering::Relaxed))
        })
    };
    with(&|rest| rest == own)
        .or_else(|| with(&|rest| rest == 0))
        .or_else(|| with(&|_| true))
}

/// A container may not use this device any more. Who has looked its row up already finds no room in it.
fn withdraw(row: &Row) {
    row.memory.store(0, Ordering::Relaxed);
    row.key.store(0, Ordering::Release);
    wake(row);
}

/// What a policy says, as a declaration: where nobody knows any more what was declared.
#[must_use]
pub(super) fn spec_of(name: &str, policy: &Policy) -> Spec {
    let quota = |row: &Row| {
        let (mode, memory) = (
            row.mode.load(Ordering::Relaxed),
            row.memory.load(Ordering::Relaxed),
        );
        let ppm = row.rate.load(Ordering::Relaxed);
        Quota {
            memory_bytes: (memory != NO_LIMIT).then_some(memory),
            compute: match mode & mode::COMPUTE {
                0 => Compute::Free,
                _ => Compute::Limit { ppm },
            },
            priority: 0,
            context_bytes: Some(row.context.load(Ordering::Relaxed)),
            observe: mode & mode::OBSERVE != 0,
        }
    };
    let rows = policy.rows.iter();
    Spec {
        name: name.to_owned(),
        origin: Origin::Run,
        cgroups: Vec::new(),
        every: None,
        devices: rows
            .filter_map(|row| Some((Selector::Uuid(Uuid(row.uuid()?)), quota(row))))
            .collect(),
    }
}

/// Ends what an earlier daemon has lent and whose turn it was.
pub(super) fn forget_loans(row: &Row) {
    row.loan.store(0, Ordering::Relaxed);
    row.turn.store(Turn::OFF.0, Ordering::Relaxed);
    row.active_until.store(0, Ordering::Relaxed);
    row.active.store(0, Ordering::Relaxed);
}

/// Raises a row's word and wakes who sleeps on it.
pub(super) fn wake(row: &Row) {
    row.wake.fetch_add(1, Ordering::AcqRel);
    let _ = futex::wake(&row.wake, futex::Flags::empty(), i32::MAX.unsigned_abs());
}

fn put(word: &AtomicU64, value: u64) -> bool {
    word.swap(value, Ordering::AcqRel) != value
}

fn put_half(word: &AtomicU32, value: u32) -> bool {
    word.swap(value, Ordering::AcqRel) != value
}

/// Notes overhead by NVML: it counts from the next request on, and needs no new generation.
pub(super) fn set_overhead(row: &Row, bytes: u64) {
    let bytes = bytes.div_ceil(UNIT).saturating_mul(UNIT);
    row.overhead.store(bytes, Ordering::Relaxed);
}
