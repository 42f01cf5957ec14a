//! The simulator's account: what its devices really hold and how long they were busy. It is the
//! judge of what the shim promises.

use serde::Deserialize;

/// All devices of one simulation.
#[derive(Debug, Clone, Deserialize)]
pub struct Account {
    /// In the order of their indices.
    pub devices: Vec<Device>,
    /// The simulation's clock.
    pub clock_ns: u64,
}

/// One simulated device.
#[derive(Debug, Clone, Deserialize)]
pub struct Device {
    /// Its UUID as NVML prints it.
    pub uuid: String,
    /// Bytes of memory that it has.
    pub total: u64,
    /// Bytes held, in the driver's blocks, contexts included.
    pub used: u64,
    /// The highest `used`.
    pub peak: u64,
    /// Sum of the bytes asked for and not yet freed.
    #[serde(default)]
    pub requested: u64,
    /// The highest `requested`.
    #[serde(default)]
    pub peak_requested: u64,
    /// `requested` without what pools and graphs reserve.
    pub exact: u64,
    /// The highest `exact`.
    pub peak_exact: u64,
    /// How long it ran kernels.
    pub busy_ns: u64,
    /// By `GPU_SIM_TENANT`.
    #[serde(default)]
    pub tenants: Vec<Tenant>,
    /// By process.
    #[serde(default)]
    pub processes: Vec<Process>,
}

/// What one tenant has of a device.
#[derive(Debug, Clone, Deserialize)]
pub struct Tenant {
    /// `GPU_SIM_TENANT`.
    pub label: String,
    /// As for the device.
    pub used: u64,
    /// As for the device.
    pub peak: u64,
    /// As for the device.
    #[serde(default)]
    pub requested: u64,
    /// As for the device.
    #[serde(default)]
    pub peak_requested: u64,
    /// As for the device.
    pub exact: u64,
    /// As for the device.
    pub peak_exact: u64,
    /// As for the device.
    pub busy_ns: u64,
}

/// What one process has of a device.
#[derive(Debug, Clone, Deserialize)]
pub struct Process {
    /// Its pid as itself sees it.
    pub pid: u32,
    /// `GPU_SIM_TENANT`.
    #[serde(default)]
    pub label: String,
    /// As for the device.
    pub used: u64,
    /// As for the device.
    pub requested: u64,
    /// As for the device.
    pub exact: u64,
    /// As for the device.
    pub busy_ns: u64,
}
