//! `cargo xtask fuzz`: wrong frames and regions by the million, against everything in the daemon that reads what others write.
//!
//! The fuzzer is `quota-daemon/tests/fuzz`, which `cargo test` runs for a second or two. Here it runs optimised, with overflow
//! checks and debug assertions on.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};

use crate::workspace;

/// How long, and from where.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Frames, lines, files and values.
    #[arg(long, default_value_t = 8_000_000)]
    frames: u64,
    /// Usage regions.
    #[arg(long, default_value_t = 2_000_000)]
    regions: u64,
    /// Regions that a whole daemon reads; a quarter as many questions at its socket, and a twentieth of daemons that find
    /// spoilt what the one before has kept.
    #[arg(long, default_value_t = 20_000)]
    daemon: u64,
    /// Of an earlier run, to repeat it; by the clock otherwise.
    #[arg(long)]
    seed: Option<u64>,
    /// Add inputs that are answered as none before to tests/data/fuzz.
    #[arg(long)]
    keep: bool,
}

/// Builds and runs.
///
/// # Errors
/// A finding: the run tells which input, and where it is saved.
pub fn run(args: &Args) -> Result<()> {
    let seed = match args.seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    println!(
        "cargo xtask fuzz --frames {} --regions {} --daemon {} --seed {seed}",
        args.frames, args.regions, args.daemon
    );
    if !test(&[])
        .arg("--no-run")
        .status()
        .context("cannot start cargo")?
        .success()
    {
        bail!("the fuzzer cannot be built");
    }
    let mut cargo = test(&["--nocapture"]);
    cargo.env("FUZZ_FRAMES", args.frames.to_string());
    cargo.env("FUZZ_REGIONS", args.regions.to_string());
    cargo.env("FUZZ_DAEMON", args.daemon.to_string());
    cargo.env("FUZZ_SEED", seed.to_string());
    if args.keep {
        cargo.env("FUZZ_KEEP", "1");
    }
    let status = cargo.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("an input did harm; what is above tells which, and `--seed {seed}` repeats the run");
    }
    Ok(())
}

fn test(arguments: &[&str]) -> Command {
    let mut cargo = workspace::cargo(&workspace::cargo_target());
    cargo.arg("test").args(workspace::verbosity());
    cargo.args(["--package", "quota-daemon"]);
    cargo.args(["--test", "fuzz"]);
    if !arguments.is_empty() {
        cargo.arg("--").args(arguments);
    }
    cargo
}
