//! Three and more containers, bursts, many processes, several devices.

use super::{Cell, limit, weight, work};
use crate::cell::Tenant;
use crate::params::SECOND;
use crate::workload;

pub(super) fn cells() -> Vec<Cell> {
    let mut cells = three();
    cells.extend(bursty());
    cells.extend(processes());
    cells.extend(devices());
    cells
}

fn three() -> Vec<Cell> {
    let mixed = [
        ["20us"; 3],
        ["500us"; 3],
        ["5ms"; 3],
        ["mixture"; 3],
        ["20us", "5ms", "mixture"],
        ["training", "decode", "500us"],
    ];
    let mut cells = Vec::new();
    for works in mixed {
        let names = works.join("+");
        let limited = works.map(|name| Tenant::new(limit(30), work(name)));
        let name = format!("three-limits/{names}/30+30+30");
        cells.push(Cell::new(name, limited.into(), &[300.0; 3]));
        let weights = [5, 5, 10].map(weight);
        let weighted = weights
            .into_iter()
            .zip(works)
            .map(|(weight, name)| Tenant::new(weight, work(name)))
            .collect();
        let name = format!("three-weights/{names}/5+5+10");
        cells.push(Cell::new(name, weighted, &[250.0, 250.0, 500.0]).full());
    }
    cells
}

/// One that wants little and in bursts beside one that wants everything.
fn bursty() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (burst, wants) in [("burst", 20.0), ("inference", 100.0)] {
        for steady in ["20us", "100us", "500us", "5ms", "mixture"] {
            let tenants = vec![
                Tenant::new(weight(50), work(burst)),
                Tenant::new(weight(50), work(steady)),
            ];
            let name = format!("pair-weights/{burst}+{steady}/50+50");
            cells.push(Cell::new(name, tenants, &[wants, 1000.0 - wants]).full());
        }
    }
    cells
}

fn processes() -> Vec<Cell> {
    let mut cells = Vec::new();
    for name in ["20us", "500us", "5ms", "200ms"] {
        let tenants = vec![
            Tenant::of(weight(50), 8, &work(name)),
            Tenant::new(weight(50), work(name)),
        ];
        let mut cell = Cell::new(
            format!("processes-weights/{name}+{name}/50x8+50"),
            tenants,
            &[500.0; 2],
        )
        .full();
        if name == "200ms" {
            cell.warm_up = 20 * SECOND;
        }
        cells.push(cell);
        // Beside one that is idle, all of it.
        let tenants = vec![
            Tenant::of(weight(50), 8, &work(name)),
            Tenant::new(weight(50), workload::idle()),
        ];
        let name_idle = format!("processes-weights/{name}+idle/50x8+50");
        let mut cell = Cell::new(name_idle, tenants, &[1000.0]).full();
        cell.asked.push(None);
        cells.push(cell);
        // And alone, all processes on one bucket.
        let tenants = vec![Tenant::of(limit(30), 8, &work(name))];
        let mut cell = Cell::new(format!("alone/{name}/30x8"), tenants, &[300.0]);
        cell.daemon = false;
        cell.within = if name == "200ms" { 30.0 } else { 10.0 };
        if name == "200ms" {
            cell.warm_up = 60 * SECOND;
        }
        cells.push(cell);
    }
    cells
}

/// Kernels on two devices that wait for each other.
fn devices() -> Vec<Cell> {
    let mut cells = Vec::new();
    for name in ["barrier", "collective"] {
        for percent in [10, 30, 50] {
            let tenants = vec![Tenant::new(limit(percent), work(name))];
            let asked = f64::from(percent) * 10.0;
            let mut cell = Cell::new(
                format!("devices-limits/{name}/{percent}"),
                tenants,
                &[asked],
            );
            cell.devices = 2;
            cells.push(cell);
        }
        for (first, second) in [(25, 75), (50, 50)] {
            let tenants = vec![
                Tenant::new(weight(first), work(name)),
                Tenant::new(weight(second), work(name)),
            ];
            let asked = [f64::from(first) * 10.0, f64::from(second) * 10.0];
            let name = format!("devices-weights/{name}+{name}/{first}+{second}");
            let mut cell = Cell::new(name, tenants, &asked).full();
            cell.devices = 2;
            cells.push(cell);
        }
    }
    cells
}
