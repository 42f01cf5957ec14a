//! What there is to run: containers with programs, who rules them, and what happens meanwhile.

use quota_daemon::model::Compute;

use crate::params::{MS, Params, SECOND};
use crate::workload::Program;

/// A container of a cell.
#[derive(Clone)]
pub struct Tenant {
    /// How it is ruled.
    pub compute: Compute,
    /// Who is served first.
    pub priority: i32,
    /// Its processes, each with its threads.
    pub processes: Vec<Vec<Program>>,
}

impl Tenant {
    /// One of one process and thread.
    #[must_use]
    pub fn new(compute: Compute, program: Program) -> Self {
        Self {
            compute,
            priority: 0,
            processes: vec![vec![program]],
        }
    }

    /// One of so many processes that do the same.
    #[must_use]
    pub fn of(compute: Compute, processes: usize, program: &Program) -> Self {
        Self {
            compute,
            priority: 0,
            processes: vec![vec![program.clone()]; processes],
        }
    }
}

/// What keeps containers to their shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Nothing.
    Bare,
    /// The limiter without a daemon: each process goes by its own variables.
    Alone,
    /// The limiter under the daemon, which deals turns where containers contend.
    Turns,
    /// The same without turns: the driver's slices, and estimates on the low side.
    Slices,
    /// Blocks of the grid, corrected by utilisation.
    Blocks,
    /// Own wall time.
    Wall,
}

impl Scheme {
    /// Whether there is a daemon.
    #[must_use]
    pub const fn is_ruled(self) -> bool {
        matches!(self, Self::Turns | Self::Slices)
    }

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Alone => "limit",
            Self::Turns => "turns",
            Self::Slices => "slices",
            Self::Blocks => "blocks",
            Self::Wall => "wall",
        }
    }
}

/// Something that is done to the containers.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// A process of a container is killed.
    Kill(usize, usize),
    /// The daemon is killed.
    KillDaemon,
    /// A new daemon begins.
    StartDaemon,
    /// A container is ruled otherwise.
    Rule(usize, Compute),
}

/// What there is to run.
#[derive(Clone)]
pub struct Setup {
    /// The world.
    pub params: Params,
    /// GPUs.
    pub devices: usize,
    /// Streams of each context.
    pub streams: usize,
    /// Containers.
    pub tenants: Vec<Tenant>,
    /// What keeps them to their shares.
    pub scheme: Scheme,
    /// What is left out of the figures.
    pub warm_up: u64,
    /// What is measured.
    pub measured: u64,
    /// What is done meanwhile, and when after the beginning; in order.
    pub deeds: Vec<(u64, Deed)>,
    /// Where chance begins.
    pub seed: u64,
}

impl Setup {
    /// One that measures ten seconds after one and a half.
    #[must_use]
    pub fn new(scheme: Scheme, tenants: Vec<Tenant>) -> Self {
        Self {
            params: Params::default(),
            devices: 1,
            streams: 2,
            tenants,
            scheme,
            warm_up: 1500 * MS,
            measured: 10 * SECOND,
            deeds: Vec::new(),
            seed: 1,
        }
    }
}
