//! The table for a terminal, and the file.

use serde::Serialize;

use crate::row::Row;

/// What is written to the file.
#[derive(Serialize)]
pub struct File<'a> {
    /// Of this form.
    pub version: u32,
    /// The first seed.
    pub seed: u64,
    /// The rows, in the order of the grid.
    pub rows: &'a [Row],
}

/// The cells that miss a goal, one a line: name, what each got, what was missed.
#[must_use]
pub fn known_misses(rows: &[Row]) -> String {
    let missed = rows.iter().filter(|row| row.missed > 0);
    let line = |row: &Row| {
        format!(
            "{} | {} | {}\n",
            row.cell,
            row.got(1),
            row.misses.join(", ")
        )
    };
    missed.map(line).collect()
}

/// Prints a row.
pub fn print(row: &Row, verbose: bool) {
    let misses = if row.missed == 0 {
        String::new()
    } else if row.seeds > 1 {
        format!(
            "MISSED {} of {}: {}",
            row.missed,
            row.seeds,
            row.misses.join(", ")
        )
    } else {
        format!("MISSED: {}", row.misses.join(", "))
    };
    let totals = row.total_percent.iter().map(|total| format!("{total:.1}"));
    println!(
        "{:46} {:7} got {:18} total {:11} {misses}",
        row.cell,
        row.scheme,
        row.got(1),
        totals.collect::<Vec<_>>().join("/"),
    );
    if verbose {
        for (number, tenant) in (1..).zip(&row.tenants) {
            let charged = tenant
                .charged_percent
                .iter()
                .map(|part| format!("{part:.1}"));
            println!(
                "    {number}: charged {} %, spread {:.1}, worst second {:.1} %; a second: {:.0} launches, {:.0} waited, {:.0} forced, {:.0} events ({:.2} % of the GPU)",
                charged.collect::<Vec<_>>().join("/"),
                tenant.spread,
                tenant.worst_second_percent.unwrap_or(f64::NAN),
                tenant.launches,
                tenant.waits.0,
                tenant.waits.1,
                tenant.events,
                tenant.events_percent,
            );
        }
        println!("    {:.0} changes of contexts a second", row.switches);
    }
    for figure in &row.figures {
        let (least, most) = figure.range;
        let met = figure
            .goal
            .is_none_or(|(from, to)| least >= from && most <= to);
        if verbose || !met || figure.goal.is_none() {
            let range = if row.seeds > 1 {
                format!(" ({least:.2} to {most:.2})")
            } else {
                String::new()
            };
            println!("    {}: {:.2}{range}", figure.name, figure.value);
        }
    }
}
