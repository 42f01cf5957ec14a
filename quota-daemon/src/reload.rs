//! `quota-daemon reload`: the daemon reads its configuration again.

use crate::api::Request;
use crate::client::Where;
use crate::exit::Stop;
use crate::output::{json, print};

/// Which daemon.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the list of changes as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Where,
}

/// Asks the daemon and prints what has changed.
///
/// # Errors
/// There is no daemon, or what is wrong with the configuration; then everything stays as it was.
pub fn run(args: &Args) -> Result<(), Stop> {
    let lines: Vec<String> = args.place.ask(&Request::Reload)?;
    if args.json {
        return Ok(json(&lines)?);
    }
    if lines.is_empty() {
        return Ok(print("nothing has changed\n")?);
    }
    Ok(print(&format!("{}\n", lines.join("\n")))?)
}
