//! `cargo xtask bench`: figures against targets.

mod hooks;
mod real;
mod share;
mod starts;
mod table;

use anyhow::Result;

/// What to measure.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Bench {
    /// What a hook adds to a driver call.
    Hooks(hooks::Args),
    /// Asked against got in real time, on the simulated GPU.
    Real(real::Args),
    /// Asked against got, in the model in virtual time.
    Share(share::Args),
}

/// Measures and prints.
///
/// # Errors
/// When something cannot be built or measured. A missed target is shown, and is no error.
pub fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Hooks(args) => hooks::run(args),
        Bench::Real(args) => real::run(args),
        Bench::Share(args) => share::run(args),
    }
}
