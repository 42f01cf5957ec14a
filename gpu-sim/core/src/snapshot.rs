//! The whole account at one moment, as data and as JSON.

use std::fmt::Write;

use crate::account::Usage;
use crate::clock::now_ns;
use crate::simulation::Simulation;

/// The account of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// When it was taken, on the monotonic clock.
    pub clock_ns: u64,
    /// One entry per device.
    pub devices: Vec<DeviceAccount>,
}

/// A device's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAccount {
    /// `GPU-...`, or `MIG-...` for an instance.
    pub uuid: String,
    /// Its memory in bytes.
    pub total: u64,
    /// What is held of it.
    pub usage: Usage,
    /// How long it has been busy.
    pub busy_ns: u64,
    /// By tenant, dead processes' time included.
    pub tenants: Vec<TenantAccount>,
    /// By living process.
    pub processes: Vec<ProcessAccount>,
}

/// A tenant's part of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantAccount {
    /// What `GPU_SIM_TENANT` said.
    pub label: String,
    /// What it holds.
    pub usage: Usage,
    /// GPU time it has had.
    pub busy_ns: u64,
}

/// A process's part of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessAccount {
    /// Its process id.
    pub pid: u32,
    /// Its tenant.
    pub label: String,
    /// What it holds.
    pub usage: Usage,
    /// GPU time it has had.
    pub busy_ns: u64,
}

impl Simulation {
    /// The account now, with what the dead held given back.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut locked = self.lock();
        locked.reap();
        let clock_ns = now_ns();
        for device in 0..locked.shared().device_count as usize {
            locked.advance(device, clock_ns);
        }
        let shared = locked.shared();
        let account = |index: usize| {
            let device = &shared.devices[index];
            let processes: Vec<ProcessAccount> = shared
                .living()
                .map(|slot| shared.process_info(slot, index))
                .map(|info| ProcessAccount {
                    pid: info.pid,
                    label: info.label,
                    usage: info.usage,
                    busy_ns: info.busy_ns,
                })
                .collect();
            let tenants = shared.tenants.iter().filter(|tenant| tenant.used != 0);
            DeviceAccount {
                uuid: match device.parent() {
                    None => uuid_text("GPU-", &device.uuid),
                    Some(_) => uuid_text("MIG-", &device.uuid),
                },
                total: device.total,
                usage: device.account.usage(),
                busy_ns: device.time.busy_ns,
                tenants: tenants
                    .map(|tenant| TenantAccount {
                        label: tenant.label().to_owned(),
                        usage: tenant.accounts[index].usage(),
                        busy_ns: tenant.retired_busy_ns[index]
                            + processes
                                .iter()
                                .filter(|process| process.label == tenant.label())
                                .map(|process| process.busy_ns)
                                .sum::<u64>(),
                    })
                    .collect(),
                processes,
            }
        };
        Snapshot {
            clock_ns,
            devices: (0..shared.device_count as usize).map(account).collect(),
        }
    }
}

impl Snapshot {
    /// The JSON that `gpuSimSnapshot` answers.
    #[must_use]
    pub fn to_json(&self) -> String {
        let devices = list(&self.devices, |device| {
            format!(
                "{{\"uuid\":{},\"total\":{},{},\"busy_ns\":{},\"tenants\":{},\"processes\":{}}}",
                quoted(&device.uuid),
                device.total,
                usage(&device.usage),
                device.busy_ns,
                list(&device.tenants, |tenant| format!(
                    "{{\"label\":{},{},\"busy_ns\":{}}}",
                    quoted(&tenant.label),
                    usage(&tenant.usage),
                    tenant.busy_ns
                )),
                list(&device.processes, |process| format!(
                    "{{\"pid\":{},\"label\":{},{},\"busy_ns\":{}}}",
                    process.pid,
                    quoted(&process.label),
                    usage(&process.usage),
                    process.busy_ns
                )),
            )
        });
        format!("{{\"devices\":{devices},\"clock_ns\":{}}}", self.clock_ns)
    }
}

fn usage(usage: &Usage) -> String {
    format!(
        "\"used\":{},\"peak\":{},\"requested\":{},\"peak_requested\":{},\"exact\":{},\"peak_exact\":{}",
        usage.used,
        usage.peak,
        usage.requested,
        usage.peak_requested,
        usage.exact,
        usage.peak_exact
    )
}

fn list<T>(items: &[T], one: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = items.iter().map(one).collect();
    format!("[{}]", items.join(","))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if (c as u32) < 0x20 => {
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A UUID as NVIDIA writes it, after `GPU-` or `MIG-`.
#[must_use]
pub fn uuid_text(prefix: &str, uuid: &[u8; 16]) -> String {
    let mut text = String::from(prefix);
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}
