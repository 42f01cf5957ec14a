//! What came of a cell.

use crate::busy::Busy;
use crate::params::SECOND;
use crate::stage::Stage;
use crate::world::START;

/// What a container got of a device.
#[derive(Clone, Debug, Default)]
pub struct Got {
    /// Per mille of the time, over all of it.
    pub share: f64,
    /// The same in each window of a second.
    pub windows: Vec<f64>,
    /// Events a second that the limiter recorded.
    pub events: f64,
    /// Launches a second.
    pub launches: f64,
    /// Per cent of the GPU's time that events took of it.
    pub event_cost: f64,
    /// Per mille of the time that the limiter charged.
    pub charged: f64,
    /// Launches a second that waited.
    pub waits: f64,
    /// And that were let through without time for them.
    pub forced: f64,
    /// When it had the GPU.
    pub busy: Busy,
}

/// What came of a cell.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// For each container, for each device.
    pub got: Vec<Vec<Got>>,
    /// Changes of contexts a second, by device.
    pub switches: Vec<f64>,
    /// How long marked pieces of work took and when each ended, by container.
    pub marked: Vec<Vec<(u64, u64)>>,
}

impl Got {
    /// Per mille of a time after the beginning that it had the device.
    #[must_use]
    pub fn between(&self, from: u64, to: u64) -> f64 {
        self.busy.between(START + from, START + to) as f64 * 1000.0 / (to - from) as f64
    }
}

impl Outcome {
    /// The marked pieces of work of a container, from the shortest to the longest, ns.
    #[must_use]
    pub fn latencies(&self, tenant: usize) -> Vec<u64> {
        let marked = self.marked.get(tenant).into_iter().flatten();
        let mut took: Vec<_> = marked.map(|(_, took)| *took).collect();
        took.sort_unstable();
        took
    }
}

/// What was counted until some moment, of a container on a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    events: u64,
    launches: u64,
    event_time: u64,
    charged: u64,
    waits: u64,
    forced: u64,
}

/// By container and device.
pub(crate) fn counts(stage: &Stage) -> Vec<Vec<Counts>> {
    let tenants = stage.clients.iter().zip(&stage.processes);
    tenants
        .map(|(client, own)| {
            let buckets = client.container.region.buckets.iter();
            let devices = buckets.zip(0..stage.devices());
            devices
                .map(|(bucket, device)| {
                    let reading = bucket.read();
                    let mut counts = Counts {
                        charged: reading.used,
                        waits: reading.waits,
                        forced: reading.forced,
                        ..Counts::default()
                    };
                    for running in own {
                        let context = running.process.contexts[device];
                        let (events, launches, time) =
                            stage.world.device(device, |held| held.counts(context));
                        counts.events += events;
                        counts.launches += launches;
                        counts.event_time += time;
                    }
                    counts
                })
                .collect()
        })
        .collect()
}

/// What a cell has come to at `end`, of which everything from `begin` on counts.
pub(crate) fn of(stage: &Stage, before: &[Vec<Counts>], begin: u64, end: u64) -> Outcome {
    let after = counts(stage);
    let mut outcome = Outcome::default();
    for (tenant, own) in stage.processes.iter().enumerate() {
        let mut got = Vec::new();
        for device in 0..stage.devices() {
            let mut busy = Busy::default();
            for running in own {
                let context = running.process.contexts[device];
                busy.merge(&stage.world.device(device, |held| held.used(context, end)));
            }
            let counted = (&before[tenant][device], &after[tenant][device]);
            got.push(got_of(busy, counted, begin, end));
        }
        outcome.got.push(got);
        let mut marked = Vec::new();
        for running in own {
            let all = running.process.marked.borrow();
            marked.extend(all.iter().filter(|(at, _)| *at >= begin));
        }
        outcome.marked.push(marked);
    }
    outcome.switches = (0..stage.devices())
        .map(|device| {
            let switches = stage.world.device(device, |held| held.switches);
            switches as f64 * 1e9 / (end - START) as f64
        })
        .collect();
    outcome
}

fn got_of(busy: Busy, (before, after): (&Counts, &Counts), begin: u64, end: u64) -> Got {
    let part = |from: u64, to: u64| busy.between(from, to) as f64 * 1000.0 / (to - from) as f64;
    let seconds = (end - begin) as f64 / SECOND as f64;
    let rate = |of: fn(&Counts) -> u64| of(after).saturating_sub(of(before)) as f64 / seconds;
    let windows = (0..(end - begin) / SECOND).map(|second| {
        let from = begin + second * SECOND;
        part(from, from + SECOND)
    });
    Got {
        share: part(begin, end),
        windows: windows.collect(),
        events: rate(|counts| counts.events),
        launches: rate(|counts| counts.launches),
        event_cost: rate(|counts| counts.event_time) / 1e7,
        charged: rate(|counts| counts.charged) / 1e6,
        waits: rate(|counts| counts.waits),
        forced: rate(|counts| counts.forced),
        busy,
    }
}
