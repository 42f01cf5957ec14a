//! Whether a cell meets its goals.

use crate::grid::Cell;
use crate::outcome::Outcome;

/// What is wrong with an outcome, in words; empty: nothing.
#[must_use]
pub fn misses(cell: &Cell, outcome: &Outcome) -> Vec<String> {
    let mut misses = Vec::new();
    let mut totals = vec![0.0; cell.devices];
    for (number, (asked, got)) in cell.asked.iter().zip(&outcome.got).enumerate() {
        for (device, got) in got.iter().enumerate() {
            totals[device] += got.share;
            let Some(asked) = asked else {
                continue;
            };
            let off = got.share - asked;
            if off.abs() > cell.within {
                misses.push(format!("{}: {:+.1} points", number + 1, off / 10.0));
            }
            let Some(most) = cell.in_windows else {
                continue;
            };
            let furthest = got.windows.iter().map(|window| window - asked);
            let furthest = furthest.max_by(|one, other| one.abs().total_cmp(&other.abs()));
            if let Some(furthest) = furthest.filter(|furthest| furthest.abs() > most) {
                misses.push(format!(
                    "{}: {:+.1} in a second",
                    number + 1,
                    furthest / 10.0
                ));
            }
        }
    }
    if let Some(least) = cell.total {
        for total in totals.iter().filter(|total| **total < least) {
            misses.push(format!("{:.1} % in all", total / 10.0));
        }
    }
    for figure in cell.figures.map(|of| of(outcome)).into_iter().flatten() {
        let met = |(least, most): (f64, f64)| (least..=most).contains(&figure.value);
        if !figure.goal.is_none_or(met) {
            misses.push(format!("{}: {:.1}", figure.name, figure.value));
        }
    }
    misses
}
