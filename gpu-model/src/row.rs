//! A cell under one scheme, over one or several seeds: what the table and the file say of it.

use serde::Serialize;

use crate::cell::Scheme;
use crate::grid::Cell;
use crate::judge;
use crate::outcome::Outcome;

/// What a container got.
#[derive(Clone, Debug, Serialize)]
pub struct Tenant {
    /// Per cent of each device that it asked for; none where that is not judged.
    pub asked_percent: Option<f64>,
    /// Per cent of each device, on average over the seeds.
    pub got_percent: Vec<f64>,
    /// From the seed with the least to the one with the most, on any device, in points.
    pub spread: f64,
    /// The second that was furthest from what was asked, of any seed and device, in per cent.
    pub worst_second_percent: Option<f64>,
    /// Launches a second.
    pub launches: f64,
    /// Events a second that the limiter recorded.
    pub events: f64,
    /// What these took of the GPU's time, in per cent.
    pub events_percent: f64,
    /// Per cent of each device that the limiter charged.
    pub charged_percent: Vec<f64>,
    /// Launches a second that waited, and that were let through without time for them.
    pub waits: (f64, f64),
}

/// A figure besides.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// On average over the seeds.
    pub value: f64,
    /// The least and the most of all seeds.
    pub range: (f64, f64),
    /// What it may be.
    pub goal: Option<(f64, f64)>,
}

/// A line of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The scheme.
    pub scheme: &'static str,
    /// How many seeds.
    pub seeds: u64,
    /// The containers.
    pub tenants: Vec<Tenant>,
    /// Per cent of each device that all used together, on average.
    pub total_percent: Vec<f64>,
    /// What else there is to say.
    pub figures: Vec<Figure>,
    /// In how many of the seeds a goal was missed.
    pub missed: u64,
    /// What was missed in the first of these.
    pub misses: Vec<String>,
    /// Changes of contexts a second on the first device, of the last seed.
    pub switches: f64,
}

impl Row {
    /// Sums up what came of a cell, seed by seed.
    #[must_use]
    pub fn of(cell: &Cell, scheme: Scheme, outcomes: &[Outcome]) -> Self {
        let devices = 0..cell.devices;
        let all_misses: Vec<_> = outcomes
            .iter()
            .map(|one| judge::misses(cell, one))
            .collect();
        let missed = all_misses
            .iter()
            .filter(|misses| !misses.is_empty())
            .count();
        let total = |device: usize| {
            mean(outcomes.iter().map(|outcome| {
                let shares = outcome.got.iter().map(|got| got[device].share);
                shares.sum::<f64>() / 10.0
            }))
        };
        let last = outcomes.last();
        Self {
            cell: cell.name.clone(),
            scheme: scheme.name(),
            seeds: outcomes.len() as u64,
            tenants: (0..cell.tenants.len())
                .map(|tenant| Tenant::of(cell, tenant, outcomes))
                .collect(),
            total_percent: devices.map(total).collect(),
            figures: figures(cell, outcomes),
            missed: missed as u64,
            misses: all_misses
                .into_iter()
                .find(|misses| !misses.is_empty())
                .unwrap_or_default(),
            switches: last
                .and_then(|one| one.switches.first().copied())
                .unwrap_or(0.0),
        }
    }

    /// What the containers got, as `10.0 89.6`, devices with strokes between.
    #[must_use]
    pub fn got(&self, digits: usize) -> String {
        let tenants = self.tenants.iter().map(|tenant| {
            let shares = tenant
                .got_percent
                .iter()
                .map(|got| format!("{got:.digits$}"));
            shares.collect::<Vec<_>>().join("/")
        });
        tenants.collect::<Vec<_>>().join(" ")
    }
}

impl Tenant {
    fn of(cell: &Cell, tenant: usize, outcomes: &[Outcome]) -> Self {
        let got = || outcomes.iter().map(move |outcome| &outcome.got[tenant]);
        let share = |device: usize| got().map(move |got| got[device].share / 10.0);
        let spread = (0..cell.devices).map(|device| {
            let (least, most) = range(share(device));
            most - least
        });
        let asked = cell.asked.get(tenant).copied().flatten();
        let windows = got().flatten().flat_map(|got| &got.windows);
        let worst = asked.and_then(|asked| {
            let far = |window: &f64| (window - asked).abs();
            windows.max_by(|one, other| far(one).total_cmp(&far(other)))
        });
        let sum = |of: fn(&crate::outcome::Got) -> f64| {
            mean(got().map(|devices| devices.iter().map(of).sum::<f64>()))
        };
        Self {
            asked_percent: asked.map(|asked| asked / 10.0),
            got_percent: (0..cell.devices)
                .map(|device| mean(share(device)))
                .collect(),
            spread: spread.fold(0.0, f64::max),
            worst_second_percent: worst.map(|worst| worst / 10.0),
            launches: sum(|got| got.launches),
            events: sum(|got| got.events),
            events_percent: sum(|got| got.event_cost) / cell.devices as f64,
            charged_percent: (0..cell.devices)
                .map(|device| mean(got().map(|got| got[device].charged / 10.0)))
                .collect(),
            waits: (sum(|got| got.waits), sum(|got| got.forced)),
        }
    }
}

fn figures(cell: &Cell, outcomes: &[Outcome]) -> Vec<Figure> {
    let Some(of) = cell.figures else {
        return Vec::new();
    };
    let each: Vec<_> = outcomes.iter().map(of).collect();
    let first = each.first().into_iter().flatten();
    first
        .enumerate()
        .map(|(index, figure)| {
            let values = || each.iter().map(move |figures| figures[index].value);
            Figure {
                name: figure.name.clone(),
                value: mean(values()),
                range: range(values()),
                goal: figure.goal,
            }
        })
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), value| (least.min(value), most.max(value)),
    )
}
