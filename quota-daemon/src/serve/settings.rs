//! What the daemon is told, and the parts that it is given.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Config;
use crate::metrics::Counters;
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
    fn held(&self) -> BTreeMap<(u32, Uuid), u64>;
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
    /// What is counted for metrics.
    pub counters: Arc<Counters>,
    /// What a person should know from the start.
    pub warnings: Vec<String>,
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

    fn held(&self) -> BTreeMap<(u32, Uuid), u64> {
        BTreeMap::new()
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
