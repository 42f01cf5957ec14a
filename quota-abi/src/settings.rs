//! The variables of a quota: what they say for each device, or why they are refused.

mod cgpu;

use core::fmt;

use crate::spelling::{self, Ppm, Wrong};

/// What a context is charged where nobody says otherwise.
pub const CONTEXT_DEFAULT: u64 = 400 << 20;
/// Characters of a value that a refusal repeats: the reason and the example must find room in the line as well.
const QUOTED: usize = 60;
/// Aliases are read for devices below this number: far more than there are, so that a slip is found out.
const ALIASES: u32 = 100;

/// Everything that the variables say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of device memory.
    pub memory: PerDevice<u64>,
    /// Share of GPU time.
    pub compute: PerDevice<Ppm>,
    /// Name of the group that shares the quota.
    pub group: Option<String>,
    /// What each process's context on a device is charged; `None` if not said.
    pub context: Option<u64>,
    /// What NVML's utilisation is relative to.
    pub utilization: Utilization,
    /// The daemon's socket.
    pub socket: Option<String>,
    /// What is reported.
    pub log: Log,
    /// Where it is reported; stderr if not said.
    pub log_file: Option<String>,
}

impl Settings {
    /// Whether anything asks for this process to be limited or counted.
    #[must_use]
    pub fn limits(&self) -> bool {
        !self.memory.is_empty()
            || !self.compute.is_empty()
            || self.group.is_some()
            || self.socket.is_some()
    }

    /// A variable that gives some devices a value and leaves this one, which the program sees, without any: what is meant
    /// for it nobody can tell, and no limit must not be what a slip of the pen means.
    #[must_use]
    pub fn uncovered(&self, number: Option<u32>, uuid: &[u8; 16]) -> Option<Uncovered> {
        let memory = (!self.memory.covers(number, uuid)).then_some(&self.memory.origin);
        let compute = (!self.compute.covers(number, uuid)).then_some(&self.compute.origin);
        memory.or(compute).cloned().map(Uncovered)
    }

    /// The variables of other tools that a limit was read from.
    pub fn foreign(&self) -> impl Iterator<Item = &str> {
        let origins = [&self.memory.origin, &self.compute.origin];
        let names = origins.map(|origin| origin.variable.as_str());
        let foreign = |name: &&str| !name.is_empty() && !name.starts_with("GPU_QUOTA_");
        names.into_iter().filter(foreign)
    }

    /// Every device that is named, by number or by UUID.
    pub fn named(&self) -> impl Iterator<Item = Device> {
        let memory = self.memory.rows.iter().map(|(device, _)| *device);
        memory
            .chain(self.compute.rows.iter().map(|(device, _)| *device))
            .filter(|device| *device != Device::Every)
    }
}

/// What leaves a device without a word about it. Its text goes on after the name of the variable and the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncovered(Origin);

impl Uncovered {
    /// The variable, or the first of them.
    #[must_use]
    pub fn variable(&self) -> &str {
        &self.0.variable
    }

    /// What is to be added for the device of this number: no limit, or one.
    #[must_use]
    pub fn mend(&self, number: usize) -> String {
        let Origin {
            variable,
            alias,
            example,
        } = &self.0;
        match alias {
            None => format!("add {number}=none or {number}={example} to {variable}"),
            Some(alias) => {
                format!("set {alias}_{number}=0 for no limit, or {alias}_{number}={example}")
            }
        }
    }
}

/// Where the values come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Origin {
    /// The variable that was read, of several the first.
    variable: String,
    /// The alias whose numbered variables were read.
    alias: Option<&'static str>,
    /// What it could say of one device.
    example: &'static str,
}

/// One value for every device, or one each for some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerDevice<T> {
    rows: Vec<(Device, Option<T>)>,
    origin: Origin,
}

/// How a value names the device it is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// Every device that has no value of its own.
    Every,
    /// The number under which CUDA shows the device to the program.
    Number(u32),
    /// The device's UUID.
    Uuid([u8; 16]),
}

impl<T> Default for PerDevice<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            origin: Origin::default(),
        }
    }
}

impl<T: Copy> PerDevice<T> {
    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The limit of one device: what its UUID was given, else its number, else every device; `None` is no limit.
    #[must_use]
    pub fn of(&self, number: Option<u32>, uuid: &[u8; 16]) -> Option<T> {
        self.row(number, uuid).and_then(|(_, value)| *value)
    }

    /// Whether nothing was said at all, or something of this device.
    fn covers(&self, number: Option<u32>, uuid: &[u8; 16]) -> bool {
        self.is_empty() || self.row(number, uuid).is_some()
    }

    fn row(&self, number: Option<u32>, uuid: &[u8; 16]) -> Option<&(Device, Option<T>)> {
        let find = |wanted: Device| self.rows.iter().find(|(device, _)| *device == wanted);
        find(Device::Uuid(*uuid))
            .or_else(|| number.and_then(|number| find(Device::Number(number))))
            .or_else(|| find(Device::Every))
    }

    /// Whether a device's number matters.
    #[must_use]
    pub fn by_number(&self) -> bool {
        self.rows
            .iter()
            .any(|(device, _)| matches!(device, Device::Number(_)))
    }

    /// One value, or `0=VALUE,GPU-<uuid>=VALUE`.
    pub fn parse(
        text: &str,
        value: impl Fn(&str) -> Result<Option<T>, Wrong>,
    ) -> Result<Self, Wrong> {
        let mut limits = Self::default();
        if !text.contains('=') {
            if text.contains(',') {
                return Err(Wrong::List);
            }
            limits.add(Device::Every, value(text)?)?;
            return Ok(limits);
        }
        for item in text.split(',') {
            let (device, item) = item.split_once('=').ok_or(Wrong::List)?;
            limits.add(Device::parse(device)?, value(item)?)?;
        }
        Ok(limits)
    }

    fn add(&mut self, device: Device, value: Option<T>) -> Result<(), Wrong> {
        if self.rows.iter().any(|(other, _)| *other == device) {
            return Err(Wrong::Twice);
        }
        self.rows.push((device, value));
        Ok(())
    }
}

impl PerDevice<u64> {
    /// Limits that can be used up: memory is counted in units, and what is shown as free must be had.
    fn whole_units(mut self) -> Self {
        for bytes in self.rows.iter_mut().filter_map(|(_, bytes)| bytes.as_mut()) {
            *bytes -= *bytes % crate::ledger::UNIT;
        }
        self
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => f.write_str("every device"),
            Self::Number(number) => write!(f, "device {number}"),
            Self::Uuid(uuid) => write!(f, "{}", spelling::UuidText::new(uuid, false)),
        }
    }
}

impl Device {
    fn parse(text: &str) -> Result<Self, Wrong> {
        if !text.is_empty() && text.len() < 4 && text.bytes().all(|digit| digit.is_ascii_digit()) {
            return text.parse().map(Self::Number).map_err(|_| Wrong::Device);
        }
        spelling::uuid(text).map(Self::Uuid)
    }
}

/// What NVML's utilisation is relative to.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Utilization {
    /// The group's own work, of what its quota allows: 100 % is all that it may have.
    #[default]
    Quota,
    /// Everybody's work, of the whole device: as NVML says it.
    Device,
}

/// What is reported: everything up to this.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Log {
    /// Nothing at all.
    Off,
    /// Only what stops the program.
    #[default]
    Error,
    /// Attachments and refusals too.
    Info,
    /// Whatever helps to find out why.
    Debug,
}

/// A variable that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The variable.
    pub variable: String,
    /// What it says.
    pub value: String,
    /// What is wrong with it.
    pub wrong: Wrong,
    /// What it could say.
    pub example: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            variable,
            value,
            wrong,
            example,
        } = self;
        let mut ends = value.char_indices().map(|(at, _)| at);
        let end = ends.nth(QUOTED).unwrap_or(value.len());
        write!(
            f,
            "{variable}={:?}{} {wrong}; write for example {variable}={example}",
            value.get(..end).unwrap_or_default(),
            if end < value.len() { "..." } else { "" }
        )
    }
}

impl std::error::Error for Refusal {}

/// Reads the settings; `variable` gives the bytes of a variable, if it is set.
pub fn read<'a>(variable: impl Fn(&str) -> Option<&'a [u8]>) -> Result<Settings, Refusal> {
    let reader = Reader { variable };
    let mut memory = reader.limits("GPU_QUOTA_MEMORY", "4GiB", spelling::size, &MEMORY)?;
    if memory.is_empty() {
        memory = cgpu::memory(&reader)?;
    }
    Ok(Settings {
        memory: memory.whole_units(),
        compute: reader.limits("GPU_QUOTA_COMPUTE", "30%", spelling::share, &COMPUTE)?,
        group: reader.read("GPU_QUOTA_GROUP", "team-a", text)?,
        context: reader.read("GPU_QUOTA_CONTEXT", "400MiB", spelling::size_or_zero)?,
        utilization: reader
            .read("GPU_QUOTA_UTILIZATION", "quota", utilization)?
            .unwrap_or_default(),
        socket: reader.read("GPU_QUOTA_SOCKET", "/run/gpu-quota/quota.sock", text)?,
        log: reader
            .read("GPU_QUOTA_LOG", "error", log)?
            .unwrap_or_default(),
        log_file: reader.read("GPU_QUOTA_LOG_FILE", "/tmp/gpu-quota.log", text)?,
    })
}

/// Only what is reported and where, so that a refusal of the rest can be reported. A bad value counts as none here; [`read`]
/// refuses it.
pub fn read_log<'a>(variable: impl Fn(&str) -> Option<&'a [u8]>) -> (Log, Option<String>) {
    let reader = Reader { variable };
    let level = reader.read("GPU_QUOTA_LOG", "error", log);
    let file = reader.read("GPU_QUOTA_LOG_FILE", "/tmp/gpu-quota.log", text);
    (
        level.ok().flatten().unwrap_or_default(),
        file.ok().flatten(),
    )
}

/// A variable that other shims read, plain and with a device's number behind it.
struct Alias<T> {
    name: &'static str,
    example: &'static str,
    value: fn(&str) -> Result<Option<T>, Wrong>,
}

const MEMORY: Alias<u64> = Alias {
    name: "CUDA_DEVICE_MEMORY_LIMIT",
    example: "4096m",
    value: spelling::alias_size,
};

const COMPUTE: Alias<Ppm> = Alias {
    name: "CUDA_DEVICE_SM_LIMIT",
    example: "30",
    value: spelling::alias_share,
};

struct Reader<F> {
    variable: F,
}

impl<'a, F: Fn(&str) -> Option<&'a [u8]>> Reader<F> {
    fn read<T>(
        &self,
        name: &str,
        example: &'static str,
        parse: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Result<Option<T>, Refusal> {
        let Some(bytes) = (self.variable)(name) else {
            return Ok(None);
        };
        let parsed = match core::str::from_utf8(bytes) {
            Ok(text) => parse(text),
            Err(_) => Err(Wrong::Text),
        };
        parsed.map(Some).map_err(|wrong| Refusal {
            variable: name.to_owned(),
            value: String::from_utf8_lossy(bytes).into_owned(),
            wrong,
            example,
        })
    }

    /// Our variable; where it is not set, its aliases.
    fn limits<T: Copy>(
        &self,
        name: &str,
        example: &'static str,
        value: fn(&str) -> Result<Option<T>, Wrong>,
        alias: &Alias<T>,
    ) -> Result<PerDevice<T>, Refusal> {
        let parse = |text: &str| PerDevice::parse(text, value);
        if let Some(mut limits) = self.read(name, example, parse)? {
            limits.origin = Origin {
                variable: name.into(),
                alias: None,
                example,
            };
            return Ok(limits);
        }
        let mut limits = PerDevice::default();
        if let Some(value) = self.read(alias.name, alias.example, alias.value)? {
            limits.rows.push((Device::Every, value));
            limits.origin.variable = alias.name.to_owned();
        }
        for number in 0..ALIASES {
            let name = format!("{}_{number}", alias.name);
            if let Some(value) = self.read(&name, alias.example, alias.value)? {
                if limits.is_empty() {
                    limits.origin = Origin {
                        variable: name,
                        alias: Some(alias.name),
                        example: alias.example,
                    };
                }
                limits.rows.push((Device::Number(number), value));
            }
        }
        Ok(limits)
    }
}

fn text(text: &str) -> Result<String, Wrong> {
    if text.is_empty() {
        return Err(Wrong::Empty);
    }
    Ok(text.to_owned())
}

fn utilization(text: &str) -> Result<Utilization, Wrong> {
    match text {
        "quota" => Ok(Utilization::Quota),
        "device" => Ok(Utilization::Device),
        "" => Err(Wrong::Empty),
        _ => Err(Wrong::Word),
    }
}

fn log(text: &str) -> Result<Log, Wrong> {
    Ok(match text {
        "off" => Log::Off,
        "error" => Log::Error,
        "info" => Log::Info,
        "debug" => Log::Debug,
        "" => return Err(Wrong::Empty),
        _ => return Err(Wrong::Word),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-00000000-0000-0000-0000-0000000000ff";
    const LAST: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255];

    fn given(variables: &[(&str, &'static str)]) -> Result<Settings, Refusal> {
        read(|name| {
            variables
                .iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, value)| value.as_bytes())
        })
    }

    #[test]
    fn nothing_said_is_no_limit() {
        let settings = given(&[]).unwrap();
        assert_eq!(settings, Settings::default());
        assert!(!settings.limits());
        assert_eq!(settings.memory.of(Some(0), &LAST), None);
        assert!(!given(&[("GPU_QUOTA_LOG", "debug")]).unwrap().limits());
    }

    #[test]
    fn a_limit_is_whole_units() {
        let settings = given(&[("GPU_QUOTA_MEMORY", "0=1000000,1=1024,2=none")]).unwrap();
        let of = |number| settings.memory.of(Some(number), &LAST);
        assert_eq!((of(0), of(1), of(2)), (Some(999_936), Some(1024), None));
    }

    #[test]
    fn one_value_is_for_every_device() {
        let settings =
            given(&[("GPU_QUOTA_MEMORY", "1GiB"), ("GPU_QUOTA_COMPUTE", "30%")]).unwrap();
        assert!(settings.limits());
        for number in [None, Some(0), Some(7)] {
            assert_eq!(settings.memory.of(number, &LAST), Some(1 << 30));
            assert_eq!(settings.compute.of(number, &LAST), Some(300_000));
        }
    }

    #[test]
    fn a_uuid_outranks_a_number() {
        let list = format!("0=4GiB,{UUID}=8GiB,2=none");
        let limits = PerDevice::parse(&list, spelling::size).unwrap();
        assert_eq!(limits.of(Some(0), &[0; 16]), Some(4 << 30));
        assert_eq!(limits.of(Some(0), &LAST), Some(8 << 30));
        assert_eq!(limits.of(Some(1), &[0; 16]), None);
        assert_eq!(limits.of(Some(2), &[0; 16]), None);
        assert_eq!(limits.of(None, &[0; 16]), None);
    }

    #[test]
    fn bad_lists_are_refused() {
        for (text, wrong) in [
            ("4GiB,8GiB", Wrong::List),
            ("0=4GiB,8GiB", Wrong::List),
            ("0=4GiB,", Wrong::List),
            ("=4GiB", Wrong::Device),
            ("x=4GiB", Wrong::Device),
            ("-1=4GiB", Wrong::Device),
            ("0=4GiB,0=8GiB", Wrong::Twice),
            ("0=", Wrong::Empty),
            ("0=0", Wrong::Zero),
            ("GPU-1=4GiB", Wrong::Device),
        ] {
            assert_eq!(
                PerDevice::parse(text, spelling::size).unwrap_err(),
                wrong,
                "{text}"
            );
        }
    }

    #[test]
    fn aliases_stand_in_where_ours_are_not_set() {
        let aliases = [
            ("CUDA_DEVICE_MEMORY_LIMIT", "3000m"),
            ("CUDA_DEVICE_MEMORY_LIMIT_1", "2g"),
            ("CUDA_DEVICE_MEMORY_LIMIT_2", "0"),
            ("CUDA_DEVICE_SM_LIMIT_0", "50"),
        ];
        let settings = given(&aliases).unwrap();
        assert_eq!(settings.memory.of(Some(0), &LAST), Some(3000 << 20));
        assert_eq!(settings.memory.of(Some(1), &LAST), Some(2 << 30));
        assert_eq!(settings.memory.of(Some(2), &LAST), None);
        assert_eq!(settings.compute.of(Some(0), &LAST), Some(500_000));
        assert_eq!(settings.compute.of(Some(1), &LAST), None);

        let mut both = aliases.to_vec();
        both.push(("GPU_QUOTA_MEMORY", "1GiB"));
        let settings = given(&both).unwrap();
        assert_eq!(settings.memory.of(Some(1), &LAST), Some(1 << 30));
    }

    #[test]
    fn a_device_that_a_list_leaves_out_is_uncovered() {
        let list: &'static str = format!("0=4GiB,{UUID}=8GiB").leak();
        let settings = given(&[("GPU_QUOTA_MEMORY", list)]).unwrap();
        assert_eq!(settings.uncovered(Some(0), &[0; 16]), None);
        assert_eq!(settings.uncovered(Some(7), &LAST), None);
        let left_out = settings.uncovered(Some(1), &[0; 16]).unwrap();
        assert_eq!(left_out.variable(), "GPU_QUOTA_MEMORY");
        assert_eq!(left_out.mend(1), "add 1=none or 1=4GiB to GPU_QUOTA_MEMORY");
        // What is written as the mend covers it.
        let mended: &'static str = format!("{list},1=none").leak();
        let settings = given(&[("GPU_QUOTA_MEMORY", mended)]).unwrap();
        assert_eq!(settings.uncovered(Some(1), &[0; 16]), None);
        assert_eq!(settings.named().count(), 3);
    }

    #[test]
    fn aliases_leave_out_devices_as_well() {
        let settings = given(&[("CUDA_DEVICE_SM_LIMIT_2", "30")]).unwrap();
        let left_out = settings.uncovered(Some(0), &LAST).unwrap();
        assert_eq!(left_out.variable(), "CUDA_DEVICE_SM_LIMIT_2");
        assert_eq!(
            left_out.mend(0),
            "set CUDA_DEVICE_SM_LIMIT_0=0 for no limit, or CUDA_DEVICE_SM_LIMIT_0=30"
        );
        let both = [
            ("CUDA_DEVICE_SM_LIMIT_2", "30"),
            ("CUDA_DEVICE_SM_LIMIT", "0"),
        ];
        assert_eq!(given(&both).unwrap().uncovered(Some(0), &LAST), None);
        assert_eq!(Settings::default().uncovered(Some(0), &LAST), None);
    }

    #[test]
    fn a_long_value_does_not_push_the_mend_out() {
        let long: &'static str = "9".repeat(100_000).leak();
        let line = given(&[("GPU_QUOTA_MEMORY", long)])
            .unwrap_err()
            .to_string();
        assert!(line.contains("...") && line.ends_with("GPU_QUOTA_MEMORY=4GiB"));
        assert!(line.len() < 200, "{line}");
        let text: &'static str = "ä".repeat(61).leak();
        let line = given(&[("GPU_QUOTA_MEMORY", text)])
            .unwrap_err()
            .to_string();
        assert!(line.contains(&"ä".repeat(60)) && !line.contains(text));
    }

    #[test]
    fn every_refusal_names_the_variable_and_a_good_example() {
        for (variable, value) in [
            ("GPU_QUOTA_MEMORY", ""),
            ("GPU_QUOTA_MEMORY", "0"),
            ("GPU_QUOTA_MEMORY", "-1GiB"),
            ("GPU_QUOTA_MEMORY", "4gb"),
            ("GPU_QUOTA_COMPUTE", "101%"),
            ("GPU_QUOTA_COMPUTE", ""),
            ("GPU_QUOTA_GROUP", ""),
            ("GPU_QUOTA_CONTEXT", "much"),
            ("GPU_QUOTA_UTILIZATION", "all"),
            ("GPU_QUOTA_SOCKET", ""),
            ("GPU_QUOTA_LOG", "loud"),
            ("GPU_QUOTA_LOG_FILE", ""),
            ("CUDA_DEVICE_MEMORY_LIMIT", "1.5g"),
            ("CUDA_DEVICE_MEMORY_LIMIT_3", "x"),
            ("CUDA_DEVICE_SM_LIMIT", "101"),
            ("CUDA_DEVICE_SM_LIMIT_0", "30%"),
        ] {
            let refusal = given(&[(variable, value)]).unwrap_err();
            let line = refusal.to_string();
            assert!(
                line.starts_with(&format!("{variable}={value:?} ")),
                "{line}"
            );
            let good = line.rsplit_once('=').unwrap().1.to_owned();
            let good: &'static str = good.leak();
            assert!(given(&[(variable, good)]).is_ok(), "{line}");
        }
    }
}
