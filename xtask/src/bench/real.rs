//! `cargo xtask bench real`: cells of the grid of shares in real time, on the simulated GPU, through the library and the daemon as
//! they are built.

mod beside;
mod cell;
mod play;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

pub(in crate::bench) use self::beside::{Beside, beside};
use self::cell::Cell;
use crate::{dist, workspace};

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The whole grid: an hour and more.
    #[arg(long)]
    full: bool,
    /// This cell; may be given several times. The names are those of `cargo xtask bench share`.
    #[arg(long, value_name = "NAME")]
    cell: Vec<String>,
    /// Only cells whose names contain this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Seconds that are measured of each cell.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Lines for the daemon's table of the configuration, as `turns = true`.
    #[arg(long, value_name = "TOML", default_value = "")]
    daemon: String,
    /// Use the artefacts in this folder instead of building them.
    #[arg(long, value_name = "FOLDER")]
    dist: Option<PathBuf>,
    /// Print a line of JSON for each cell instead of a table.
    #[arg(long)]
    json: bool,
}

/// What came of a cell.
#[derive(Clone, Debug, Serialize)]
pub(in crate::bench) struct Got {
    pub(in crate::bench) version: u32,
    pub(in crate::bench) cell: String,
    pub(in crate::bench) by: &'static str,
    pub(in crate::bench) seconds: u32,
    pub(in crate::bench) containers: Vec<ContainerGot>,
    /// How long this machine stood still meanwhile, if that is enough to be seen: then the figures say little.
    pub(in crate::bench) stalled_ms: Option<u64>,
    /// Of each device, by everybody.
    pub(in crate::bench) busy_percent: Vec<f64>,
}

/// What a container had.
#[derive(Clone, Debug, Serialize)]
pub(in crate::bench) struct ContainerGot {
    pub(in crate::bench) name: String,
    /// Of each device.
    pub(in crate::bench) asked_percent: f64,
    pub(in crate::bench) got_percent: Vec<f64>,
    /// The second that was furthest from what was asked, on any device.
    pub(in crate::bench) worst_window_percent: f64,
    /// How long each burst took, of a program that makes bursts.
    pub(in crate::bench) latency: Option<Latency>,
}

/// Of bursts, from launch to end.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::bench) struct Latency {
    pub(in crate::bench) count: u64,
    pub(in crate::bench) p50_us: u64,
    pub(in crate::bench) p95_us: u64,
    pub(in crate::bench) most_us: u64,
}

/// Builds, runs the cells and prints what came of them.
///
/// # Errors
/// When something cannot be built or started.
pub(super) fn run(args: &Args) -> Result<()> {
    let mut all = Vec::new();
    if !args.json {
        head();
    }
    each(args, |got| {
        if args.json {
            println!("{}", serde_json::to_string(&got)?);
        } else {
            print(&got);
        }
        all.push(got);
        Ok(())
    })?;
    let path = workspace::target().join("bench/share-real.json");
    std::fs::write(&path, serde_json::to_string_pretty(&all)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("written to {}", path.display());
    Ok(())
}

/// The same for whoever shows it in another way: `done` gets each cell when it is done.
///
/// # Errors
/// As [`run`].
pub(in crate::bench) fn each(args: &Args, mut done: impl FnMut(Got) -> Result<()>) -> Result<()> {
    let dist = match &args.dist {
        Some(folder) => folder.canonicalize()?,
        None => {
            eprintln!("building ...");
            dist::build(&dist::Args::default())?
        }
    };
    let program = build_program()?;
    let cells: Vec<Cell> = if !args.cell.is_empty() {
        let cells = args.cell.iter().map(|name| Cell::of(name));
        cells.collect::<Result<_>>()?
    } else if args.full {
        cell::all()?
    } else {
        cell::dozen()?
    };
    for cell in cells.iter().filter(|cell| cell.name.contains(&args.only)) {
        let got = play::play(cell, args, &dist, &program);
        done(got.with_context(|| format!("in cell {}", cell.name))?)?;
    }
    Ok(())
}

/// The program that works, in `target/bench`.
fn build_program() -> Result<PathBuf> {
    let folder = workspace::target().join("bench");
    std::fs::create_dir_all(&folder)?;
    let program = folder.join("workload");
    let sources = workspace::root().join("tests/programs");
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(&cc)
        .args(["-std=gnu11", "-O2", "-pthread", "-I"])
        .arg(&sources)
        .arg("-o")
        .arg(&program)
        .arg(sources.join("workload.c"))
        .arg("-ldl")
        .status()
        .with_context(|| format!("cannot start {}: a C compiler is needed", cc.display()))?;
    ensure!(status.success(), "the program workload.c was not made");
    Ok(program)
}

fn head() {
    println!("| cell | asked | got | worst second | all together | bursts, us: half, 95 %, all |");
    println!("|---|---|---|---|--:|---|");
}

/// Percent of each device.
fn by_device(percents: &[f64]) -> String {
    let texts: Vec<_> = percents.iter().map(|got| format!("{got:.1}")).collect();
    texts.join("/")
}

/// What has to be said of a cell's figures.
fn remark(got: &Got) -> String {
    match got.stalled_ms {
        Some(ms) => format!(" (the machine stood still for {ms} ms)"),
        None => String::new(),
    }
}

fn print(got: &Got) {
    let each = |text: &dyn Fn(&ContainerGot) -> String| {
        let texts: Vec<_> = got.containers.iter().map(text).collect();
        texts.join(" + ")
    };
    println!(
        "| {}{} | {} | {} | {} | {} | {} |",
        got.cell,
        remark(got),
        each(&|one| format!("{:.0}", one.asked_percent)),
        each(&|one| by_device(&one.got_percent)),
        each(&|one| format!("{:.1}", one.worst_window_percent)),
        by_device(&got.busy_percent),
        got.containers
            .iter()
            .filter_map(|one| one.latency)
            .map(|one| format!("{}, {}, {}", one.p50_us, one.p95_us, one.most_us))
            .collect::<Vec<_>>()
            .join(" + "),
    );
}
