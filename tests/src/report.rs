//! What `quota-daemon status --json` and its kin print, as far as the tests look at it. Written down anew here and not taken
//! from the daemon: a program that reads it has nothing else either.

use serde::Deserialize;

/// `status --json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// The daemon.
    pub daemon: About,
    /// The devices.
    pub devices: Vec<DeviceStatus>,
    /// The containers, by name.
    pub containers: Vec<Container>,
}

/// The daemon about itself.
#[derive(Debug, Clone, Deserialize)]
pub struct About {
    /// Its pid.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// A device.
#[derive(Debug, Clone, Deserialize)]
pub struct DeviceStatus {
    /// Its UUID.
    pub uuid: String,
    /// Bytes in use, by NVML.
    pub used_bytes: Option<u64>,
    /// Containers with work on it.
    pub active: u32,
    /// Processes that use it past the library.
    pub unregistered: Vec<Unregistered>,
}

/// A process past the library.
#[derive(Debug, Clone, Deserialize)]
pub struct Unregistered {
    /// Its pid.
    pub pid: u32,
    /// What it holds.
    pub bytes: Option<u64>,
}

/// A container.
#[derive(Debug, Clone, Deserialize)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its socket.
    pub socket: String,
    /// Registered processes that live.
    pub processes: u32,
    /// What only the container itself can have broken.
    pub damage: Option<String>,
    /// What it has of each device.
    pub devices: Vec<Share>,
}

/// What a container has of a device.
#[derive(Debug, Clone, Deserialize)]
pub struct Share {
    /// The device.
    pub uuid: String,
    /// Its limit.
    pub memory_limit_bytes: Option<u64>,
    /// By the ledger.
    pub memory_used_bytes: u64,
    /// Beyond that, by NVML.
    pub memory_overhead_bytes: u64,
    /// What its dead still hold.
    pub memory_dead_bytes: u64,
    /// Refused requests.
    pub refusals: u64,
    /// Its limit or guarantee.
    pub own_percent: Option<f64>,
    /// What it may use now.
    pub now_percent: Option<f64>,
    /// GPU time used.
    pub gpu_time_ns: u64,
    /// Time that launches waited.
    pub waited_ns: u64,
    /// Launches.
    pub launches: u64,
    /// Launches let through without time for them.
    pub forced: u64,
    /// GPU time that was measured.
    pub measured_ns: u64,
    /// What had been estimated for that.
    pub estimated_ns: u64,
}

/// A registered process.
#[derive(Debug, Clone, Deserialize)]
pub struct Registered {
    /// Its container.
    pub container: String,
    /// Its pid on the host.
    pub pid: u32,
    /// Its pid in its own namespace.
    pub pid_inside: u32,
    /// Its user.
    pub uid: u32,
}

/// `why --json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Why {
    /// The last refusals, the newest first.
    pub refusals: Vec<Refusal>,
    /// The last waits, the newest first.
    pub waits: Vec<Wait>,
}

/// A refusal.
#[derive(Debug, Clone, Deserialize)]
pub struct Refusal {
    /// The process, as itself sees it.
    pub pid_inside: u32,
    /// What it asked for.
    pub asked_bytes: u64,
    /// What it held.
    pub own_bytes: u64,
    /// What the container held.
    pub held_bytes: u64,
    /// What it might have held.
    pub room_bytes: u64,
}

/// A wait.
#[derive(Debug, Clone, Deserialize)]
pub struct Wait {
    /// The process, as itself sees it.
    pub pid_inside: u32,
    /// The level that the launch found.
    pub level_ns: i64,
    /// The rate.
    pub rate_percent: f64,
    /// How long it waited.
    pub waited_ns: u64,
}

impl Status {
    /// A container.
    ///
    /// # Panics
    /// There is none of that name.
    #[must_use]
    #[track_caller]
    pub fn container(&self, name: &str) -> &Container {
        let found = self.containers.iter().find(|one| one.name == name);
        found.unwrap_or_else(|| panic!("no container {name} in {self:?}"))
    }

    /// What a container has of the first device.
    #[must_use]
    #[track_caller]
    pub fn share(&self, name: &str) -> &Share {
        &self.container(name).devices[0]
    }
}
