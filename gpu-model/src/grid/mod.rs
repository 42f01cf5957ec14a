//! The cells: who runs what, what each asks for, and how near it has to come.

mod alone;
mod groups;
mod pairs;
mod stories;

use quota_daemon::model::Compute;

use crate::cell::{Deed, Scheme, Setup, Tenant};
use crate::outcome::Outcome;
use crate::params::{MS, SECOND, US};
use crate::workload::{self, Program};

/// A figure besides the shares, and what it has to be.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it is, with its unit.
    pub name: String,
    /// How much.
    pub value: f64,
    /// The least and the most that it may be.
    pub goal: Option<(f64, f64)>,
}

/// A cell of the grid.
#[derive(Clone)]
pub struct Cell {
    /// What it is called: group, work and shares.
    pub name: String,
    /// Whether a daemon rules; else each process has its own variables.
    pub daemon: bool,
    /// GPUs.
    pub devices: usize,
    /// Containers.
    pub tenants: Vec<Tenant>,
    /// What each asks for, per mille of a device; `None`: it is not judged.
    pub asked: Vec<Option<f64>>,
    /// How far from it each may be over all the time, per mille.
    pub within: f64,
    /// And in each window of a second.
    pub in_windows: Option<f64>,
    /// What all together have to use at least, per mille.
    pub total: Option<f64>,
    /// What is left out before, ns.
    pub warm_up: u64,
    /// What is measured, ns.
    pub measured: u64,
    /// What is done meanwhile.
    pub deeds: Vec<(u64, Deed)>,
    /// What else comes of it.
    pub figures: Option<fn(&Outcome) -> Vec<Figure>>,
}

impl Cell {
    fn new(name: String, tenants: Vec<Tenant>, asked: &[f64]) -> Self {
        let mut cell = Self {
            name,
            daemon: true,
            devices: 1,
            tenants,
            asked: asked.iter().copied().map(Some).collect(),
            within: 20.0,
            in_windows: None,
            total: None,
            warm_up: 1500 * MS,
            measured: 10 * SECOND,
            deeds: Vec::new(),
            figures: None,
        };
        if cell.name.contains("200ms") {
            // One more or less is two points of ten seconds.
            cell.within = 30.0;
        }
        cell
    }

    /// All together have to use the whole device.
    fn full(mut self) -> Self {
        self.total = Some(985.0);
        self
    }

    /// Whether it has many launches, so that it takes long to run.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        let short = ["5us", "20us", "graph-1+", "graph-1/"];
        self.figures.is_none() && short.iter().any(|name| self.name.contains(name))
    }

    /// What there is to run, under a scheme of those that serve here: a cell without a daemon has no turns.
    #[must_use]
    pub fn setup(&self, scheme: Scheme, seed: u64) -> Setup {
        let scheme = if scheme.is_ruled() && !self.daemon {
            Scheme::Alone
        } else {
            scheme
        };
        Setup {
            devices: self.devices,
            warm_up: self.warm_up,
            measured: self.measured,
            deeds: self.deeds.clone(),
            seed,
            ..Setup::new(scheme, self.tenants.clone())
        }
    }
}

/// A limit in per cent.
pub(super) const fn limit(percent: u32) -> Compute {
    Compute::Limit {
        ppm: percent * 10_000,
    }
}

/// A weight.
pub(super) const fn weight(weight: u32) -> Compute {
    Compute::Share {
        weight,
        cap_ppm: None,
    }
}

/// The kinds of work that want the GPU all the time.
const WORKS: [&str; 13] = [
    "5us",
    "20us",
    "100us",
    "500us",
    "5ms",
    "50ms",
    "200ms",
    "mixture",
    "phases",
    "new-shapes",
    "graph-1",
    "graph-10",
    "graph-1000",
];

/// The program of a kind of work.
#[expect(
    clippy::panic,
    reason = "the names are the grid's own; a wrong one has to stop it"
)]
fn work(name: &str) -> Program {
    match name {
        "5us" => workload::saturate(5 * US),
        "20us" => workload::saturate(20 * US),
        "100us" => workload::saturate(100 * US),
        "500us" => workload::saturate(500 * US),
        "1ms" => workload::saturate(MS),
        "5ms" => workload::saturate(5 * MS),
        "50ms" => workload::saturate(50 * MS),
        "200ms" => workload::saturate(200 * MS),
        "mixture" => workload::mixture(),
        "phases" => workload::phases(),
        "new-shapes" => workload::new_shapes(100 * US),
        "graph-1" => workload::graphs(1),
        "graph-10" => workload::graphs(10),
        "graph-1000" => workload::graphs(1000),
        "sync100us" => workload::one_by_one(100 * US),
        "training" => workload::training(),
        "two-streams" => workload::on_streams(2, 100 * US),
        "barrier" => workload::barriers(MS),
        "collective" => workload::collectives(MS),
        "burst" => workload::bursts(1, MS),
        "inference" => workload::inference(),
        "decode" => workload::decode(),
        other => panic!("no work is called {other:?}"),
    }
}

/// All cells.
#[must_use]
pub fn all() -> Vec<Cell> {
    let mut cells = alone::cells();
    cells.extend(pairs::cells());
    cells.extend(groups::cells());
    cells.extend(stories::cells());
    cells
}
