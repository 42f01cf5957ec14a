//! `quota-daemon`: see `quota-daemon --help`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match quota_daemon::cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.report(),
    }
}
