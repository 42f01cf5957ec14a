//! Containers, GPUs and the daemon in virtual time.
//!
//! Programs are written as straight code ([`workload`]) and run through the real [`limiter::Engine`]; the rates, loans and
//! turns come from the daemon's real [`quota_daemon::sharing::Controller`]. What is modelled is what lies below: the GPU with
//! its contexts and slices ([`device`]), and the time that host, timers and wake-ups take ([`params`]). The same seed gives
//! the same run on every machine.
#![expect(
    clippy::indexing_slicing,
    reason = "indices of the model's own; a wrong one has to stop it"
)]

pub mod busy;
pub mod cell;
pub mod container;
pub mod daemon;
pub mod device;
pub mod grid;
pub mod host;
pub mod judge;
pub mod markdown;
pub mod outcome;
pub mod params;
pub mod report;
pub mod row;
pub mod runner;
pub mod schemes;
pub mod stage;
pub mod task;
pub mod workload;
pub mod world;
