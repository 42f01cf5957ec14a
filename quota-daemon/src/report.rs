//! What the daemon tells about itself: the JSON of `status`, `ps` and `why`, which tables, `top` and metrics are made from.
//! Sizes are bytes, times nanoseconds, shares percent of a device. `version` changes when a field changes its meaning; new
//! fields may come at any time.

use serde::{Deserialize, Serialize};

use crate::model::{Compute, Device, Origin, Uuid};

/// Version of these forms.
pub const VERSION: u32 = 1;

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// The daemon itself.
    pub daemon: Daemon,
    /// The GPUs, and MIG instances.
    pub devices: Vec<DeviceStatus>,
    /// The containers, by name.
    pub containers: Vec<Container>,
}

/// The daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Daemon {
    /// Its pid.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it began, Unix time in seconds.
    pub started_at: u64,
    /// Its directory.
    pub state: String,
    /// What a person should know: a state directory that tenants could write, NVML that does not answer, ...
    pub warnings: Vec<String>,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// What it is.
    #[serde(flatten)]
    pub device: Device,
    /// Bytes promised to containers.
    pub promised_bytes: u64,
    /// Bytes in use, by NVML; `None` where it does not tell.
    pub used_bytes: Option<u64>,
    /// NVML's utilisation in percent.
    pub utilization_percent: Option<u32>,
    /// Why NVML tells nothing, or too little.
    pub trouble: Option<String>,
    /// Containers with work on it.
    pub active: u32,
    /// Processes that use it past the library.
    pub unregistered: Vec<Unregistered>,
}

/// A process on a GPU that no container has registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unregistered {
    /// Its pid on the host.
    pub pid: u32,
    /// Its program's name, while it lives.
    pub program: Option<String>,
    /// Bytes that it holds, by NVML.
    pub bytes: Option<u64>,
    /// The declared container in whose cgroup it is.
    pub container: Option<String>,
    /// Whether it was killed, where that is configured.
    pub killed: bool,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Where it was declared.
    pub origin: Origin,
    /// Its socket.
    pub socket: String,
    /// As it is named behind a container runtime's `--device`; `None`: the daemon publishes no device of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Registered processes that live.
    pub processes: u32,
    /// What was found wrong with what it wrote: damage that only it can have done.
    pub damage: Option<String>,
    /// What it has of each device.
    pub devices: Vec<Share>,
}

/// What a container has of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The device.
    pub uuid: Uuid,
    /// Its limit; `None` is none.
    pub memory_limit_bytes: Option<u64>,
    /// What its living processes hold, by the ledger.
    pub memory_used_bytes: u64,
    /// What they hold beyond that, by NVML: contexts, modules, the driver's rounding.
    pub memory_overhead_bytes: u64,
    /// What its dead processes still hold, by NVML.
    pub memory_dead_bytes: u64,
    /// The highest `memory_used_bytes` that the daemon has seen.
    pub memory_peak_bytes: u64,
    /// Requests for memory that were refused.
    pub refusals: u64,
    /// How GPU time is ruled.
    #[serde(flatten)]
    pub compute: Compute,
    /// Nothing is refused or delayed.
    pub observe: bool,
    /// Who is served first.
    pub priority: i32,
    /// Its limit, or what its weight guarantees it.
    pub own_percent: Option<f64>,
    /// What it may use now, loans included.
    pub now_percent: Option<f64>,
    /// What it used over the last second or so.
    pub got_percent: Option<f64>,
    /// Whether it has work there.
    pub active: bool,
    /// GPU time used.
    pub gpu_time_ns: u64,
    /// Time that launches waited, summed over threads.
    pub waited_ns: u64,
    /// Launches that waited.
    pub waits: u64,
    /// Launches.
    pub launches: u64,
    /// Launches that waited, and were let through without time for them.
    #[serde(default)]
    pub forced: u64,
    /// GPU time that was settled by measurement.
    #[serde(default)]
    pub measured_ns: u64,
    /// What had been charged for the same work before, by estimate.
    #[serde(default)]
    pub estimated_ns: u64,
}

/// A registered process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its container.
    pub container: String,
    /// Its pid on the host.
    pub pid: u32,
    /// Its pid in its own pid namespace.
    pub pid_inside: u32,
    /// Its user on the host.
    pub uid: u32,
    /// Its program's name.
    pub program: String,
    /// Since when it is registered, Unix time in seconds.
    pub since: u64,
    /// What it holds of each device.
    pub memory: Vec<Held>,
}

/// What a process holds of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The device.
    pub uuid: Uuid,
    /// Bytes, by the ledger.
    pub ledger_bytes: u64,
    /// Bytes, by NVML.
    pub nvml_bytes: Option<u64>,
}

/// Why a container was refused memory, or its launches waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// [`VERSION`].
    pub version: u32,
    /// The container.
    pub container: String,
    /// The last refusals, the newest first.
    pub refusals: Vec<Refusal>,
    /// The last waits, the newest first.
    pub waits: Vec<Wait>,
}

/// A request for memory that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// How long ago.
    pub ago_ns: u64,
    /// The process, in its own pid namespace.
    pub pid_inside: u32,
    /// The device.
    pub uuid: Option<Uuid>,
    /// What it asked for.
    pub asked_bytes: u64,
    /// What it held itself.
    pub own_bytes: u64,
    /// What the container held.
    pub held_bytes: u64,
    /// The limit then, less overhead.
    pub room_bytes: u64,
}

/// A launch that waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// How long ago.
    pub ago_ns: u64,
    /// The process, in its own pid namespace.
    pub pid_inside: u32,
    /// The device.
    pub uuid: Option<Uuid>,
    /// What the launch was charged.
    pub asked_ns: u64,
    /// The level of the bucket when it came; negative is debt.
    pub level_ns: i64,
    /// The rate at which the bucket filled.
    pub rate_percent: f64,
    /// How long it waited.
    pub waited_ns: u64,
}
