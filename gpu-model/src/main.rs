//! `gpu-model`: runs cells of the grid and prints what each container got. `cargo xtask bench share` is this.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use gpu_model::cell::Scheme;
use gpu_model::runner::{self, Plan};
use gpu_model::{markdown, report};

/// How containers are kept to their shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// The limiter; where containers contend, the daemon deals turns.
    Turns,
    /// The limiter without turns: the driver's slices, and estimates on the low side.
    Slices,
    /// Blocks of the grid, corrected by utilisation: the common design.
    Blocks,
    /// Own wall time.
    Wall,
    /// Nothing.
    Bare,
}

/// Containers, GPUs and the daemon in virtual time: asked against got.
#[derive(Parser)]
struct Cli {
    /// Only cells whose names contain this, such as `pair-weights/20us+20us/10+90`.
    #[arg(long, value_name = "PATTERN", default_value = "")]
    only: String,
    /// How containers are kept to their shares.
    #[arg(long, value_delimiter = ',', default_value = "turns,slices")]
    schemes: Vec<Way>,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds from there on.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Seconds to measure instead of what the cell says.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seconds: Option<u64>,
    /// Cut the cells short that have the most launches, as the test does.
    #[arg(long)]
    quick: bool,
    /// A parameter of GPU or host that is another than usual, as `slice=2ms`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Print the worst second, events and waits too.
    #[arg(long)]
    verbose: bool,
    /// Print the tables that docs/benchmarks-share.md holds, when all is done.
    #[arg(long)]
    markdown: bool,
    /// Write what misses its goals to this file: what `tests/grid.rs` knows of.
    #[arg(long, value_name = "FILE")]
    misses: Option<PathBuf>,
    /// Write the rows to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let scheme = |way: &Way| match way {
        Way::Turns => Scheme::Turns,
        Way::Slices => Scheme::Slices,
        Way::Blocks => Scheme::Blocks,
        Way::Wall => Scheme::Wall,
        Way::Bare => Scheme::Bare,
    };
    let plan = Plan {
        only: cli.only,
        schemes: cli.schemes.iter().map(scheme).collect(),
        seeds: (cli.seed, cli.seeds),
        set: cli.set,
        seconds: cli.seconds,
        quick: cli.quick,
    };
    let begin = Instant::now();
    let rows = runner::run(&plan, |row| {
        if !cli.markdown {
            report::print(row, cli.verbose);
        }
    })?;
    if cli.markdown {
        print!("{}", markdown::tables(&rows));
    } else {
        let missed = rows.iter().filter(|row| row.missed > 0).count();
        let seconds = begin.elapsed().as_secs_f64();
        println!("{} rows in {seconds:.0} s, {missed} miss", rows.len());
    }
    if let Some(path) = cli.misses {
        fs::write(&path, report::known_misses(&rows))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = cli.json {
        let text = serde_json::to_string_pretty(&report::File {
            version: 1,
            seed: cli.seed,
            rows: &rows,
        })?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
