//! Model beside real: the same cells in virtual time and on the simulated GPU.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{Args, Got, by_device, remark};
use crate::workspace;

/// What is compared.
pub(in crate::bench) struct Beside<'a> {
    /// The whole grid instead of a dozen.
    pub(in crate::bench) full: bool,
    /// Only cells whose names contain this.
    pub(in crate::bench) only: Option<&'a str>,
    /// How containers are kept to their shares: `turns` or `slices`.
    pub(in crate::bench) scheme: &'a str,
    /// Where the model's chance begins.
    pub(in crate::bench) seed: u64,
    /// Seconds that are measured of each cell in real time.
    pub(in crate::bench) seconds: u32,
    /// The artefacts to run; none: build them.
    pub(in crate::bench) dist: Option<&'a Path>,
}

/// What the model writes, as far as it is read here.
#[derive(Deserialize)]
struct Record {
    rows: Vec<Row>,
}

#[derive(Clone, Deserialize)]
struct Row {
    cell: String,
    scheme: String,
    tenants: Vec<Tenant>,
    total_percent: Vec<f64>,
}

#[derive(Clone, Deserialize)]
struct Tenant {
    got_percent: Vec<f64>,
}

/// Runs each cell in both worlds, and prints a row of each.
///
/// # Errors
/// When something cannot be built or run.
pub(in crate::bench) fn beside(what: &Beside<'_>) -> Result<()> {
    ensure!(
        ["turns", "slices"].contains(&what.scheme),
        "in real time containers are kept to their shares by turns or slices, not by {}: give one of these first with --schemes",
        what.scheme
    );
    let args = Args {
        full: what.full,
        cell: Vec::new(),
        only: what.only.unwrap_or_default().into(),
        seconds: what.seconds,
        daemon: format!("turns = {}", what.scheme == "turns"),
        dist: what.dist.map(Path::to_path_buf),
        json: false,
    };
    println!("| cell | asked | model | real | all together: model | real |");
    println!("|---|---|---|---|--:|--:|");
    super::each(&args, |got| {
        let row = in_the_model(what, &got.cell)?;
        print(&got, row.as_ref());
        Ok(())
    })
}

/// The model's row of a cell; `None` where its grid has no such cell.
fn in_the_model(what: &Beside<'_>, cell: &str) -> Result<Option<Row>> {
    let file = workspace::target().join("bench/share-beside.json");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&cargo)
        .current_dir(workspace::root())
        .args(["run", "--quiet", "--package", "gpu-model", "--"])
        .args(["--schemes", what.scheme, "--only", cell])
        .args(["--seed", &what.seed.to_string()])
        .arg("--json")
        .arg(&file)
        .output()
        .with_context(|| format!("cannot start {}", cargo.display()))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        eprintln!("{cell}: not in the model: {}", complaint.trim());
        return Ok(None);
    }
    row(&file, cell, what.scheme)
}

fn row(file: &Path, cell: &str, scheme: &str) -> Result<Option<Row>> {
    let text = std::fs::read_to_string(file)?;
    let record: Record = serde_json::from_str(&text)
        .with_context(|| format!("{} is not as expected", file.display()))?;
    // A cell without a daemon has one scheme, whatever was asked for.
    let fits = |row: &&Row| row.cell == cell && [scheme, "limit"].contains(&row.scheme.as_str());
    Ok(record.rows.iter().find(fits).cloned())
}

fn print(got: &Got, row: Option<&Row>) {
    let asked = got
        .containers
        .iter()
        .map(|one| format!("{:.0}", one.asked_percent));
    let real = got.containers.iter().map(|one| by_device(&one.got_percent));
    let model = row.map_or_else(
        || "-".into(),
        |row| {
            let each = row.tenants.iter().map(|one| by_device(&one.got_percent));
            each.collect::<Vec<_>>().join(" + ")
        },
    );
    println!(
        "| {}{} | {} | {model} | {} | {} | {} |",
        got.cell,
        remark(got),
        asked.collect::<Vec<_>>().join(" + "),
        real.collect::<Vec<_>>().join(" + "),
        row.map_or_else(|| "-".into(), |row| by_device(&row.total_percent)),
        by_device(&got.busy_percent),
    );
}
