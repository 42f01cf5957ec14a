//! `cargo xtask coverage`: no driver symbol is forgotten.
//!
//! Every symbol of the newest header must have a class in `cuda-headers/src/classify/`, every row there must name a symbol,
//! and, where the shim is built, what it exports must be what the classes ask for.

mod check;
mod driver;

use std::path::PathBuf;

use anyhow::{Result, bail};
use check::Coverage;
use cuda_headers::classify;
use cuda_headers::symbols::SYMBOLS;

use crate::{elf, stale, workspace};

/// Arguments of `cargo xtask coverage`.
#[derive(clap::Args)]
pub struct Args {
    /// The shim whose exports are compared; by default target/dist/lib/libquota_shim.so where it exists.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Instead, compare the look-up tables with this driver library of NVIDIA's (no GPU needed).
    #[arg(long, value_name = "FILE", conflicts_with = "library")]
    driver: Option<PathBuf>,
    /// List the names behind each count.
    #[arg(long)]
    names: bool,
}

/// Counts, compares, and prints.
///
/// # Errors
///
/// A symbol without class, a row without symbol, or a library that does not hook what the classes ask for; with
/// `--driver`, a library that answers otherwise than the tables.
pub fn run(args: &Args) -> Result<()> {
    if let Some(driver) = &args.driver {
        return driver::compare(driver);
    }
    let default = workspace::target().join("dist/lib/libquota_shim.so");
    let library = args
        .library
        .clone()
        .or_else(|| default.exists().then_some(default));
    let exports = match &library {
        Some(path) => Some(elf::report(path)?.exports.into_iter().collect()),
        None => None,
    };
    let coverage = Coverage::new(
        SYMBOLS.iter().map(|symbol| (symbol.name, symbol.base)),
        &classify::groups().collect::<Vec<_>>(),
        exports.as_ref(),
    );
    coverage.print(args.names);
    match &library {
        Some(path) => println!("compared with {}", path.display()),
        None => println!(
            "not compared with a library: `cargo xtask dist` builds one, --library names one"
        ),
    }
    let mut problems = coverage.problems();
    let made_here = library.as_deref().filter(|_| args.library.is_none());
    let stale = made_here.and_then(stale::hint);
    if !problems.is_empty() {
        problems.extend(stale);
        bail!("{}", problems.join("\n"));
    }
    if let Some(hint) = stale {
        eprintln!("warning: {hint}");
    }
    Ok(())
}

/// `cuInit` and its like, not `cudbg*` or anything of other libraries.
fn is_driver_name(name: &str) -> bool {
    name.strip_prefix("cu")
        .and_then(|rest| rest.chars().next())
        .is_some_and(|first| first.is_ascii_uppercase())
}
