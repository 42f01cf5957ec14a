//! Each kind of work alone, under a limit of its own and without a daemon.

use super::{Cell, WORKS, limit, work};
use crate::cell::Tenant;
use crate::params::{MS, SECOND};

pub(super) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    let other = ["sync100us", "training", "decode", "two-streams"];
    for name in WORKS.into_iter().chain(other) {
        for percent in [2, 10, 30, 50, 80, 95] {
            if other.contains(&name) && percent > 50 {
                // It does not want that much.
                continue;
            }
            let tenants = vec![Tenant::new(limit(percent), work(name))];
            let asked = f64::from(percent) * 10.0;
            let mut cell = Cell::new(format!("alone/{name}/{percent}"), tenants, &[asked]);
            cell.daemon = false;
            if name != "200ms" {
                cell.within = 10.0;
                cell.in_windows = Some(30.0);
            }
            let kernel = match name {
                "50ms" => 50 * MS,
                "200ms" => 200 * MS,
                _ => 0,
            };
            // Kernels that are queued before the first one has shown how long they are get ahead of the share, and that is waited
            // for: what is judged comes after it.
            let ahead = kernel * 8 * 100 / u64::from(percent);
            cell.warm_up = (1500 * MS).max(ahead);
            if kernel * 100 / u64::from(percent) > SECOND {
                // A second holds one kernel or none.
                cell.in_windows = None;
            }
            cells.push(cell);
        }
    }
    cells
}
