//! The cells: who runs what, what each asks for, and how near it has to come.

use quota_daemon::model::Compute;

use crate::cell::Tenant;
use crate::params::{MS, SECOND, US};
use crate::workload::{self, Program};

/// A cell of the grid.
#[derive(Clone)]
pub struct Cell {
    /// What it is called: group, kinds and shares.
    pub name: String,
    /// Whether a daemon rules; else each process has its own variables.
    pub daemon: bool,
    /// GPUs.
    pub devices: usize,
    /// Streams of each context.
    pub streams: usize,
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
    /// What is measured, ns.
    pub measured: u64,
    /// What is left out before, ns.
    pub warm_up: u64,
}

impl Cell {
    fn new(name: String, tenants: Vec<Tenant>, asked: &[f64]) -> Self {
        Self {
            name,
            daemon: true,
            devices: 1,
            streams: 1,
            tenants,
            asked: asked.iter().copied().map(Some).collect(),
            within: 20.0,
            in_windows: None,
            total: None,
            measured: 10 * SECOND,
            warm_up: 1500 * MS,
        }
    }

    fn full(mut self) -> Self {
        self.total = Some(985.0);
        self
    }
}

/// A limit in per cent.
#[must_use]
pub const fn limit(percent: u32) -> Compute {
    Compute::Limit {
        ppm: percent * 10_000,
    }
}

/// A weight.
#[must_use]
pub const fn weight(weight: u32) -> Compute {
    Compute::Share {
        weight,
        cap_ppm: None,
    }
}

/// The kinds of kernels.
#[must_use]
pub fn kinds() -> Vec<(&'static str, Program)> {
    vec![
        ("5us", workload::saturate(5 * US)),
        ("20us", workload::saturate(20 * US)),
        ("100us", workload::saturate(100 * US)),
        ("500us", workload::saturate(500 * US)),
        ("5ms", workload::saturate(5 * MS)),
        ("50ms", workload::saturate(50 * MS)),
        ("200ms", workload::saturate(200 * MS)),
        ("mixture", workload::mixture()),
        ("phases", workload::phases()),
        ("new-shapes", workload::new_shapes(100 * US)),
        ("graph-1", workload::graphs(1)),
        ("graph-10", workload::graphs(10)),
        ("graph-1000", workload::graphs(1000)),
    ]
}

/// Each kind alone, under a limit of its own.
fn alone() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (kind, program) in kinds() {
        for percent in [2, 10, 30, 50, 80, 95] {
            let tenants = vec![Tenant::new(limit(percent), program.clone())];
            let asked = f64::from(percent) * 10.0;
            let mut cell = Cell::new(format!("alone/{kind}/{percent}"), tenants, &[asked]);
            cell.daemon = false;
            let long = kind == "200ms";
            cell.within = if long { 30.0 } else { 10.0 };
            cell.in_windows = (!long).then_some(30.0);
            cells.push(cell);
        }
    }
    cells
}

/// Two of them, of equal and of unequal kernels, by weight and by limit.
fn pairs() -> Vec<Cell> {
    let kinds = kinds();
    let unequal = [
        ("20us", "5ms"),
        ("5ms", "20us"),
        ("100us", "mixture"),
        ("mixture", "100us"),
        ("50ms", "20us"),
        ("20us", "50ms"),
        ("phases", "500us"),
        ("500us", "new-shapes"),
        ("graph-1000", "20us"),
        ("20us", "graph-1000"),
    ];
    let equal = kinds.iter().map(|(kind, _)| (*kind, *kind));
    let mut cells = Vec::new();
    for (one, other) in equal.chain(unequal) {
        let find = |name: &str| {
            let found = kinds.iter().find(|(kind, _)| *kind == name);
            found.map_or_else(workload::idle, |(_, program)| program.clone())
        };
        for (first, second) in [(10, 90), (25, 75), (50, 50)] {
            for (rule, compute) in [("weights", weight as fn(u32) -> Compute), ("limits", limit)] {
                let tenants = vec![
                    Tenant::new(compute(first), find(one)),
                    Tenant::new(compute(second), find(other)),
                ];
                let asked = [f64::from(first) * 10.0, f64::from(second) * 10.0];
                let name = format!("pair-{rule}/{one}+{other}/{first}+{second}");
                cells.push(Cell::new(name, tenants, &asked).full());
            }
        }
    }
    cells
}

/// All cells.
#[must_use]
pub fn all() -> Vec<Cell> {
    let mut cells = alone();
    cells.extend(pairs());
    cells
}
