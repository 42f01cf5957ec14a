//! Runs many cells, on all processors.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::cell::Scheme;
use crate::grid::{self, Cell};
use crate::params::SECOND;
use crate::row::Row;
use crate::stage;

/// What is measured of a cell that is cut short.
const QUICK: u64 = 4 * SECOND;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Only cells whose names contain this.
    pub only: String,
    /// Under these schemes.
    pub schemes: Vec<Scheme>,
    /// With so many seeds from the first one on.
    pub seeds: (u64, u64),
    /// Parameters that are other than usual, see [`crate::params::Params::set`].
    pub set: Vec<String>,
    /// What is measured of each, in seconds; none: what the cell says.
    pub seconds: Option<u64>,
    /// Cells with the most launches are cut short.
    pub quick: bool,
}

/// Runs all of it; `done` is told of each row, in the order of the grid.
///
/// # Errors
/// No cell has such a name, a parameter is wrong, or there is no memory.
pub fn run(plan: &Plan, mut done: impl FnMut(&Row)) -> Result<Vec<Row>> {
    let jobs = jobs(plan, &grid::all());
    if jobs.is_empty() {
        bail!("no cell's name contains {:?}", plan.only);
    }
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let (send, receive) = mpsc::channel();
    let mut rows: Vec<Option<Row>> = vec![None; jobs.len()];
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (next, failed, jobs, send) = (&next, &failed, &jobs, send.clone());
            scope.spawn(move || {
                // Programs stay on the thread that made them.
                let cells = grid::all();
                while let Some((cell, scheme)) = jobs.get(next.fetch_add(1, Relaxed)).copied() {
                    match told(plan, &cells[cell], scheme) {
                        Ok(row) => drop(send.send((cell, scheme, row))),
                        Err(error) => {
                            next.store(usize::MAX / 2, Relaxed);
                            if let Ok(mut failed) = failed.lock() {
                                *failed = Some(error);
                            }
                        }
                    }
                }
            });
        }
        drop(send);
        let mut told = 0;
        for (cell, scheme, row) in receive {
            let place = jobs.iter().position(|job| *job == (cell, scheme));
            if let Some(place) = place {
                rows[place] = Some(row);
            }
            while let Some(Some(row)) = rows.get(told) {
                done(row);
                told += 1;
            }
        }
    });
    match failed.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(rows.into_iter().flatten().collect()),
    }
}

fn jobs(plan: &Plan, cells: &[Cell]) -> Vec<(usize, Scheme)> {
    let mut jobs = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        if !cell.name.contains(&plan.only) {
            continue;
        }
        for scheme in &plan.schemes {
            // What happens there is the daemon's doing.
            if cell.figures.is_some() && !scheme.is_ruled() {
                continue;
            }
            let job = (index, cell.setup(*scheme, 0).scheme);
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
    }
    jobs
}

/// A panic of the limiter or the controller is a finding: it is told of which cell.
fn told(plan: &Plan, cell: &Cell, scheme: Scheme) -> Result<Row> {
    let caught = panic::catch_unwind(AssertUnwindSafe(|| one(plan, cell, scheme)));
    caught
        .unwrap_or_else(|_| Err(anyhow!("it panicked")))
        .with_context(|| format!("in {} under {}", cell.name, scheme.name()))
}

fn one(plan: &Plan, cell: &Cell, scheme: Scheme) -> Result<Row> {
    let mut outcomes = Vec::new();
    for seed in plan.seeds.0..plan.seeds.0 + plan.seeds.1 {
        let mut setup = cell.setup(scheme, seed);
        for text in &plan.set {
            setup.params.set(text).map_err(anyhow::Error::msg)?;
        }
        if let Some(seconds) = plan.seconds.filter(|_| cell.figures.is_none()) {
            setup.measured = seconds * SECOND;
        }
        if plan.quick && cell.is_slow() {
            setup.measured = setup.measured.min(QUICK);
        }
        outcomes.push(stage::run(&setup)?);
    }
    Ok(Row::of(cell, scheme, &outcomes))
}
