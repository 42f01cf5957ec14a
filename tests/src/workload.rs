//! The program `workload`, and what it says of itself.

use serde::Deserialize;

use crate::client::{Client, Finished, Running};

/// What a `workload` has done, by its own account.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Done {
    /// When its first launch was, by the clock of the simulation.
    pub began_ns: u64,
    /// Launches, of kernels or of graphs.
    pub launches: u64,
    /// How long it went on.
    pub wall_ns: u64,
    /// The longest that one call of a launch took.
    pub longest_launch_us: u64,
    /// Bursts whose latency was taken.
    pub latencies: u64,
    /// From launch to end: half of them took no longer,
    pub p50_us: u64,
    /// nineteen of twenty took no longer,
    pub p95_us: u64,
    /// and none did.
    pub most_us: u64,
    /// Calls of `cuEvent*` that came to the driver from this process.
    pub events: u64,
}

impl Client {
    /// Arguments of `workload`: so many seconds of this work, with these options.
    pub fn work(self, seconds: &str, work: &str, options: &[&str]) -> Self {
        self.args([seconds, work]).args(options).watchdog(60)
    }
}

impl Running {
    /// The end of a `workload`, which has to be a good one.
    #[must_use]
    #[track_caller]
    pub fn done(self) -> Done {
        self.finish().ok().done()
    }
}

impl Finished {
    /// What a `workload` says.
    #[must_use]
    #[track_caller]
    pub fn done(&self) -> Done {
        let line = self.stdout.lines().find(|line| line.starts_with('{'));
        let line = line.unwrap_or_else(|| panic!("no figures in {self:?}"));
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }
}
