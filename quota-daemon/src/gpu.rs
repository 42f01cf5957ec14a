//! What the GPUs themselves say, by NVML: how much of each is used, and by whom.
//!
//! NVML may be absent, answer half of what it is asked, lose a GPU, or hang in the driver. So one thread of its own reads it
//! ([`Watcher`]), and whoever wants to know takes the last reading, which is always there and says since when it is not fresh.

mod nvml;
mod old;
pub mod shimmed;
mod text;
mod watch;

use std::time::Instant;

pub use nvml::Nvml;
pub use watch::{Pace, Watcher};

use crate::model::Device;

/// One look at all GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Rises with each reading; 0 is none yet.
    pub number: u64,
    /// When it was taken.
    pub at: Instant,
    /// The GPUs, MIG instances instead of GPUs that are divided. One that is lost, or that NVML says nothing of any more,
    /// stays, and its trouble says so.
    pub devices: Vec<DeviceReading>,
    /// Why NVML says nothing at all, or says it late.
    pub trouble: Option<String>,
}

impl Reading {
    /// Nothing is known.
    #[must_use]
    pub fn none(trouble: Option<String>) -> Self {
        Self {
            number: 0,
            at: Instant::now(),
            devices: Vec::new(),
            trouble,
        }
    }

    /// Whether anything is known of any GPU.
    pub(crate) fn sees(&self) -> bool {
        let seen =
            |device: &DeviceReading| device.processes.is_some() || device.used_bytes.is_some();
        self.devices.iter().any(seen)
    }

    /// The same devices, with nothing known of them but why not.
    pub(crate) fn blind(&self, trouble: &str) -> Self {
        let blind = |reading: &DeviceReading| DeviceReading::blind(reading.device.clone(), trouble);
        Self {
            number: self.number,
            at: self.at,
            devices: self.devices.iter().map(blind).collect(),
            trouble: Some(trouble.to_owned()),
        }
    }
}

/// What was read of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReading {
    /// Which it is, and how much memory it has.
    pub device: Device,
    /// Bytes in use.
    pub used_bytes: Option<u64>,
    /// Utilisation in percent; none of MIG instances.
    pub utilization_percent: Option<u32>,
    /// Who is on it; `None` where NVML does not tell.
    pub processes: Option<Vec<GpuProcess>>,
    /// What could not be read, and why.
    pub trouble: Option<String>,
}

impl DeviceReading {
    /// Nothing is known but that it is there.
    #[must_use]
    pub fn blind(device: Device, trouble: &str) -> Self {
        Self {
            device,
            used_bytes: None,
            utilization_percent: None,
            processes: None,
            trouble: Some(trouble.to_owned()),
        }
    }
}

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuProcess {
    /// Its pid on the host.
    pub pid: u32,
    /// What it holds; `None` where NVML does not tell.
    pub bytes: Option<u64>,
}

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Who is there and how much is used.
    Glance,
    /// What a person wants to see, too.
    Full,
}

/// Where readings come from: NVML, or a test.
pub trait Source: Send {
    /// Looks at the GPUs. May take its time.
    fn read(&mut self, detail: Detail) -> Reading;
}

impl<F: FnMut(Detail) -> Reading + Send> Source for F {
    fn read(&mut self, detail: Detail) -> Reading {
        self(detail)
    }
}
