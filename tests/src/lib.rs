//! What the integration tests share: the built artefacts, C client programs, a runner with a
//! watchdog, and the simulated GPU's account.
//!
//! Tests live in `tests/`, client programs in `programs/`, recorded look-ups in `data/clients/`.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a helper that fails must fail its test, where it stands"
)]

mod account;
mod artefacts;
mod client;
mod daemon;
mod limits;
mod lookups;
mod old_driver;
pub mod podman;
mod program;
mod progress;
pub mod report;
mod sim;
mod steps;
mod watch;
mod workload;

pub use account::{Account, Device, Process, Tenant};
pub use artefacts::{Artefacts, artefacts, workspace};
pub use client::{Client, Finished, Running};
pub use daemon::Daemon;
pub use lookups::{Lookup, Replay, real_drivers, recorded_lists, write_queries};
pub use old_driver::driver_without;
pub use program::{library, program};
pub use progress::{Load, Progress, Work};
pub use sim::Sim;
pub use steps::{Answer, Steps};
pub use watch::{Moment, Seen, Watch};
pub use workload::Done;

/// Bytes of a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes of a GiB.
pub const GIB: u64 = 1 << 30;

/// Whether the slow, exact variants of a test were asked for (`GPU_QUOTA_TEST_FULL=1`).
#[must_use]
pub fn full() -> bool {
    std::env::var_os("GPU_QUOTA_TEST_FULL").is_some_and(|value| value == "1")
}

/// Whether this process is root: some checks need another user id or a mount namespace.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid takes no argument and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
