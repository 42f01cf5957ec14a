//! The command line.

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::Stop;
use crate::{doctor, run};

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
    /// Examine whether and what a quota can enforce here.
    Doctor(doctor::Args),
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
    /// Does what the command line asks.
    ///
    /// # Errors
    /// With the exit code that the process should end with.
    pub fn run(self) -> Result<(), Stop> {
        match self.command {
            Command::Run(args) => run::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Completions { shell } => {
                let mut command = Self::command();
                clap_complete::generate(
                    shell,
                    &mut command,
                    "quota-daemon",
                    &mut std::io::stdout(),
                );
                Ok(())
            }
            Command::Probe => Ok(doctor::probe::run()?),
        }
    }
}
