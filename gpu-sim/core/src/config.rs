//! What the environment says about the simulation.

use std::fmt;
use std::path::PathBuf;

use crate::layout::MAX_DEVICES;

const GIB: u64 = 1 << 30;

/// Total memory of a device for which nothing else is asked.
const DEFAULT_TOTAL: u64 = 24 * GIB;

/// What a context holds on its device. Drivers of recent years take between 200 and 500 MiB,
/// depending on the device and on how many kernels the libraries bring.
const DEFAULT_CONTEXT: u64 = 300 << 20;

/// The driver's default time slice.
const DEFAULT_SLICE_US: u64 = 1024;

/// A simulation as the environment describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name, from which the device UUIDs follow.
    pub name: String,
    /// The file that its processes share.
    pub path: PathBuf,
    /// Total bytes of each device; `None`: whatever the simulation has, or one device of 24 GiB.
    pub devices: Option<Vec<u64>>,
    /// Bytes that the first context of a process holds on a device.
    pub context_bytes: u64,
    /// Length of a time slice in nanoseconds.
    pub slice_ns: u64,
    /// The label under which this process is accounted.
    pub tenant: String,
}

/// A variable that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    variable: &'static str,
    value: String,
    good: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "gpu-sim: {}={:?} is not understood; an example that is: {}={}",
            self.variable, self.value, self.variable, self.good
        )
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads the `GPU_SIM*` variables of this process.
    ///
    /// # Errors
    /// A variable has a value that is not understood.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    /// The same from any source of variables.
    ///
    /// # Errors
    /// A variable has a value that is not understood.
    pub fn from_lookup(get: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let name = get("GPU_SIM")
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "default".to_owned());
        let path = if name.contains('/') {
            PathBuf::from(&name)
        } else {
            // SAFETY: getuid has no preconditions and cannot fail.
            let uid = unsafe { libc::getuid() };
            PathBuf::from(format!("/dev/shm/gpu-sim.{uid}.{name}"))
        };
        Ok(Self {
            name,
            path,
            devices: parse(&get, "GPU_SIM_DEVICES", "24GiB,80GiB", parse_devices)?,
            context_bytes: parse(&get, "GPU_SIM_CONTEXT", "300MiB", parse_size)?
                .unwrap_or(DEFAULT_CONTEXT),
            slice_ns: parse(&get, "GPU_SIM_SLICE_US", "1024", |text| {
                text.parse().ok().filter(|us| (1..=10_000_000).contains(us))
            })?
            .unwrap_or(DEFAULT_SLICE_US)
                * 1000,
            tenant: get("GPU_SIM_TENANT").unwrap_or_default(),
        })
    }

    /// The devices to create where there are none yet.
    #[must_use]
    pub fn devices_or_default(&self) -> Vec<u64> {
        self.devices.clone().unwrap_or_else(|| vec![DEFAULT_TOTAL])
    }
}

fn parse<T>(
    get: &impl Fn(&str) -> Option<String>,
    variable: &'static str,
    good: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ConfigError> {
    let Some(value) = get(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    match read(value.trim()) {
        Some(read) => Ok(Some(read)),
        None => Err(ConfigError {
            variable,
            value,
            good,
        }),
    }
}

/// `"2"` (devices of 24 GiB) or `"24GiB,80GiB"` (one per size).
fn parse_devices(text: &str) -> Option<Vec<u64>> {
    let devices = match text.parse::<usize>() {
        Ok(count) => vec![DEFAULT_TOTAL; count.min(MAX_DEVICES + 1)],
        Err(_) => text
            .split(',')
            .map(|size| parse_size(size.trim()).filter(|size| *size > 0))
            .collect::<Option<Vec<u64>>>()?,
    };
    (!devices.is_empty() && devices.len() <= MAX_DEVICES).then_some(devices)
}

/// Bytes, or a number with `KiB`, `MiB`, `GiB`, `TiB`.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)? {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_lookup(|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn devices_are_a_count_or_sizes() {
        let devices = |text| config(&[("GPU_SIM_DEVICES", text)]).map(|c| c.devices);
        assert_eq!(devices("2"), Ok(Some(vec![DEFAULT_TOTAL; 2])));
        assert_eq!(devices("1GiB, 2MiB"), Ok(Some(vec![GIB, 2 << 20])));
        assert_eq!(devices(""), Ok(None));
        for bad in ["0", "17", "1GiB,", "many", "1GB"] {
            let error = devices(bad).unwrap_err();
            assert!(error.to_string().contains("GPU_SIM_DEVICES"), "{error}");
        }
    }

    #[test]
    fn a_name_with_a_slash_is_a_path() {
        let named = config(&[("GPU_SIM", "x")]).unwrap();
        assert!(named.path.starts_with("/dev/shm"));
        let path = config(&[("GPU_SIM", "/tmp/x")]).unwrap();
        assert_eq!(path.path, PathBuf::from("/tmp/x"));
    }

    #[test]
    fn slices_are_bounded() {
        assert_eq!(config(&[]).unwrap().slice_ns, 1_024_000);
        assert!(config(&[("GPU_SIM_SLICE_US", "0")]).is_err());
    }
}
