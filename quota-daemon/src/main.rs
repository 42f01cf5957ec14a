//! `quota-daemon`: see `quota-daemon --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match quota_daemon::cli::Cli::read().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.report(),
    }
}
