//! The command line.

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::Stop;
use crate::{completions, doctor, run, serve, top, words};

/// Gives programs a quota of GPU memory and GPU time, and explains what is enforced.
#[derive(Debug, Parser)]
#[command(
    name = "quota-daemon",
    version,
    after_help = "Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 daemon unreachable; \
                  `run` becomes its program and ends as that does."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program under a quota.
    Run(run::Args),
    /// Serve containers: the daemon.
    Serve(serve::Args),
    /// Examine whether and what a quota can enforce here.
    Doctor(doctor::Args),
    /// Show GPUs and containers as they are now, on a screen that follows.
    Top(top::Args),
    /// Print a script that completes this command line in a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print what a program sees of the driver (part of `doctor`).
    #[command(hide = true)]
    Probe,
}

impl Cli {
    /// Reads this process's command line; ends the process where it makes no sense, or asks for help.
    #[must_use]
    pub fn read() -> Self {
        let words = words::join(std::env::args_os());
        Self::try_parse_from(&words).unwrap_or_else(|error| words::hint(error, &words).exit())
    }

    /// Does what the command line asks.
    ///
    /// # Errors
    /// With the exit code that the process should end with.
    pub fn run(self) -> Result<(), Stop> {
        match self.command {
            Command::Run(args) => run::run(&args),
            Command::Serve(args) => serve::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Top(args) => top::run(&args),
            Command::Completions { shell } => Ok(completions::run(shell, &Self::command())?),
            Command::Probe => Ok(doctor::probe::run()?),
        }
    }
}
