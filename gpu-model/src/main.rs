//! `gpu-model`: runs cells of the grid and prints what each container got.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use gpu_model::cell::Scheme;
use gpu_model::params::MS;
use gpu_model::{grid, judge, stage};

/// How containers that contend are kept to their shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Contention {
    /// The daemon deals turns.
    Turns,
    /// The driver's slices, and estimates on the low side.
    Slices,
    /// Blocks of the grid, corrected by utilisation.
    Blocks,
    /// Own wall time.
    Wall,
}

/// Containers, GPUs and the daemon in virtual time.
#[derive(Parser)]
struct Cli {
    /// Only cells whose names contain this, such as `pair-weights/20us+20us/10+90`.
    #[arg(long, default_value = "")]
    only: String,
    /// How containers that contend are kept to their shares.
    #[arg(long, value_delimiter = ',', default_value = "turns,slices")]
    schemes: Vec<Contention>,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print what each second had, waits and events.
    #[arg(long)]
    verbose: bool,
    /// Seconds to measure instead of what the cell says.
    #[arg(long)]
    seconds: Option<u64>,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let cells: Vec<_> = grid::all()
        .into_iter()
        .filter(|cell| cell.name.contains(&cli.only))
        .collect();
    if cells.is_empty() {
        bail!("no cell's name contains {:?}", cli.only);
    }
    let (mut missed, mut simulated) = (0, 0);
    let mut ran = std::collections::BTreeSet::new();
    let begin = Instant::now();
    for cell in &cells {
        for scheme in &cli.schemes {
            let scheme = match scheme {
                Contention::Turns => Scheme::Turns,
                Contention::Slices => Scheme::Slices,
                Contention::Blocks => Scheme::Blocks,
                Contention::Wall => Scheme::Wall,
            };
            let mut setup = cell.setup(scheme, cli.seed);
            if let Some(seconds) = cli.seconds {
                setup.measured = seconds * 1000 * MS;
            }
            if !ran.insert((cell.name.clone(), setup.scheme.name())) {
                continue;
            }
            simulated += setup.warm_up + setup.measured;
            let outcome = stage::run(&setup)?;
            let misses = judge::misses(cell, &outcome);
            missed += usize::from(!misses.is_empty());
            let got: Vec<_> = outcome
                .got
                .iter()
                .map(|devices| {
                    let shares = devices.iter().map(|got| format!("{:.1}", got.share / 10.0));
                    shares.collect::<Vec<_>>().join("/")
                })
                .collect();
            let total: f64 = outcome.got.iter().flatten().map(|got| got.share).sum();
            println!(
                "{:44} {:7} got {:16} total {:6.1}  {}",
                cell.name,
                setup.scheme.name(),
                got.join(" "),
                total / 10.0,
                misses.join(", ")
            );
            if cli.verbose {
                for (number, devices) in (1..).zip(&outcome.got) {
                    for got in devices {
                        let windows: Vec<_> = got
                            .windows
                            .iter()
                            .map(|share| format!("{:.1}", share / 10.0))
                            .collect();
                        println!(
                            "    {number}: {} | {:.0} launches, {:.0} events a second ({:.2} %), waits and forced {:?}",
                            windows.join(" "),
                            got.launches,
                            got.events,
                            got.event_cost,
                            outcome.waits.get(number - 1),
                        );
                    }
                }
                for figure in cell.figures.map(|of| of(&outcome)).into_iter().flatten() {
                    println!("    {}: {:.2}", figure.name, figure.value);
                }
                println!("    {:.0?} changes of contexts a second", outcome.switches);
            }
        }
    }
    println!(
        "{} cells, {missed} runs miss; {:.0} GPU seconds in {:.1} s",
        cells.len(),
        simulated as f64 / 1e9,
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}
