//! Things that happen: somebody goes and comes back, a burst beside a crowd, a changed limit, a death.

use super::{Cell, Figure, limit, weight, work};
use crate::cell::{Deed, Tenant};
use crate::outcome::Outcome;
use crate::params::{MS, SECOND, US};
use crate::workload;
use quota_daemon::model::Compute;

/// When something happens, after the beginning.
const FIRST: u64 = 4 * SECOND;
const SECOND_ONE: u64 = 7 * SECOND;

pub(super) fn cells() -> Vec<Cell> {
    let mut cells = worked_example();
    cells.extend(priority());
    cells.extend(changed());
    cells.extend(deaths());
    cells
}

/// A share of a stretch of time in per cent, and what it has to be within two points.
fn part(outcome: &Outcome, tenant: usize, from: u64, to: u64, what: &str, percent: f64) -> Figure {
    let got = &outcome.got[tenant][0];
    Figure {
        name: format!("{} {what}, %", tenant + 1),
        value: got.between(from, to) / 10.0,
        goal: Some((percent - 2.0, percent + 2.0)),
    }
}

/// How long after `from` it takes until a container has so much of the device over 100 ms, in ms.
fn has_back(outcome: &Outcome, tenant: usize, from: u64, percent: f64) -> f64 {
    let got = &outcome.got[tenant][0];
    let late = (0..200).find(|step| {
        let begin = from + step * 10 * MS;
        got.between(begin, begin + 100 * MS) >= (percent - 2.0) * 10.0
    });
    late.map_or(f64::INFINITY, |step| step as f64 * 10.0)
}

/// 5, 5 and 10; the third is idle for three seconds.
fn worked_example() -> Vec<Cell> {
    let figures = |outcome: &Outcome| {
        let mut figures = Vec::new();
        for (tenant, all) in [25.0, 25.0, 50.0].into_iter().enumerate() {
            figures.push(part(outcome, tenant, 1500 * MS, FIRST, "before", all));
        }
        for (tenant, two) in [50.0, 50.0, 0.0].into_iter().enumerate() {
            let from = FIRST + 200 * MS;
            figures.push(part(
                outcome,
                tenant,
                from,
                SECOND_ONE,
                "while the third is idle",
                two,
            ));
        }
        for (tenant, all) in [25.0, 25.0, 50.0].into_iter().enumerate() {
            let from = SECOND_ONE + 100 * MS;
            figures.push(part(outcome, tenant, from, 11_500 * MS, "after", all));
        }
        figures.push(Figure {
            name: "until the third has its share, ms".into(),
            value: has_back(outcome, 2, SECOND_ONE, 50.0),
            goal: Some((0.0, 100.0)),
        });
        figures
    };
    let works = ["20us", "500us", "5ms", "mixture"];
    let cells = works.map(|name| {
        let kernel = match name {
            "20us" => 20 * US,
            "5ms" => 5 * MS,
            _ => 500 * US,
        };
        let tenants = vec![
            Tenant::new(weight(5), work(name)),
            Tenant::new(weight(5), work(name)),
            Tenant::new(
                weight(10),
                workload::idle_between(FIRST, SECOND_ONE, kernel),
            ),
        ];
        let mut cell = Cell::new(format!("story/lent/{name}"), tenants, &[]);
        cell.asked = vec![None; 3];
        cell.total = Some(985.0);
        cell.figures = Some(figures);
        cell
    });
    cells.into()
}

/// A millisecond of work each 50 ms: alone, beside one that wants everything, and before it.
fn priority() -> Vec<Cell> {
    let figures = |outcome: &Outcome| {
        let took = outcome.latencies(0);
        let at = |part: usize| {
            let index = took.len().saturating_sub(1) * part / 100;
            took.get(index).map_or(f64::NAN, |took| *took as f64 / 1e6)
        };
        [("50 %", 50), ("99 %", 99), ("longest", 100)]
            .map(|(name, part)| Figure {
                name: format!("latency {name}, ms"),
                value: at(part),
                goal: None,
            })
            .into()
    };
    let mut cells = Vec::new();
    for steady in ["20us", "500us", "5ms", "mixture"] {
        for (name, neighbour, priority) in [
            ("without", true, 0),
            ("with", true, 10),
            ("alone", false, 0),
        ] {
            if !neighbour && steady != "20us" {
                continue;
            }
            let mut burst = Tenant::new(weight(50), workload::bursts(10, 100 * US));
            burst.priority = priority;
            let mut tenants = vec![burst];
            if neighbour {
                tenants.push(Tenant::new(weight(50), work(steady)));
            }
            let name = if neighbour {
                format!("story/priority/{steady}/{name}")
            } else {
                format!("story/priority/{name}")
            };
            let mut cell = Cell::new(name, tenants, &[20.0]);
            cell.figures = Some(figures);
            cells.push(cell);
        }
    }
    cells
}

/// A limit that is changed while launches wait for it.
fn changed() -> Vec<Cell> {
    let figures = |outcome: &Outcome| {
        let got = &outcome.got[0][0];
        vec![
            part(outcome, 0, 1500 * MS, FIRST, "before", 10.0),
            Figure {
                name: "in the 100 ms after the first 10, %".into(),
                value: got.between(FIRST + 10 * MS, FIRST + 110 * MS) / 10.0,
                goal: Some((75.0, 85.0)),
            },
            part(outcome, 0, FIRST + 100 * MS, SECOND_ONE, "at 80 %", 80.0),
            Figure {
                name: "in the second after it is 10 % again".into(),
                value: got.between(SECOND_ONE, SECOND_ONE + SECOND) / 10.0,
                goal: Some((7.0, 13.0)),
            },
        ]
    };
    let works = ["20us", "500us", "5ms"];
    let cells = works.map(|name| {
        let tenants = vec![Tenant::new(limit(10), work(name))];
        let mut cell = Cell::new(format!("story/changed/{name}"), tenants, &[]);
        cell.asked = vec![None];
        cell.deeds = vec![
            (FIRST, Deed::Rule(0, limit(80))),
            (SECOND_ONE, Deed::Rule(0, limit(10))),
        ];
        cell.figures = Some(figures);
        cell
    });
    let mut cells = Vec::from(cells);
    let wakes = |outcome: &Outcome| {
        let got = &outcome.got[0][0];
        let works = |step: &u64| {
            let begin = FIRST + step * 10 * MS;
            got.between(begin, begin + 10 * MS) > 900.0
        };
        let late = (0..100).find(works);
        vec![Figure {
            name: "until 10 ms are full of work, ms".into(),
            value: late.map_or(f64::INFINITY, |step| step as f64 * 10.0),
            goal: Some((0.0, 10.0)),
        }]
    };
    for (name, rule) in [("raised", limit(99)), ("lifted", Compute::Free)] {
        let tenants = vec![Tenant::new(limit(2), work("5ms"))];
        let mut cell = Cell::new(format!("story/{name}/5ms"), tenants, &[]);
        cell.asked = vec![None];
        cell.deeds = vec![(FIRST, Deed::Rule(0, rule))];
        cell.figures = Some(wakes);
        cells.push(cell);
    }
    cells
}

/// Processes are killed, or the daemon.
fn deaths() -> Vec<Cell> {
    let killed = |outcome: &Outcome| {
        let mut figures = Vec::new();
        for tenant in [0, 1] {
            let from = FIRST + 100 * MS;
            figures.push(part(
                outcome,
                tenant,
                from,
                11_500 * MS,
                "after the third's death",
                30.0,
            ));
            let got = &outcome.got[tenant][0];
            figures.push(Figure {
                name: format!("{} in the first 100 ms of it, %", tenant + 1),
                value: got.between(FIRST, FIRST + 100 * MS) / 10.0,
                goal: None,
            });
        }
        figures
    };
    let reborn = |outcome: &Outcome| {
        let mut figures = Vec::new();
        for (tenant, percent) in [(0, 25.0), (1, 75.0)] {
            let (dead, new) = (FIRST + 200 * MS, SECOND_ONE + 200 * MS);
            figures.push(part(
                outcome,
                tenant,
                dead,
                SECOND_ONE,
                "without a daemon",
                percent,
            ));
            figures.push(part(
                outcome,
                tenant,
                new,
                11_500 * MS,
                "with a new one",
                percent,
            ));
        }
        figures
    };
    let mut cells = Vec::new();
    for name in ["20us", "500us", "5ms"] {
        let mut tenants = vec![Tenant::new(limit(30), work(name)); 2];
        tenants.push(Tenant::of(limit(30), 8, &work(name)));
        let mut cell = Cell::new(format!("story/killed/{name}"), tenants, &[]);
        cell.asked = vec![None; 3];
        // At odd moments: while they wait, hold an admission or a turn, and have events in flight.
        let kill = |one: usize| (FIRST + one as u64 * 231_700_000, Deed::Kill(2, one));
        cell.deeds = (0..8).map(kill).collect();
        cell.figures = Some(killed);
        cells.push(cell);
        let tenants = vec![
            Tenant::new(weight(1), work(name)),
            Tenant::new(weight(3), work(name)),
        ];
        let mut cell = Cell::new(format!("story/daemon-dies/{name}"), tenants, &[]);
        cell.asked = vec![None; 2];
        cell.deeds = vec![(FIRST, Deed::KillDaemon), (SECOND_ONE, Deed::StartDaemon)];
        cell.figures = Some(reborn);
        cells.push(cell);
    }
    cells
}
