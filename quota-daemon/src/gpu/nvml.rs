//! The real source of readings: the driver's `libnvidia-ml.so.1`, loaded when it is first needed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device as Handle, Nvml as Session};

use super::text::explain;
use super::{Detail, DeviceReading, GpuProcess, Reading, Source, old};
use crate::model::{Device, Uuid};

/// A session with a lost GPU is given up and opened anew, no more often than this: NVML finds a GPU again at its
/// initialisation only, and that is expensive.
const REOPEN: Duration = Duration::from_secs(30);
/// A process list that grows between two calls is asked for again, so often.
const TRIES: usize = 3;

/// NVML.
#[derive(Default)]
pub struct Nvml {
    session: Option<Session>,
    opened: Option<Instant>,
    /// Every device that has been seen: one that is lost keeps its place.
    known: BTreeMap<Uuid, Device>,
    number: u64,
}

impl Nvml {
    /// Does not touch the driver yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything that was ever seen, with nothing known of it now.
    fn blind(&self, trouble: String) -> Reading {
        let devices = self.known.values();
        let devices = devices.map(|device| DeviceReading::blind(device.clone(), &trouble));
        Reading {
            number: self.number,
            at: Instant::now(),
            devices: devices.collect(),
            trouble: Some(trouble),
        }
    }

    fn session(&mut self) -> Result<Session, String> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        self.opened = Some(Instant::now());
        Session::init().map_err(|error| explain("nvmlInit", &error))
    }
}

impl Source for Nvml {
    fn read(&mut self, detail: Detail) -> Reading {
        self.number += 1;
        let session = match self.session() {
            Ok(session) => session,
            Err(trouble) => return self.blind(trouble),
        };
        let count = match session.device_count() {
            Ok(count) => count,
            // The session is given up, and the next reading opens one.
            Err(error) => return self.blind(explain("nvmlDeviceGetCount", &error)),
        };
        let mut look = Look::new(detail, &mut self.known);
        for index in 0..count {
            look.gpu(&session, index);
        }
        let Look {
            mut found,
            missing,
            lost,
            ..
        } = look;
        for (uuid, device) in &self.known {
            if !found.contains_key(uuid) {
                let text = missing.get(&device.index).map_or(
                    "NVML does not list it any more: it has fallen off the bus, or was taken away",
                    String::as_str,
                );
                found.insert(*uuid, DeviceReading::blind(device.clone(), text));
            }
        }
        let stale = self.opened.is_none_or(|opened| opened.elapsed() > REOPEN);
        if !((lost || !missing.is_empty()) && stale) {
            self.session = Some(session);
        }
        // A GPU that was never seen in a state that shows its UUID has no place among the devices.
        let nameless = missing.iter().filter(|(index, _)| {
            !found
                .values()
                .any(|reading| reading.device.index == **index)
        });
        let nameless: Vec<&str> = nameless.map(|(_, text)| text.as_str()).collect();
        let mut devices: Vec<DeviceReading> = found.into_values().collect();
        devices.sort_by_key(|reading| (reading.device.index, reading.device.uuid));
        Reading {
            number: self.number,
            at: Instant::now(),
            devices,
            trouble: (!nameless.is_empty()).then(|| nameless.join("; ")),
        }
    }
}

/// One look at all devices.
struct Look<'a> {
    detail: Detail,
    known: &'a mut BTreeMap<Uuid, Device>,
    found: BTreeMap<Uuid, DeviceReading>,
    /// GPUs that could not be identified, by index, and why.
    missing: BTreeMap<u32, String>,
    /// Whether any GPU has to be found again.
    lost: bool,
}

impl<'a> Look<'a> {
    fn new(detail: Detail, known: &'a mut BTreeMap<Uuid, Device>) -> Self {
        Self {
            detail,
            known,
            found: BTreeMap::new(),
            missing: BTreeMap::new(),
            lost: false,
        }
    }

    /// A GPU, or, if it is divided, its instances.
    fn gpu(&mut self, session: &Session, index: u32) {
        let handle = match session.device_by_index(index) {
            Ok(handle) => handle,
            Err(error) => {
                self.miss(index, "nvmlDeviceGetHandleByIndex", &error);
                return;
            }
        };
        let divided = handle.mig_mode().is_ok_and(|mode| mode.current == 1);
        if !divided {
            self.device(&handle, index, false);
            return;
        }
        // Instances come and go: those that are not there now are not lost. Nor is the GPU itself a device any more.
        self.known.retain(|_, device| device.index != index);
        for place in 0..handle.mig_device_count().unwrap_or(0) {
            match handle.mig_device_by_index(place) {
                Ok(instance) => self.device(&instance, index, true),
                Err(NvmlError::NotFound | NvmlError::InvalidArg) => {}
                Err(error) => self.miss(index, "nvmlDeviceGetMigDeviceHandleByIndex", &error),
            }
        }
    }

    fn miss(&mut self, index: u32, call: &str, error: &NvmlError) {
        let text = format!("GPU {index}: {}", explain(call, error));
        self.missing.insert(index, text);
    }

    fn device(&mut self, handle: &Handle<'_>, index: u32, mig: bool) {
        let uuid = match handle.uuid() {
            Ok(text) => text,
            Err(error) => {
                self.lost |= is_lost(&error);
                self.miss(index, "nvmlDeviceGetUUID", &error);
                return;
            }
        };
        let Ok(uuid) = uuid.parse::<Uuid>() else {
            let text =
                format!("GPU {index}: its UUID {uuid:?} is not of a form that is known here");
            self.missing.insert(index, text);
            return;
        };
        let mut trouble = Trouble::default();
        let memory = memory(handle, &mut trouble);
        let device = self
            .known
            .get(&uuid)
            .filter(|known| known.index == index && known.mig == mig);
        let device = match (device, memory) {
            (Some(device), memory) => Device {
                memory_bytes: memory.map_or(device.memory_bytes, |(total, _)| total),
                ..device.clone()
            },
            (None, Some((total, _))) => Device {
                uuid,
                index,
                name: handle.name().unwrap_or_else(|_| "GPU".to_owned()),
                memory_bytes: total,
                mig,
            },
            // A device whose size is not known cannot be shared out.
            (None, None) => {
                self.lost |= trouble.lost;
                let text = trouble.text.unwrap_or_default();
                self.missing.insert(index, format!("GPU {index}: {text}"));
                return;
            }
        };
        self.known.insert(uuid, device.clone());
        let processes = processes(handle, &mut trouble);
        // Where nobody works and nobody looks, the question is not worth its price.
        let busy = processes
            .as_ref()
            .is_some_and(|processes| !processes.is_empty());
        let utilization_percent = if !mig && (busy || self.detail == Detail::Full) {
            utilization(handle, &mut trouble)
        } else {
            None
        };
        self.lost |= trouble.lost;
        let reading = DeviceReading {
            device,
            used_bytes: memory.map(|(_, used)| used),
            utilization_percent,
            processes,
            trouble: trouble.text,
        };
        self.found.insert(uuid, reading);
    }
}

/// The first thing that went wrong with a device.
#[derive(Default)]
struct Trouble {
    text: Option<String>,
    lost: bool,
}

impl Trouble {
    fn meet(&mut self, call: &str, error: &NvmlError) {
        self.lost |= is_lost(error);
        if self.text.is_none() {
            self.text = Some(explain(call, error));
        }
    }
}

fn is_lost(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::Uninitialized
    )
}

/// Whether a driver is too old for the newest version of a query.
fn is_missing(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound
    )
}

/// Bytes of memory, and bytes used.
fn memory(handle: &Handle<'_>, trouble: &mut Trouble) -> Option<(u64, u64)> {
    let error = match handle.memory_info() {
        Ok(memory) => return Some((memory.total, memory.used)),
        Err(error) => error,
    };
    let found = if is_missing(&error) {
        old::memory(handle)
    } else {
        None
    };
    if found.is_none() {
        trouble.meet("nvmlDeviceGetMemoryInfo", &error);
    }
    found
}

fn utilization(handle: &Handle<'_>, trouble: &mut Trouble) -> Option<u32> {
    match handle.utilization_rates() {
        Ok(rates) => Some(rates.gpu),
        Err(NvmlError::NotSupported) => None,
        Err(error) => {
            trouble.meet("nvmlDeviceGetUtilizationRates", &error);
            None
        }
    }
}

type List<'a> = Result<Vec<ProcessInfo>, NvmlError>;

/// Who computes or draws. A process that does both is in both lists, and holds what it holds once.
fn processes(handle: &Handle<'_>, trouble: &mut Trouble) -> Option<Vec<GpuProcess>> {
    let compute = newest(
        || handle.running_compute_processes(),
        || handle.running_compute_processes_v2(),
    );
    let compute = match compute {
        Ok(list) => list,
        Err(error) => {
            trouble.meet("nvmlDeviceGetComputeRunningProcesses", &error);
            return None;
        }
    };
    // MIG instances have no graphics, and older drivers no list of MPS clients: who cannot be there is not missed.
    let graphics = newest(
        || handle.running_graphics_processes(),
        || handle.running_graphics_processes_v2(),
    );
    let mps = handle.mps_running_compute_processes();
    let lists = [Ok(compute), graphics, mps];
    Some(merge(lists.into_iter().filter_map(Result::ok).flatten()))
}

fn newest<'a>(newest: impl Fn() -> List<'a>, older: impl Fn() -> List<'a>) -> List<'a> {
    match again(newest) {
        Err(error) if is_missing(&error) => again(older),
        other => other,
    }
}

fn again<'a>(list: impl Fn() -> List<'a>) -> List<'a> {
    for _ in 1..TRIES {
        match list() {
            Err(NvmlError::InsufficientSize(_)) => {}
            other => return other,
        }
    }
    list()
}

fn merge(lists: impl Iterator<Item = ProcessInfo>) -> Vec<GpuProcess> {
    let mut merged: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    for process in lists {
        let bytes = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        let known = merged.entry(process.pid).or_default();
        *known = (*known).max(bytes);
    }
    let process = |(pid, bytes)| GpuProcess { pid, bytes };
    merged.into_iter().map(process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_two_lists_is_one() {
        let process = |pid, used_gpu_memory| ProcessInfo {
            pid,
            used_gpu_memory,
            gpu_instance_id: None,
            compute_instance_id: None,
        };
        let merged = merge(
            [
                process(7, UsedGpuMemory::Used(5)),
                process(3, UsedGpuMemory::Unavailable),
                process(7, UsedGpuMemory::Used(4)),
                process(3, UsedGpuMemory::Unavailable),
            ]
            .into_iter(),
        );
        let expected = [(3, None), (7, Some(5))].map(|(pid, bytes)| GpuProcess { pid, bytes });
        assert_eq!(merged, expected);
    }
}
