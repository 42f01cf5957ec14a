//! What the daemon is told, and the parts that it is given.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::config::Config;
use crate::model::{Device, Uuid};
use crate::report::DeviceStatus;

/// What the daemon is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The configuration.
    pub config: Config,
    /// Regions lie in a tmpfs of the daemon's own, where it may mount one.
    pub mount: bool,
}

/// What the daemon knows of GPUs: NVML's reader, or a test.
pub trait Gpus: Send + Sync {
    /// The devices that are known at this moment.
    fn devices(&self) -> Vec<Device>;
    /// What NVML says of each; what is promised and active is the core's to fill in.
    fn report(&self) -> Vec<DeviceStatus>;
    /// Bytes that processes hold by NVML, by pid on the host and device.
    fn held(&self) -> HashMap<(u32, Uuid), u64>;
    /// What a person should know.
    fn warnings(&self) -> Vec<String>;
    /// Something has happened, or somebody wants to know: look soon.
    fn poke(&self) {}
}

/// How the configuration is read again.
pub type Reread = Box<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// What the core is given by others.
pub struct Parts {
    /// The GPUs.
    pub gpus: Arc<dyn Gpus>,
    /// Reads the configuration again.
    pub reread: Reread,
}

/// Devices that do not change: where there is no NVML.
#[derive(Clone, Debug, Default)]
pub struct Fixed(pub Vec<Device>);

impl Gpus for Fixed {
    fn devices(&self) -> Vec<Device> {
        self.0.clone()
    }

    fn report(&self) -> Vec<DeviceStatus> {
        self.0
            .iter()
            .map(|device| DeviceStatus {
                device: device.clone(),
                promised_bytes: 0,
                used_bytes: None,
                utilization_percent: None,
                trouble: None,
                active: 0,
                unregistered: Vec::new(),
            })
            .collect()
    }

    fn held(&self) -> HashMap<(u32, Uuid), u64> {
        HashMap::new()
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What NVML shows a container to hold on a device, beyond what its ledger says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// The container.
    pub container: String,
    /// The device.
    pub uuid: Uuid,
    /// Of its living processes: it counts as used.
    pub overhead_bytes: u64,
    /// Of its dead ones.
    pub dead_bytes: u64,
}

/// What a look at NVML has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// By container and device; who is missing has none.
    pub overheads: Vec<Overhead>,
    /// What a context takes on a device.
    pub contexts: BTreeMap<Uuid, u64>,
}
