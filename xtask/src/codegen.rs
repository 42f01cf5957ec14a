//! `cargo xtask codegen`: writes `cuda-headers/src/generated/` from NVIDIA's public header packages.
//!
//! The headers are fetched at pinned versions and never committed; what is generated from them is. With `--check`
//! nothing is written, and a difference from what is committed is an error, so CI notices an edited or stale file.

#[cfg(feature = "codegen")]
mod bind;
#[cfg(feature = "codegen")]
mod emit;
#[cfg(feature = "codegen")]
mod generate;
#[cfg(feature = "codegen")]
mod nvml;
#[cfg(feature = "codegen")]
mod proc_address;
#[cfg(feature = "codegen")]
mod sources;
#[cfg(feature = "codegen")]
mod tidy_types;

use crate::workspace;

/// Arguments of `cargo xtask codegen`.
#[derive(clap::Args)]
pub struct Args {
    /// Compare with the committed files instead of writing them.
    #[arg(long)]
    check: bool,
}

/// Generates, in this process.
///
/// # Errors
///
/// A header that cannot be fetched or read, a file that cannot be written, or, with `--check`, one that differs.
#[cfg(feature = "codegen")]
pub fn run(args: &Args) -> anyhow::Result<()> {
    generate::run(&workspace::root(), args.check)
}

/// Builds xtask again with what `codegen` needs, and runs that.
///
/// # Errors
///
/// Cargo cannot be started, or the command fails there.
#[cfg(not(feature = "codegen"))]
pub fn run(args: &Args) -> anyhow::Result<()> {
    use anyhow::Context as _;
    let mut cargo = workspace::cargo(&workspace::cargo_target());
    cargo.args([
        "run",
        "--quiet",
        "--package",
        "xtask",
        "--features",
        "codegen",
        "--",
        "codegen",
    ]);
    if args.check {
        cargo.arg("--check");
    }
    let status = cargo.status().context("cannot start cargo")?;
    anyhow::ensure!(status.success(), "codegen failed ({status})");
    Ok(())
}
