//! Rows beside their targets.

use serde::Serialize;

use super::hooks::Row;

/// What a row may add at most, in nanoseconds, and what it measures.
const TARGETS: [(&str, f64, &str); 12] = [
    ("launch", 8.0, "cuLaunchKernel, no limit"),
    ("launch-limited", 20.0, "cuLaunchKernel, limited"),
    ("graph-limited", 30.0, "cuGraphLaunch, limited"),
    ("alloc", 60.0, "cuMemAlloc + cuMemFree"),
    ("alloc-live-1000", 80.0, "the same, 1,000 live"),
    ("alloc-live-10000", 80.0, "the same, 10,000 live"),
    ("alloc-live-50000", 80.0, "the same, 50,000 live"),
    ("alloc-32-processes", 200.0, "the same, 32 processes"),
    ("alloc-128-processes", 200.0, "the same, 128 processes"),
    ("info", 50.0, "cuMemGetInfo"),
    ("lookup", 300.0, "cuGetProcAddress"),
    ("start", 300_000.0, "start of a process without GPU"),
];

/// A row and what is to be thought of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Judged {
    what: String,
    #[serde(flatten)]
    row: Row,
    target: Option<f64>,
    met: Option<bool>,
}

/// Finds each row's target; it is met when the median is at most that.
pub(super) fn judge(rows: Vec<Row>) -> Vec<Judged> {
    rows.into_iter()
        .map(|row| {
            let target = TARGETS.iter().find(|(name, ..)| *name == row.row);
            let what = target.map_or_else(|| row.row.clone(), |(.., what)| (*what).to_string());
            let limit = target.map(|(_, limit, _)| *limit);
            let met = limit.map(|limit| row.added.median <= limit);
            Judged {
                what,
                row,
                target: limit,
                met,
            }
        })
        .collect()
}

/// Prints a table that is also Markdown.
pub(super) fn print(rows: &[Judged]) {
    println!("| call | threads | bare | hooked | added (middle half) | target | |");
    println!("|---|--:|--:|--:|--:|--:|---|");
    for Judged {
        what,
        row,
        target,
        met,
    } in rows
    {
        let target = target.map_or_else(|| "-".into(), |limit| format!("<= {limit:.0}"));
        let met = match met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        println!(
            "| {what} | {} | {:.1} | {:.1} | {:+.1} ({:+.1} to {:+.1}) | {target} | {met} |",
            row.threads,
            row.bare.median,
            row.hooked.median,
            row.added.median,
            row.added.p25,
            row.added.p75
        );
    }
    println!("\nNanoseconds a call, medians over turns of bare and hooked calls in one process.");
    println!("Rows of several threads count each thread's CPU time.");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::hooks::Quartiles;

    fn row(name: &str, added: f64) -> Row {
        let added = Quartiles {
            p25: added,
            median: added,
            p75: added,
        };
        let none = Quartiles::default();
        Row {
            row: name.into(),
            threads: 1,
            turns: 1,
            bare: none,
            hooked: none,
            added,
        }
    }

    #[test]
    fn a_target_is_met_at_its_figure_and_missed_above() {
        let judged = judge(vec![
            row("launch", 8.0),
            row("launch", 8.1),
            row("unknown", 1e9),
        ]);
        let met: Vec<_> = judged.iter().map(|row| row.met).collect();
        assert_eq!(met, [Some(true), Some(false), None]);
    }
}
