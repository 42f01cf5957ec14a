//! What the core tells: `status`, `ps`, `why`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use quota_abi::events::{self, What};
use quota_abi::layout::Region;
use quota_abi::sync::Ordering;
use quota_abi::{devices, policy};
use rustix::time::{ClockId, clock_gettime};

use crate::api::{Kind, Refused};
use crate::cdi::Publisher;
use crate::model::{Quota, Uuid};
use crate::report::{self, Daemon, DeviceStatus, Share, Status, Why};

use super::container::Container;
use super::core::{Core, Inner};
use super::look;
use super::policy::quotas;
use super::promise;

/// How far apart two looks are taken where the last one is too old to say what is used.
const APART: Duration = Duration::from_millis(300);

impl Core {
    /// Everything at this moment. Waits a little where nobody has looked lately.
    pub(super) fn report_status(&self) -> Status {
        self.parts.gpus.poke();
        let status = self.status_now();
        let unsure = status.containers.iter().any(|container| {
            let counted =
                |share: &Share| share.got_percent.is_none() && share.own_percent.is_some();
            container.processes > 0 && container.devices.iter().any(counted)
        });
        if !unsure {
            return status;
        }
        std::thread::sleep(APART);
        self.status_now()
    }

    fn status_now(&self) -> Status {
        let mut reports = self.parts.gpus.report();
        let gpu_warnings = self.parts.gpus.warnings();
        let names: Vec<String> = self.lock().containers.keys().cloned().collect();
        // Those who attach come in between.
        let containers: Vec<report::Container> = names
            .iter()
            .filter_map(|name| self.container_report(&mut self.lock(), name))
            .collect();
        let inner = self.lock();
        for device in &mut reports {
            device.promised_bytes = promise::promised(inner.specs(), &device.device);
            device.active = active(&containers, device);
        }
        let mut warnings = self.state.warnings().to_vec();
        warnings.extend(gpu_warnings);
        warnings.extend(inner.troubles.iter().cloned());
        for (spec, _, why) in &inner.unopened {
            warnings.push(format!("container {} is not served: {why}", spec.name));
        }
        warnings.extend(self.publisher.iter().flat_map(Publisher::troubles));
        let started = self.started_at.duration_since(SystemTime::UNIX_EPOCH);
        Status {
            version: report::VERSION,
            daemon: Daemon {
                pid: std::process::id(),
                version: env!("CARGO_PKG_VERSION").into(),
                started_at: started.map_or(0, |since| since.as_secs()),
                state: self.state.path().display().to_string(),
                warnings,
            },
            devices: reports,
            containers,
        }
    }

    /// A container, as it is now.
    pub(super) fn container_report(
        &self,
        inner: &mut Inner,
        name: &str,
    ) -> Option<report::Container> {
        let quotas = quotas(&inner.devices, &inner.containers.get(name)?.spec);
        let Inner {
            containers,
            clients,
            copy,
            ..
        } = inner;
        let container = containers.get_mut(name)?;
        let now = Instant::now();
        let living = look::living(container, clients);
        let region = look::look(container, copy, now);
        if let Some(region) = region {
            self.count_waits(name, region);
        }
        let held = region
            .map(|region| look::held(region, &living))
            .unwrap_or_default();
        let sums = look::by_device(&held);
        let shares = quotas
            .iter()
            .map(|(uuid, quota)| share(container, *uuid, quota, &sums, now))
            .collect();
        Some(report::Container {
            name: name.to_owned(),
            origin: container.spec.origin,
            socket: self.socket(name).display().to_string(),
            device: self
                .publisher
                .as_ref()
                .and_then(|publisher| publisher.device(&container.spec)),
            processes: u32::try_from(container.clients.len()).unwrap_or(u32::MAX),
            damage: container.damage.clone(),
            devices: shares,
        })
    }

    /// How long launches waited, for metrics.
    fn count_waits(&self, name: &str, region: &Region) {
        let newest = region.header.waits.load(Ordering::Relaxed);
        let events = events::last(region, What::Wait)
            .filter_map(|event| Some((uuid_of(region, event.device)?, event.all)));
        self.parts.counters.waits.take(name, newest, events);
    }

    pub(super) fn report_processes(
        &self,
        wanted: Option<&str>,
    ) -> Result<Vec<report::Process>, Refused> {
        let by_nvml = self.parts.gpus.held();
        let mut inner = self.lock();
        if let Some(name) = wanted
            && !inner.containers.contains_key(name)
        {
            return Err(no_container(name));
        }
        let Inner {
            containers,
            clients,
            copy,
            ..
        } = &mut *inner;
        let now = Instant::now();
        let mut processes = Vec::new();
        for (name, container) in containers.iter_mut() {
            if wanted.is_some_and(|wanted| wanted != name) || container.clients.is_empty() {
                continue;
            }
            let living = look::living(container, clients);
            let region = look::look(container, copy, now);
            let held = region
                .map(|region| look::held(region, &living))
                .unwrap_or_default();
            for key in &container.clients {
                let Some(client) = clients.get(key) else {
                    continue;
                };
                let mut memory: BTreeMap<Uuid, report::Held> = BTreeMap::new();
                let entry = |uuid| report::Held {
                    uuid,
                    ledger_bytes: 0,
                    nvml_bytes: None,
                };
                for ((holder, uuid), bytes) in &held {
                    if holder == key {
                        memory
                            .entry(*uuid)
                            .or_insert_with(|| entry(*uuid))
                            .ledger_bytes = *bytes;
                    }
                }
                for ((pid, uuid), bytes) in &by_nvml {
                    if *pid == key.pid {
                        memory
                            .entry(*uuid)
                            .or_insert_with(|| entry(*uuid))
                            .nvml_bytes = Some(*bytes);
                    }
                }
                let record = &client.record;
                processes.push(report::Process {
                    container: name.clone(),
                    pid: record.pid,
                    pid_inside: record.pid_inside,
                    uid: record.uid,
                    program: record.program.clone(),
                    since: record.since,
                    memory: memory.into_values().collect(),
                });
            }
        }
        Ok(processes)
    }

    pub(super) fn report_why(&self, name: &str) -> Result<Why, Refused> {
        let mut inner = self.lock();
        let Inner {
            containers, copy, ..
        } = &mut *inner;
        let container = containers.get_mut(name).ok_or_else(|| no_container(name))?;
        let mut why = Why {
            version: report::VERSION,
            container: name.to_owned(),
            refusals: Vec::new(),
            waits: Vec::new(),
        };
        let Some(region) = look::look(container, copy, Instant::now()) else {
            return Ok(why);
        };
        let now = monotonic();
        let uuid = |device: u8| uuid_of(region, device);
        why.refusals = events::last(region, What::Refusal)
            .map(|event| report::Refusal {
                ago_ns: now.saturating_sub(event.at),
                pid_inside: event.pid,
                uuid: uuid(event.device),
                asked_bytes: event.asked,
                own_bytes: event.own,
                held_bytes: event.all,
                room_bytes: event.limit,
            })
            .collect();
        why.waits = events::last(region, What::Wait)
            .map(|event| report::Wait {
                ago_ns: now.saturating_sub(event.at),
                pid_inside: event.pid,
                uuid: uuid(event.device),
                asked_ns: event.asked,
                level_ns: event.level(),
                rate_percent: percent(u32::try_from(event.limit).unwrap_or(u32::MAX)),
                waited_ns: event.all,
            })
            .collect();
        Ok(why)
    }
}

fn uuid_of(region: &Region, device: u8) -> Option<Uuid> {
    devices::uuid_of(region.devices.get(usize::from(device))?).map(Uuid)
}

/// What a container has of the device's time now, ppm. Where turns are dealt its rate is the whole device, and its turns are in
/// proportion to this.
fn now_ppm(row: &policy::Row, at: u64) -> Option<u32> {
    let rate = row.rate_at(at)?;
    let is_active = row.active_until.load(Ordering::Relaxed) > at;
    match row.part.load(Ordering::Relaxed) {
        part if part > 0 && is_active => Some(part.min(rate)),
        _ => Some(rate),
    }
}

fn active(containers: &[report::Container], device: &DeviceStatus) -> u32 {
    let is_active = |container: &&report::Container| {
        let mut shares = container.devices.iter();
        shares.any(|share| share.uuid == device.device.uuid && share.active)
    };
    u32::try_from(containers.iter().filter(is_active).count()).unwrap_or(u32::MAX)
}

fn share(
    container: &mut Container,
    uuid: Uuid,
    quota: &Quota,
    used: &BTreeMap<Uuid, u64>,
    now: Instant,
) -> Share {
    let used = used.get(&uuid).copied().unwrap_or(0);
    let tally = container.tallies.entry(uuid).or_default();
    tally.peak = tally.peak.max(used);
    let row = container.files.policy().row(&uuid.0);
    let counted = row.filter(|row| row.mode.load(Ordering::Relaxed) & policy::mode::COMPUTE != 0);
    let at = monotonic();
    let (overhead, dead) = container.overhead.of(uuid);
    Share {
        uuid,
        memory_limit_bytes: quota.memory_bytes,
        memory_used_bytes: used,
        memory_overhead_bytes: overhead,
        memory_dead_bytes: dead,
        memory_peak_bytes: tally.peak,
        refusals: tally.total.refusals,
        compute: quota.compute,
        observe: quota.observe,
        priority: quota.priority,
        own_percent: counted.map(|row| percent(row.rate.load(Ordering::Relaxed))),
        now_percent: counted.and_then(|row| now_ppm(row, at)).map(percent),
        got_percent: counted.and_then(|_| tally.got_percent(now)),
        active: row.is_some_and(|row| row.active_until.load(Ordering::Relaxed) > at),
        gpu_time_ns: tally.total.used,
        waited_ns: tally.total.waited,
        waits: tally.total.waits,
        launches: tally.total.launches,
        forced: tally.total.forced,
        measured_ns: tally.total.measured,
        estimated_ns: tally.total.estimated,
    }
}

/// The answer to a name that no container has.
pub(super) fn no_container(name: &str) -> Refused {
    Refused {
        kind: Kind::NotFound,
        text: format!(
            "there is no container {name}; `quota-daemon status` lists those that there are"
        ),
    }
}

/// Percent of parts per million.
fn percent(ppm: u32) -> f64 {
    f64::from(ppm) / 10_000.0
}

/// The clock of shared memory, ns.
pub(super) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
