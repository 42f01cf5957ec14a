//! `quota-daemon doctor`: what works here, what does not, and what to do about it.
//!
//! Everything is tried rather than guessed: the library is really preloaded into a program of this system, the driver is
//! really initialised, each in a child process, so that neither can harm this one. No context is made on any GPU.

mod child;
mod control;
mod daemon;
mod driver;
mod finding;
mod group;
mod library;
mod limited;
pub mod probe;
mod report;
mod settings;
mod shared;

use std::path::PathBuf;

use crate::client::Where;
use crate::exit::Stop;
use crate::shim;
use daemon::Daemon;
use finding::Findings;

/// What to examine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,

    /// The library to preload.
    #[arg(long, value_name = "PATH", env = shim::VARIABLE)]
    shim: Option<PathBuf>,

    #[command(flatten)]
    place: Where,
}

/// Examines everything and prints what was found.
///
/// # Errors
/// [`Stop::Failed`] when something keeps a quota from being enforced here, [`Stop::Unreachable`]
/// when a daemon is asked for and does not answer.
pub fn run(args: &Args) -> Result<(), Stop> {
    let mut findings = Findings::default();
    let shim = library::examine(args.shim.as_deref(), &mut findings);
    let daemon = daemon::examine(&mut findings);
    let ruled = match &daemon {
        Daemon::Rules(ruled) => Some(ruled),
        _ => None,
    };
    control::examine(&args.place.socket(), &mut findings);
    let settings = settings::examine(ruled, &mut findings);
    let devices = driver::examine(shim.as_deref(), settings.as_ref(), ruled, &mut findings);
    if matches!(daemon, Daemon::NotAsked) {
        // Under a daemon nothing meets there.
        shared::examine(&mut findings);
        if let Some(settings) = &settings {
            group::examine(settings, &devices, &mut findings);
        }
    }
    if args.json {
        report::json(&findings)?;
    } else {
        report::text(&findings)?;
    }
    match (daemon, findings.failed()) {
        (Daemon::Unreachable, _) => Err(Stop::Unreachable(String::new())),
        (_, true) => Err(Stop::Failed),
        (_, false) => Ok(()),
    }
}
