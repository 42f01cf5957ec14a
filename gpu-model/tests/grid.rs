//! The whole grid, for the scheme that is chosen: who met a goal goes on meeting it, and what misses one is written down.

use std::collections::BTreeMap;

use gpu_model::cell::Scheme;
use gpu_model::runner::{self, Plan};

/// Cells that miss a goal, each with what it got.
const KNOWN: &str = include_str!("known-misses.txt");
/// Writes that file.
const COMMAND: &str =
    "cargo run -p gpu-model -- --schemes turns --quick --misses gpu-model/tests/known-misses.txt";

#[test]
fn goals_are_met_but_for_the_known_misses() {
    let known: BTreeMap<&str, &str> = KNOWN
        .lines()
        .filter_map(|line| line.split_once(" | "))
        .collect();
    let plan = Plan {
        only: String::new(),
        schemes: vec![Scheme::Turns],
        seeds: (1, 1),
        set: Vec::new(),
        seconds: None,
        quick: true,
    };
    let rows = runner::run(&plan, |_| ()).unwrap();
    assert!(rows.len() > 250, "{} cells", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let now = format!("{} | {}", row.got(1), row.misses.join(", "));
        match (row.missed > 0, known.get(row.cell.as_str())) {
            (true, None) => wrong.push(format!("{} misses its goals: {now}", row.cell)),
            (false, Some(was)) => wrong.push(format!(
                "{} meets its goals now: {}; it was {was}",
                row.cell,
                row.got(1)
            )),
            (true, Some(_)) | (false, None) => {}
        }
    }
    for cell in known.keys() {
        if !rows.iter().any(|row| row.cell == *cell) {
            wrong.push(format!("{cell} is no cell any more"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nWhere that is as it should be: {COMMAND}",
        wrong.join("\n")
    );
}
