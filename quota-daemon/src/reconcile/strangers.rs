//! Processes on a GPU that no container has registered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::kill::Target;
use super::{Event, Input, Outcome, cgroup};
use crate::gpu::GpuProcess;
use crate::model::Uuid;
use crate::report::Unregistered;

/// A stranger is one that was there in two readings so far apart: a client that registers, or ends, is none.
const CONFIRMED: Duration = Duration::from_millis(700);
/// So often `/proc` is asked again who it is.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Strangers that are remembered, at most.
const MOST: usize = 4096;

struct Stranger {
    start: u64,
    program: String,
    cgroup: String,
    bytes: Option<u64>,
    since: Instant,
    looked: Instant,
    confirmed: bool,
    /// Whether anybody has been told.
    told: bool,
    /// Whether it has been condemned; it is so once.
    condemned: bool,
    killed: bool,
}

/// By device and pid.
#[derive(Default)]
pub(super) struct Strangers {
    all: BTreeMap<(Uuid, u32), Stranger>,
    /// Cgroups of registered processes, and their containers: who shares one with them is probably of theirs.
    pub(super) neighbours: BTreeMap<String, String>,
}

impl Strangers {
    /// NVML names somebody whom nobody has registered. Whether `/proc` knows the pid.
    pub(super) fn meet(&mut self, uuid: Uuid, process: GpuProcess, input: &Input<'_>) -> bool {
        let at = input.reading.at;
        let key = (uuid, process.pid);
        if let Some(known) = self.all.get_mut(&key) {
            known.bytes = process.bytes;
            let confirmed =
                known.confirmed || at.saturating_duration_since(known.since) >= CONFIRMED;
            let due = at.saturating_duration_since(known.looked) >= LOOK_AGAIN;
            if confirmed == known.confirmed && !due {
                return true;
            }
            match (input.look)(process.pid) {
                Some(seen) if seen.start == known.start => {
                    known.confirmed = confirmed;
                    known.looked = at;
                    known.cgroup = seen.cgroup;
                    known.program = seen.program;
                    return true;
                }
                // The pid is somebody else's now.
                _ => drop(self.all.remove(&key)),
            }
        }
        let Some(seen) = (input.look)(process.pid) else {
            return false;
        };
        if self.all.len() < MOST {
            let stranger = Stranger {
                start: seen.start,
                program: seen.program,
                cgroup: seen.cgroup,
                bytes: process.bytes,
                since: at,
                looked: at,
                confirmed: false,
                told: false,
                condemned: false,
                killed: false,
            };
            self.all.insert(key, stranger);
        }
        true
    }

    /// Nothing is known of a device: those who still live are thought to be there.
    pub(super) fn keep(&mut self, device: Uuid, input: &Input<'_>) {
        let lives = |pid, stranger: &Stranger| {
            (input.look)(pid).is_some_and(|seen| seen.start == stranger.start)
        };
        self.all
            .retain(|(uuid, pid), stranger| *uuid != device || lives(*pid, stranger));
    }

    /// Only these are on a device.
    pub(super) fn leave(&mut self, device: Uuid, present: &BTreeSet<u32>, events: &mut Vec<Event>) {
        self.all.retain(|(uuid, pid), stranger| {
            let stays = *uuid != device || present.contains(pid);
            if !stays && stranger.told {
                events.push(Event::Left {
                    pid: *pid,
                    uuid: device,
                });
            }
            stays
        });
    }

    pub(super) fn killed(&mut self, pid: u32, start: u64) {
        for ((_, other), stranger) in &mut self.all {
            if *other == pid && stranger.start == start {
                stranger.killed = true;
            }
        }
    }

    /// Tells of those who are known for long enough.
    pub(super) fn report(&mut self, input: &Input<'_>, outcome: &mut Outcome) {
        // A client may have registered since.
        let registered: BTreeSet<u32> = input.clients.iter().map(|client| client.pid).collect();
        self.all.retain(|(_, pid), _| !registered.contains(pid));
        let mut condemned = BTreeSet::new();
        for ((uuid, pid), stranger) in &mut self.all {
            if !stranger.confirmed {
                continue;
            }
            let declared = cgroup::owner(input.containers, &stranger.cgroup);
            let neighbour = self.neighbours.get(&stranger.cgroup);
            let container = declared
                .map(|owner| owner.name)
                .or(neighbour.map(String::as_str));
            let killable = declared.filter(|owner| owner.killable && input.kill);
            if let Some(owner) = killable.filter(|_| !stranger.condemned) {
                stranger.condemned = true;
                if condemned.insert(*pid) {
                    outcome.kill.push(Target {
                        pid: *pid,
                        start: stranger.start,
                        container: owner.name.to_owned(),
                        program: stranger.program.clone(),
                    });
                }
            }
            let shown = Unregistered {
                pid: *pid,
                program: Some(stranger.program.clone()),
                bytes: stranger.bytes,
                container: container.map(str::to_owned),
                killed: stranger.killed,
            };
            if !stranger.told {
                stranger.told = true;
                outcome.events.push(Event::Stranger {
                    uuid: *uuid,
                    process: shown.clone(),
                });
            }
            outcome.unregistered.entry(*uuid).or_default().push(shown);
        }
    }
}

/// Pids that NVML names and `/proc` does not know: of processes that are just ending, of odd drivers, or of a pid namespace
/// outside of the daemon's.
#[derive(Default)]
pub(super) struct Ghosts {
    all: BTreeMap<u32, (Instant, Instant)>,
}

/// After this long it is not a process that is just ending.
const HAUNTING: Duration = Duration::from_secs(5);
/// Ghosts that are remembered, and named, at most.
const MOST_GHOSTS: usize = 64;
const NAMED: usize = 5;

impl Ghosts {
    pub(super) fn meet(&mut self, pid: u32, at: Instant) {
        if self.all.len() < MOST_GHOSTS || self.all.contains_key(&pid) {
            self.all.entry(pid).or_insert((at, at)).1 = at;
        }
    }

    pub(super) fn warning(&mut self, at: Instant) -> Option<String> {
        self.all.retain(|_, (_, last)| *last == at);
        let lasting = self
            .all
            .iter()
            .filter(|(_, (first, _))| at.saturating_duration_since(*first) >= HAUNTING);
        let pids: Vec<String> = lasting.map(|(pid, _)| pid.to_string()).collect();
        let named = pids
            .get(..NAMED.min(pids.len()))
            .unwrap_or_default()
            .join(", ");
        (!pids.is_empty()).then(|| {
            format!(
                "NVML names {} that /proc does not know (pid {named}): if they are not just ending, the daemon is not in the \
                 host's pid namespace, and cannot tell whose their memory is",
                crate::output::count(u64::try_from(pids.len()).unwrap_or(0), "process", "processes")
            )
        })
    }
}
