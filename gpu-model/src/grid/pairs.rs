//! Two containers, of equal and of unequal work, by weight and by limit.

use quota_daemon::model::Compute;

use super::{Cell, WORKS, limit, weight, work};
use crate::cell::Tenant;
use crate::params::MS;

/// Unequal ones.
const UNEQUAL: [(&str, &str); 14] = [
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
    ("training", "500us"),
    ("training", "decode"),
    ("decode", "20us"),
    ("sync100us", "500us"),
];

pub(super) fn cells() -> Vec<Cell> {
    let equal = WORKS.map(|name| (name, name));
    let mut cells = Vec::new();
    for (group, compute) in [
        ("pair-weights", weight as fn(u32) -> Compute),
        ("pair-limits", limit),
    ] {
        for (one, other) in equal.into_iter().chain(UNEQUAL) {
            for (first, second) in [(10, 90), (25, 75), (50, 50)] {
                let tenants = vec![
                    Tenant::new(compute(first), work(one)),
                    Tenant::new(compute(second), work(other)),
                ];
                let asked = [f64::from(first) * 10.0, f64::from(second) * 10.0];
                let name = format!("{group}/{one}+{other}/{first}+{second}");
                let mut cell = Cell::new(name, tenants, &asked).full();
                if cell.name.contains("50ms") || cell.name.contains("200ms") {
                    cell.warm_up = 8000 * MS;
                }
                match one {
                    // It wants no more than a part of the device while it is alone, and asks for it in small pieces; what it
                    // leaves is the other's, where that may take it.
                    "sync100us" => cell.asked = vec![None, None],
                    "training" | "decode" if group == "pair-limits" => cell.total = None,
                    _ => {}
                }
                cells.push(cell);
            }
        }
    }
    cells
}
