//! `cargo xtask <chore>`: everything about the repository that is not the product itself.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The repository's chores.
#[derive(Parser)]
#[command(name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Build the artefacts into target/dist and print that folder.
    Dist(xtask::dist::Args),
    /// Make the Debian package of what `dist` has built, and print its path.
    Deb(xtask::deb::Args),
    /// Run two tenants on one GPU and show what each gets.
    Demo(xtask::demo::Args),
    /// Answer each line on stdin with the simulator's account (part of `demo`).
    #[command(hide = true)]
    DemoAccount,
    /// Measure, and compare with the targets.
    #[command(subcommand)]
    Bench(xtask::bench::Bench),
    /// Check what the linked library exports, needs and weighs.
    Exports(xtask::exports::Args),
    /// Throw wrong frames and regions by the million at what reads them.
    Fuzz(xtask::fuzz::Args),
    /// Check what the repository promises about itself.
    Tidy(xtask::tidy::Args),
    /// Regenerate cuda-headers/src/generated from NVIDIA's public header packages.
    Codegen(xtask::codegen::Args),
    /// Check that every driver symbol is classified, and that the shim hooks what it should.
    Coverage(xtask::coverage::Args),
    /// Write the table of docs/memory.md: what each function that takes memory is charged, and the test that shows it.
    MemoryTable(xtask::memory_table::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Dist(args) => xtask::dist::run(&args),
        Chore::Deb(args) => xtask::deb::run(&args),
        Chore::Demo(args) => xtask::demo::run(&args),
        Chore::DemoAccount => xtask::demo::serve_account(),
        Chore::Bench(bench) => xtask::bench::run(&bench),
        Chore::Exports(args) => xtask::exports::run(&args),
        Chore::Fuzz(args) => xtask::fuzz::run(&args),
        Chore::Tidy(args) => xtask::tidy::run(&args),
        Chore::Codegen(args) => xtask::codegen::run(&args),
        Chore::Coverage(args) => xtask::coverage::run(&args),
        Chore::MemoryTable(args) => xtask::memory_table::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
