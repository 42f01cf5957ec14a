//! `cargo xtask bench share`: asked against got, in the model in virtual time.
//!
//! The model is a program of its own, because it links the limiter and the daemon, and this must link neither. It is built as
//! tests are, with the crates optimised on which its speed depends: a release build of everything that the daemon needs takes
//! longer than the whole grid.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::real;
use crate::workspace;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Only cells whose names contain this, such as `pair-weights/20us+20us/10+90`.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// How containers are kept to their shares: turns, slices, blocks, wall, bare.
    #[arg(long, default_value = "turns,slices,blocks,wall")]
    schemes: String,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds from there on.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// A parameter of GPU or host that is another than usual, as `slice=2ms`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Run some cells in real time too, on the simulated GPU, and print them beside the model's.
    #[arg(long)]
    real: bool,
    /// With --real: the whole grid, which takes an hour and more.
    #[arg(long, requires = "real")]
    full: bool,
    /// With --real: seconds that are measured of each cell.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// With --real: use the artefacts in this folder instead of building them.
    #[arg(long, value_name = "FOLDER", requires = "real")]
    dist: Option<PathBuf>,
    /// Print the tables that docs/benchmarks-share.md holds.
    #[arg(long)]
    markdown: bool,
    /// Print the worst second, events and waits too.
    #[arg(long)]
    verbose: bool,
}

/// Builds the model, runs it, and leaves `target/bench/share.json`.
///
/// # Errors
/// When the model cannot be built or a cell cannot be run. A missed goal is shown, and is no error.
pub(super) fn run(args: &Args) -> Result<()> {
    let folder = workspace::target().join("bench");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    if args.real {
        return real::beside(&real::Beside {
            full: args.full,
            only: args.only.as_deref(),
            scheme: args.schemes.split(',').next().unwrap_or_default(),
            seed: args.seed,
            seconds: args.seconds,
            dist: args.dist.as_deref(),
        });
    }
    let file = folder.join("share.json");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command
        .current_dir(workspace::root())
        .args(["run", "--quiet", "--package", "gpu-model", "--"])
        .args(["--schemes", &args.schemes])
        .args(["--seed", &args.seed.to_string()])
        .args(["--seeds", &args.seeds.to_string()])
        .arg("--json")
        .arg(&file);
    if let Some(only) = &args.only {
        command.args(["--only", only]);
    }
    for parameter in &args.set {
        command.args(["--set", parameter]);
    }
    for (flag, given) in [("--markdown", args.markdown), ("--verbose", args.verbose)] {
        if given {
            command.arg(flag);
        }
    }
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", cargo.display()))?;
    ensure!(status.success(), "the model ended with {status}");
    eprintln!("written to {}", file.display());
    Ok(())
}
