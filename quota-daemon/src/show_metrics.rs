//! `quota-daemon metrics`: the text for Prometheus, by the control socket.

use crate::api::Request;
use crate::client::Where;
use crate::exit::Stop;
use crate::output::print;

/// Which daemon.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Where,
}

/// Asks the daemon and prints what it says.
///
/// # Errors
/// There is no daemon.
pub fn run(args: &Args) -> Result<(), Stop> {
    let text: String = args.place.ask(&Request::Metrics)?;
    Ok(print(&text)?)
}
