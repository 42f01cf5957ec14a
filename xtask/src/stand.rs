//! A stage of a chore's own: a simulated GPU, the account of who used it, and a daemon that deals it out.

mod daemon;
mod pulse;
mod simulation;

pub(crate) use daemon::Daemon;
pub(crate) use pulse::Pulse;
pub(crate) use simulation::{Look, Simulation};
