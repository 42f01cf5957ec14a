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

/// As new as the header.
#[expect(
    clippy::cast_possible_wrap,
    reason = "a version number, far from the limit"
)]
const DEFAULT_DRIVER: i32 = cuda_headers::driver::CUDA_VERSION as i32;

/// The driver's default time slice.
const DEFAULT_SLICE_US: u64 = 1024;

/// A simulation as the environment describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name, from which the device UUIDs follow.
    pub name: String,
    /// The file that its processes share.
    pub path: PathBuf,
    /// The devices; `None`: whatever the simulation has, or one device of 24 GiB.
    pub devices: Option<Vec<DeviceSpec>>,
    /// Bytes that the first context of a process holds on a device.
    pub context_bytes: u64,
    /// Length of a time slice in nanoseconds.
    pub slice_ns: u64,
    /// The label under which this process is accounted.
    pub tenant: String,
    /// The driver's CUDA version, in the header's way: 13000 is 13.0.
    pub driver: i32,
    /// What shall go wrong on purpose: words that the libraries know.
    pub faults: Vec<String>,
}

/// A device as `GPU_SIM_DEVICES` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Its memory in bytes.
    pub total: u64,
    /// For a MIG instance, the place of its whole GPU among the devices.
    pub parent: Option<usize>,
}

impl DeviceSpec {
    fn whole(total: u64) -> Self {
        Self {
            total,
            parent: None,
        }
    }
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

/// A variable of this process; as the kernel was given it, while the C library has not set up its own list (in functions of
/// `.preinit_array`).
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    unsafe extern "C" {
        static environ: *const *const core::ffi::c_char;
    }
    // SAFETY: the C library's own variable, read once.
    if !unsafe { (&raw const environ).read() }.is_null() {
        return std::env::var(name).ok();
    }
    let all = std::fs::read("/proc/self/environ").ok()?;
    let value = all.split(|byte| *byte == 0).find_map(|line| {
        let rest = line.strip_prefix(name.as_bytes())?;
        rest.strip_prefix(b"=")
    })?;
    String::from_utf8(value.to_vec()).ok()
}

impl Config {
    /// Reads the `GPU_SIM*` variables of this process.
    ///
    /// # Errors
    /// A variable has a value that is not understood.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_lookup(variable)
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
            driver: parse(&get, "GPU_SIM_DRIVER", "12.4", parse_driver)?.unwrap_or(DEFAULT_DRIVER),
            faults: get("GPU_SIM_FAULTS")
                .unwrap_or_default()
                .split(',')
                .map(|word| word.trim().to_owned())
                .filter(|word| !word.is_empty())
                .collect(),
        })
    }

    /// The devices to create where there are none yet.
    #[must_use]
    pub fn devices_or_default(&self) -> Vec<DeviceSpec> {
        self.devices
            .clone()
            .unwrap_or_else(|| vec![DeviceSpec::whole(DEFAULT_TOTAL)])
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

/// `"2"` (devices of 24 GiB), `"24GiB,80GiB"` (one per size), or `"80GiB[10GiB,20GiB],24GiB"`: the
/// first in MIG mode, with two instances that come after it in the list of devices.
fn parse_devices(text: &str) -> Option<Vec<DeviceSpec>> {
    let devices = match text.parse::<usize>() {
        Ok(count) => vec![DeviceSpec::whole(DEFAULT_TOTAL); count.min(MAX_DEVICES + 1)],
        Err(_) => parse_sizes(text)?,
    };
    (!devices.is_empty() && devices.len() <= MAX_DEVICES).then_some(devices)
}

fn parse_sizes(text: &str) -> Option<Vec<DeviceSpec>> {
    let mut devices: Vec<DeviceSpec> = Vec::new();
    let mut parent = None;
    for part in text.split(',') {
        let mut part = part.trim();
        let closes = part.ends_with(']');
        part = part.strip_suffix(']').unwrap_or(part);
        if let Some((whole, first)) = part.split_once('[') {
            if parent.is_some() {
                return None;
            }
            devices.push(DeviceSpec::whole(size_above_zero(whole)?));
            parent = Some(devices.len() - 1);
            part = first;
        }
        if closes && parent.is_none() {
            return None;
        }
        let total = size_above_zero(part)?;
        devices.push(DeviceSpec { total, parent });
        if closes {
            parent = None;
        }
    }
    parent.is_none().then_some(devices)
}

fn size_above_zero(text: &str) -> Option<u64> {
    parse_size(text.trim()).filter(|size| *size > 0)
}

/// `"12.4"` is 12040.
fn parse_driver(text: &str) -> Option<i32> {
    let (major, minor) = text.split_once('.')?;
    let (major, minor) = (major.parse::<i32>().ok()?, minor.parse::<i32>().ok()?);
    ((8..100).contains(&major) && (0..10).contains(&minor)).then_some(major * 1000 + minor * 10)
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
        let whole = DeviceSpec::whole;
        assert_eq!(devices("2"), Ok(Some(vec![whole(DEFAULT_TOTAL); 2])));
        assert_eq!(
            devices("1GiB, 2MiB"),
            Ok(Some(vec![whole(GIB), whole(2 << 20)]))
        );
        assert_eq!(devices(""), Ok(None));
        for bad in [
            "0",
            "17",
            "1GiB,",
            "many",
            "1GB",
            "1GiB[",
            "1GiB[1MiB",
            "1GiB]",
            "1GiB[1MiB[1MiB]]",
        ] {
            let error = devices(bad).unwrap_err();
            assert!(error.to_string().contains("GPU_SIM_DEVICES"), "{error}");
        }
    }

    #[test]
    fn instances_follow_their_gpu() {
        let devices = config(&[("GPU_SIM_DEVICES", "4GiB[1GiB, 2GiB],3GiB")])
            .unwrap()
            .devices;
        let found: Vec<(u64, Option<usize>)> = devices
            .unwrap()
            .iter()
            .map(|device| (device.total / GIB, device.parent))
            .collect();
        assert_eq!(found, [(4, None), (1, Some(0)), (2, Some(0)), (3, None)]);
    }

    #[test]
    fn drivers_have_a_major_and_a_minor() {
        let driver = |text| config(&[("GPU_SIM_DRIVER", text)]).map(|c| c.driver);
        assert_eq!(driver("11.4"), Ok(11040));
        assert_eq!(driver(""), Ok(DEFAULT_DRIVER));
        for bad in ["12", "12.40", "new", "-1.0"] {
            assert!(driver(bad).is_err(), "{bad}");
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
