//! What the daemon's parts speak of: devices, containers, and what each may have of a device.

use std::collections::BTreeMap;
use std::fmt;

use quota_abi::spelling::{self, UuidText};
use serde::{Deserialize, Serialize};

/// A device, known by the UUID that CUDA shows: of a GPU, or of a MIG instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", UuidText::new(&self.0, false))
    }
}

impl std::str::FromStr for Uuid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        spelling::uuid(text)
            .map(Self)
            .map_err(|wrong| format!("{text:?}: {wrong}"))
    }
}

impl Serialize for Uuid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A device as NVML tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its index by NVML; of a MIG instance that of its GPU.
    pub index: u32,
    /// Its product name.
    pub name: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Whether it is a part of a GPU in MIG mode.
    pub mig: bool,
}

/// How a container's GPU time is ruled on one device. Shares are parts per million of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "policy")]
pub enum Compute {
    /// Free, and not counted.
    #[default]
    Free,
    /// A hard cap.
    Limit {
        /// The cap in ppm.
        ppm: u32,
    },
    /// A guarantee by weight over all containers of the device that have one; spare time is lent.
    Share {
        /// Its weight, 1 to 10,000.
        weight: u32,
        /// The most that it gets, loans included, in ppm.
        cap_ppm: Option<u32>,
    },
}

/// What a container may have of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quota {
    /// Bytes of memory; `None` is no limit.
    pub memory_bytes: Option<u64>,
    /// GPU time.
    pub compute: Compute,
    /// Who is served first, and taken from last: higher first.
    pub priority: i32,
    /// Bytes that a context is charged; `None`: as measured.
    pub context_bytes: Option<u64>,
    /// Nothing is refused or delayed; what would have been is counted.
    pub observe: bool,
}

/// A device as a configuration names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// By NVML's index.
    Index(u32),
    /// By UUID.
    Uuid(Uuid),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Uuid(uuid) => write!(f, "{uuid}"),
        }
    }
}

/// Where a container was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// In the configuration.
    Config,
    /// By a command, until it is removed.
    Api,
    /// By `run`, until its processes have ended.
    Run,
    /// By the default rule, when its first process came.
    Default,
}

/// A declared container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its name: 1 to 63 of `a-z A-Z 0-9 . _ -`, not beginning with a dot.
    pub name: String,
    /// Where it was declared.
    pub origin: Origin,
    /// Processes at the host's socket belong to it if their cgroup path matches: `*` stands for anything within one
    /// component, a `/**` at the end for everything below.
    pub cgroups: Vec<String>,
    /// Of every device that is not named.
    pub every: Option<Quota>,
    /// Of those that are.
    pub devices: BTreeMap<Selector, Quota>,
}

impl Spec {
    /// What it may have of a device: what its UUID was given, else its index, else every device. `None`: it may not use it.
    #[must_use]
    pub fn quota(&self, device: &Device) -> Option<Quota> {
        self.devices
            .get(&Selector::Uuid(device.uuid))
            .or_else(|| self.devices.get(&Selector::Index(device.index)))
            .copied()
            .or(self.every)
    }
}

/// Whether a name can be a container's.
///
/// # Errors
/// What is wrong with it, for a person.
pub fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 63 {
        return Err(format!("{name:?} must have 1 to 63 characters"));
    }
    if name.starts_with('.') || !name.chars().all(allowed) {
        return Err(format!(
            "{name:?} may have letters, digits, '.', '_' and '-', and not begin with '.'"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_file_name_of_its_own() {
        for good in ["a", "team-a.train_2", &"x".repeat(63)] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in ["", ".", "..", ".a", "a/b", "a b", "ä", &"x".repeat(64)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_uuid_counts_before_the_index_and_that_before_every() {
        let device = |byte, index| Device {
            uuid: Uuid([byte; 16]),
            index,
            name: "GPU".into(),
            memory_bytes: 1 << 30,
            mig: false,
        };
        let quota = |bytes| Quota {
            memory_bytes: Some(bytes),
            ..Quota::default()
        };
        let mut spec = Spec {
            name: "a".into(),
            origin: Origin::Config,
            cgroups: Vec::new(),
            every: Some(quota(1)),
            devices: BTreeMap::from([
                (Selector::Index(0), quota(2)),
                (Selector::Uuid(Uuid([7; 16])), quota(3)),
            ]),
        };
        assert_eq!(spec.quota(&device(7, 0)), Some(quota(3)));
        assert_eq!(spec.quota(&device(8, 0)), Some(quota(2)));
        assert_eq!(spec.quota(&device(8, 1)), Some(quota(1)));
        spec.every = None;
        assert_eq!(spec.quota(&device(8, 1)), None);
    }
}
