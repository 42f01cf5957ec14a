//! Whether a cell meets its goals.

use crate::grid::Cell;
use crate::outcome::{Got, Outcome};

/// What is wrong with an outcome, in words; empty: nothing.
#[must_use]
pub fn misses(cell: &Cell, outcome: &Outcome) -> Vec<String> {
    let mut misses = Vec::new();
    let mut totals = vec![0.0; cell.devices];
    for (number, (asked, got)) in (1..).zip(cell.asked.iter().zip(&outcome.got)) {
        for (total, got) in totals.iter_mut().zip(got) {
            *total += got.share;
        }
        if let Some(asked) = asked {
            of_tenant(cell, number, *asked, got, &mut misses);
        }
    }
    let most = totals.into_iter().fold(0.0, f64::max);
    if let Some(least) = cell.total.filter(|least| most < *least) {
        misses.push(format!(
            "{:.1} % in all, of {:.1}",
            most / 10.0,
            least / 10.0
        ));
    }
    for figure in cell.figures.map(|of| of(outcome)).into_iter().flatten() {
        let met = |(least, most): (f64, f64)| (least..=most).contains(&figure.value);
        if !figure.goal.is_none_or(met) {
            misses.push(format!("{}: {:.1}", figure.name, figure.value));
        }
    }
    misses
}

/// A program whose kernels on several devices wait for each other is held by the device on which it has used most; it has to get what it
/// asked for there, and no more anywhere.
fn of_tenant(cell: &Cell, number: usize, asked: f64, got: &[Got], misses: &mut Vec<String>) {
    let most = got.iter().map(|got| got.share).fold(0.0, f64::max);
    let off = most - asked;
    if off.abs() > cell.within {
        misses.push(format!("{number}: {:+.1} points", off / 10.0));
    }
    let Some(bound) = cell.in_windows else {
        return;
    };
    let windows = got.iter().flat_map(|got| &got.windows);
    let furthest = windows
        .map(|window| window - asked)
        .max_by(|one, other| one.abs().total_cmp(&other.abs()));
    if let Some(furthest) = furthest.filter(|furthest| furthest.abs() > bound) {
        misses.push(format!("{number}: {:+.1} in a second", furthest / 10.0));
    }
}
