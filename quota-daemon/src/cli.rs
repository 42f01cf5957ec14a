//! The command line.

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::Stop;
use crate::{
    cdi, check_config, completions, doctor, man, ps, reload, run, serve, set, show_metrics, status,
    top, why, words,
};

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
    /// Show GPUs, containers and what is wrong.
    Status(status::Args),
    /// List the registered processes.
    Ps(ps::Args),
    /// Explain the last refusals and waits of a container.
    Why(why::Args),
    /// Change a container's limits, or make one.
    Set(set::Args),
    /// Forget a container that was made by `set`.
    Remove(set::Remove),
    /// Let the daemon read its configuration again.
    Reload(reload::Args),
    /// Print what Prometheus would be told.
    Metrics(show_metrics::Args),
    /// Examine a configuration without a daemon.
    CheckConfig(check_config::Args),
    /// Offer containers to Docker, Podman and others as devices.
    Cdi(cdi::Args),
    /// Print a script that completes this command line in a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print or write manual pages.
    Man(man::Args),
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
            Command::Status(args) => status::run(&args),
            Command::Ps(args) => ps::run(&args),
            Command::Why(args) => why::run(&args),
            Command::Set(args) => set::run(&args),
            Command::Remove(args) => set::remove(&args),
            Command::Reload(args) => reload::run(&args),
            Command::Metrics(args) => show_metrics::run(&args),
            Command::CheckConfig(args) => check_config::run(&args),
            Command::Cdi(args) => cdi::run(&args),
            Command::Man(args) => man::run(&args, &Self::command()),
            Command::Completions { shell } => Ok(completions::run(shell, &Self::command())?),
            Command::Probe => Ok(doctor::probe::run()?),
        }
    }
}
