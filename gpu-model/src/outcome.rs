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
    /// Waits of launches, and how many were let through without time for them, by container.
    pub waits: Vec<(u64, u64)>,
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

/// Events, launches, and the time of the events, by container and device.
type Counts = Vec<Vec<[u64; 3]>>;

pub(crate) fn counts(stage: &Stage) -> Counts {
    let devices =
        |own: &Vec<crate::stage::Running>| own.first().map_or(0, |of| of.process.contexts.len());
    let of = |own: &Vec<crate::stage::Running>, device: usize| {
        let mut sum = [0; 3];
        for running in own {
            let context = running.process.contexts[device];
            let (events, launches, time) = stage.world.device(device, |held| held.counts(context));
            for (sum, more) in sum.iter_mut().zip([events, launches, time]) {
                *sum += more;
            }
        }
        sum
    };
    let processes = stage.processes.iter();
    processes
        .map(|own| (0..devices(own)).map(|device| of(own, device)).collect())
        .collect()
}

pub(crate) fn of(stage: &Stage, before: &Counts, begin: u64, end: u64) -> Outcome {
    let after = counts(stage);
    let seconds = (end - begin) as f64 / SECOND as f64;
    let mut outcome = Outcome::default();
    for (tenant, own) in stage.processes.iter().enumerate() {
        let mut got = Vec::new();
        for device in 0..before[tenant].len() {
            let mut busy = Busy::default();
            for running in own {
                let context = running.process.contexts[device];
                busy.merge(&stage.world.device(device, |held| held.used(context, end)));
            }
            let part =
                |from: u64, to: u64| busy.between(from, to) as f64 * 1000.0 / (to - from) as f64;
            let windows = (0..(end - begin) / SECOND).map(|second| {
                let from = begin + second * SECOND;
                part(from, from + SECOND)
            });
            let [events, launches, event_time] = core::array::from_fn(|which| {
                (after[tenant][device][which] - before[tenant][device][which]) as f64 / seconds
            });
            got.push(Got {
                share: part(begin, end),
                windows: windows.collect(),
                events,
                launches,
                event_cost: event_time / 1e7,
                busy,
            });
        }
        outcome.got.push(got);
        let mut marked = Vec::new();
        for running in own {
            let all = running.process.marked.borrow();
            marked.extend(all.iter().filter(|(at, _)| *at >= begin));
        }
        outcome.marked.push(marked);
        let bucket = stage.clients[tenant].container.region.buckets.first();
        let reading = bucket
            .map(quota_abi::bucket::Bucket::read)
            .unwrap_or_default();
        outcome.waits.push((reading.waits, reading.forced));
    }
    let devices = 0..stage
        .processes
        .first()
        .map_or(0, |own| own[0].process.contexts.len());
    outcome.switches = devices
        .map(|device| {
            let switches = stage.world.device(device, |held| held.switches);
            switches as f64 * 1e9 / (end - START) as f64
        })
        .collect();
    outcome
}
