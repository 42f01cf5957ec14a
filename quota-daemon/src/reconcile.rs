//! What the GPUs say, compared with what the containers' ledgers say.
//!
//! NVML knows what every process really holds, context and all; a ledger knows what a container's processes asked for. The
//! difference is the container's *overhead*, which counts as used. A process that NVML knows and no container has registered
//! uses the GPU past the library: it is reported, and where that is configured killed.
//!
//! [`Reconciler::step`] does no more than compare: what it looks at comes in [`Input`], what follows goes out in [`Outcome`].

pub mod cgroup;
mod contexts;
pub mod drive;
mod events;
pub mod kill;
mod look;
mod overhead;
mod strangers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

pub use events::{Event, log};
pub use look::{Seen, look};

use crate::gpu::Reading;
use crate::model::Uuid;
use crate::report::Unregistered;
use contexts::Contexts;
use events::Troubles;
use kill::Target;
use overhead::Known;
use strangers::{Ghosts, Strangers};

/// How long a client that has ended is remembered after NVML last named it.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Dead clients that are remembered, at most.
const MOST_DEAD: usize = 4096;

/// A registered process that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its container.
    pub container: String,
    /// Its pid on the host.
    pub pid: u32,
    /// When it registered: with the pid it says who it is.
    pub since: u64,
    /// What it holds of each device, by the ledger.
    pub ledger: BTreeMap<Uuid, u64>,
}

/// A declared container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Patterns of its cgroups.
    pub cgroups: Vec<String>,
}

/// What is compared.
pub struct Input<'a> {
    /// What NVML said.
    pub reading: &'a Reading,
    /// The registered processes. To be asked for after the reading was taken: who registers in between is then known.
    pub clients: &'a [Client],
    /// The containers.
    pub containers: &'a [Declared],
    /// What a context of a container is charged on a device.
    pub charges: &'a BTreeMap<(String, Uuid), u64>,
    /// Whether unregistered processes of declared containers are to be killed.
    pub kill: bool,
    /// What `/proc` knows of a pid.
    pub look: &'a dyn Fn(u32) -> Option<Seen>,
    /// The daemon's own pid.
    pub own: u32,
}

/// What follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What each container's processes hold beyond the ledger.
    pub overhead: BTreeMap<(String, Uuid), u64>,
    /// The same for each process that has any.
    pub by_process: BTreeMap<u32, BTreeMap<Uuid, u64>>,
    /// What each container's dead processes still hold.
    pub dead: BTreeMap<(String, Uuid), u64>,
    /// What a context takes, by device, where that could be measured.
    pub contexts: BTreeMap<Uuid, u64>,
    /// Who uses a device past the library.
    pub unregistered: BTreeMap<Uuid, Vec<Unregistered>>,
    /// Who is to be killed for it.
    pub kill: Vec<Target>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// What is new, for the log.
    pub events: Vec<Event>,
}

/// A client that has ended.
struct Dead {
    container: String,
    start: u64,
    /// The reading at which it was missed. It may have ended after that was taken, and hold nothing any more.
    missed: u64,
    last: Instant,
}

/// Compares, and remembers from one reading to the next.
#[derive(Default)]
pub struct Reconciler {
    clients: BTreeMap<u32, Known>,
    dead: BTreeMap<u32, Dead>,
    strangers: Strangers,
    ghosts: Ghosts,
    contexts: Contexts,
    troubles: Troubles,
}

impl Reconciler {
    /// Knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a predecessor has measured a context to take.
    pub fn learned(&mut self, device: Uuid, bytes: u64) {
        self.contexts.learned(device, bytes);
    }

    /// That a process has been killed.
    pub fn killed(&mut self, target: &Target) {
        self.strangers.killed(target.pid, target.start);
    }

    /// Compares a reading with the ledgers.
    pub fn step(&mut self, input: &Input<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        self.meet_clients(input);
        for device in &input.reading.devices {
            let uuid = device.device.uuid;
            let Some(processes) = &device.processes else {
                // Nothing new is known: what was known holds, of those who still live.
                self.strangers.keep(uuid, input);
                continue;
            };
            let mut present = BTreeSet::new();
            for process in processes {
                let pid = process.pid;
                if pid == 0 || pid == input.own || !present.insert(pid) {
                    continue;
                }
                if let Some(known) = self.clients.get_mut(&pid) {
                    let held = process.bytes.unwrap_or(0);
                    if let Some(estimate) = known.holds(uuid, held) {
                        self.contexts.measured(uuid, (pid, known.since), estimate);
                    }
                } else if let Some(dead) = self.find_dead(pid, input) {
                    if dead.missed < input.reading.number {
                        let key = (dead.container.clone(), uuid);
                        let sum: &mut u64 = outcome.dead.entry(key).or_default();
                        *sum = sum.saturating_add(process.bytes.unwrap_or(0));
                    }
                } else if !self.strangers.meet(uuid, *process, input) {
                    self.ghosts.meet(pid, input.reading.at);
                }
            }
            for (pid, known) in &mut self.clients {
                if !present.contains(pid) {
                    known.leaves(uuid);
                }
            }
            self.strangers.leave(uuid, &present, &mut outcome.events);
        }
        let at = input.reading.at;
        self.dead
            .retain(|_, dead| at.saturating_duration_since(dead.last) < REMEMBERED);
        for (pid, known) in &self.clients {
            known.add_to(&mut outcome.overhead);
            let parts = known.overhead();
            if !parts.is_empty() {
                outcome.by_process.insert(*pid, parts);
            }
        }
        outcome.contexts = self.contexts.all();
        self.strangers.report(input, &mut outcome);
        outcome.warnings.extend(self.ghosts.warning(at));
        self.troubles.compare(input.reading, &mut outcome.events);
        outcome
    }

    /// Who is registered now; who was and is not any more has ended.
    fn meet_clients(&mut self, input: &Input<'_>) {
        let mut before = std::mem::take(&mut self.clients);
        for client in input.clients.iter().filter(|client| client.pid != 0) {
            let known = before
                .remove(&client.pid)
                .filter(|known| known.is(client))
                .unwrap_or_else(|| Known::new(client, input));
            let known = known.with_ledger(&client.ledger);
            self.dead.remove(&client.pid);
            self.clients.insert(client.pid, known);
        }
        for (pid, known) in before {
            if self.dead.len() < MOST_DEAD && !self.clients.contains_key(&pid) {
                let dead = Dead {
                    container: known.container,
                    start: known.start,
                    missed: input.reading.number,
                    last: input.reading.at,
                };
                self.dead.insert(pid, dead);
            }
        }
        let own = (input.look)(input.own).map(|seen| seen.cgroup);
        let clients = self.clients.values();
        let cgroups = clients.map(|known| (&*known.cgroup, &*known.container));
        self.strangers.neighbours = cgroup::of_one(cgroups, own.as_deref());
    }

    /// The client that had this pid, unless somebody else has it now.
    fn find_dead(&mut self, pid: u32, input: &Input<'_>) -> Option<&Dead> {
        let dead = self.dead.get_mut(&pid)?;
        if (input.look)(pid).is_some_and(|seen| seen.start != dead.start) {
            self.dead.remove(&pid);
            return None;
        }
        dead.last = input.reading.at;
        self.dead.get(&pid)
    }
}

#[cfg(test)]
mod tests;
