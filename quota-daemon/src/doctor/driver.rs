//! Which driver and which GPUs there are, without the library and with it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use quota_abi::group::Group;
use quota_abi::settings::{Device as Named, Settings};

use super::child;
use super::finding::Findings;
use super::probe::{Device, Seen};

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: u32 = 100;

/// Examines the driver bare, then through the library.
pub(super) fn examine(shim: Option<&Path>, settings: Option<&Settings>, findings: &mut Findings) {
    let bare = match probe(None) {
        Ok((seen, _)) => seen,
        Err(reason) => {
            findings.failure(
                "driver",
                format!("a program that only initialises CUDA {reason}"),
                "the driver itself is broken here; nothing can be limited before it works",
            );
            return;
        }
    };
    if !driver(&bare, findings) {
        return;
    }
    nvml(&bare, findings);
    let Some(shim) = shim else { return };
    match probe(Some(shim)) {
        Ok((limited, said)) => compare(&bare, &limited, settings, &said, findings),
        Err(reason) => findings.failure(
            "limited",
            format!("with the library preloaded, a program that only initialises CUDA {reason}"),
            "this is a fault of the library: please report it with this output",
        ),
    }
}

/// What a child sees, and what it said on stderr.
fn probe(preload: Option<&Path>) -> Result<(Seen, String), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("probe").env_remove("LD_PRELOAD");
    // A group of the probe's own, gone with it: to look must leave nothing behind.
    let group = format!("doctor-{}", std::process::id());
    if let Some(shim) = preload {
        command
            .env("LD_PRELOAD", shim)
            .env("GPU_QUOTA_GROUP", &group);
    }
    let ended = child::run(&mut command).map_err(|error| format!("cannot start: {error}"));
    let region = Group::named(&group).path();
    let _ = std::fs::remove_file(OsStr::from_bytes(region.as_bytes()));
    let ended = ended?;
    if !ended.succeeded() {
        return Err(ended.describe());
    }
    let seen = serde_json::from_str(&ended.stdout)
        .map_err(|error| format!("said something else: {error}: {}", ended.stdout.trim()))?;
    Ok((seen, ended.stderr.trim().to_string()))
}

/// Reports the bare driver; says whether there are devices to go on with.
fn driver(bare: &Seen, findings: &mut Findings) -> bool {
    let Some(path) = &bare.driver else {
        findings.failure(
            "driver",
            bare.error.clone().unwrap_or_default(),
            "install NVIDIA's driver; in a container, start it with --gpus or a CDI device; \
             for a trial without a GPU, set LD_LIBRARY_PATH to the simulator's folder",
        );
        return false;
    };
    let version = format!("CUDA {}.{}", bare.version / 1000, bare.version % 1000 / 10);
    match (bare.init, bare.devices.len()) {
        (0, 1..) => findings.ok("driver", format!("{path}, {version}")),
        (NO_DEVICE, _) | (0, 0) => findings.failure(
            "driver",
            format!("{path}, {version}, but it sees no device"),
            "check `nvidia-smi`, the /dev/nvidia* files and CUDA_VISIBLE_DEVICES",
        ),
        (code, _) => findings.failure(
            "driver",
            format!("{path}, {version}, but cuInit fails with CUDA error {code}"),
            "check that the kernel module fits the driver's libraries (`nvidia-smi`, `dmesg`)",
        ),
    }
    if let Some(error) = &bare.error {
        findings.warning(
            "driver",
            error.clone(),
            "a driver from this decade is needed",
        );
    }
    for device in &bare.devices {
        findings.info(
            "gpu",
            format!("{}, {}, {}", device.name, device.uuid, mib(device.total)),
        );
    }
    bare.init == 0 && !bare.devices.is_empty()
}

fn nvml(bare: &Seen, findings: &mut Findings) {
    match &bare.nvml {
        Some(nvml) if nvml.init == 0 => findings.ok(
            "nvml",
            format!("driver {}, {} device(s)", nvml.driver_version, nvml.devices),
        ),
        Some(nvml) => findings.warning(
            "nvml",
            format!("nvmlInit_v2 fails with {}", nvml.init),
            "limits hold without it; viewers such as nvidia-smi do not work",
        ),
        None => findings.warning(
            "nvml",
            "libnvidia-ml.so.1 does not load",
            "limits hold without it; for viewers, give the container the `utility` capability",
        ),
    }
}

/// Reports what changes with the library preloaded and this environment's variables.
fn compare(
    bare: &Seen,
    limited: &Seen,
    settings: Option<&Settings>,
    said: &str,
    findings: &mut Findings,
) {
    if limited.init != 0 {
        let reason = if said.is_empty() {
            "it gave no reason"
        } else {
            said
        };
        findings.failure(
            "limited",
            format!(
                "with the library, cuInit fails with CUDA error {}: {reason}",
                limited.init
            ),
            "correct what the message names; until then no CUDA program starts under this quota",
        );
        return;
    }
    if limited.devices.len() != bare.devices.len() {
        findings.failure(
            "limited",
            format!(
                "{} device(s) without the library, {} with it",
                bare.devices.len(),
                limited.devices.len()
            ),
            "this is a fault of the library: please report it with this output",
        );
        return;
    }
    for (number, (bare, limited)) in (0..).zip(bare.devices.iter().zip(&limited.devices)) {
        let limit = settings.and_then(|settings| {
            let uuid = quota_abi::spelling::uuid(&bare.uuid).ok()?;
            settings.memory.of(Some(number), &uuid)
        });
        device(bare, limited, limit, findings);
    }
    if let Some(settings) = settings {
        not_seen(settings, &bare.devices, findings);
    }
    if !said.is_empty() {
        findings.info("limited", format!("the library says: {said}"));
    }
}

/// Devices that the variables name and a program started here does not see: a list for a whole host, or a slip.
fn not_seen(settings: &Settings, devices: &[Device], findings: &mut Findings) {
    for named in settings.named() {
        let seen = (0..).zip(devices).any(|(number, device)| match named {
            Named::Every => true,
            Named::Number(wanted) => wanted == number,
            Named::Uuid(uuid) => quota_abi::spelling::uuid(&device.uuid) == Ok(uuid),
        });
        if !seen {
            findings.info(
                "limited",
                format!("{named} has a quota, and a program started here does not see it"),
            );
        }
    }
}

fn device(bare: &Device, limited: &Device, limit: Option<u64>, findings: &mut Findings) {
    let (shown, real) = (mib(limited.total), mib(bare.total));
    let text = format!("{} shows {shown} of {real}", limited.uuid);
    match limit {
        Some(limit) if limited.total > limit => findings.failure(
            "limited",
            format!("{text}, although its limit is {}", mib(limit)),
            "the library is not in the way of the driver here: please report it with this output",
        ),
        Some(_) => findings.ok("limited", format!("{text} under this environment's quota")),
        None => {
            findings.info(
                "limited",
                format!("{text}: no memory limit is set for it here"),
            );
        }
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(init: u32, total: u64) -> Seen {
        let device = Device {
            name: "G".into(),
            uuid: "GPU-1".into(),
            total,
        };
        let devices = if init == 0 { vec![device] } else { Vec::new() };
        Seen {
            driver: Some("/x/libcuda.so.1".into()),
            version: 12_040,
            init,
            devices,
            ..Seen::default()
        }
    }

    fn texts(findings: &Findings) -> String {
        format!("{findings:?}")
    }

    #[test]
    fn a_driver_without_devices_is_a_failure_with_a_mend() {
        let mut findings = Findings::default();
        assert!(!driver(&seen(NO_DEVICE, 0), &mut findings));
        assert!(findings.failed());
        assert!(texts(&findings).contains("CUDA_VISIBLE_DEVICES"));
    }

    #[test]
    fn a_quota_refused_at_init_shows_the_librarys_own_words() {
        let mut findings = Findings::default();
        compare(
            &seen(0, 8 << 30),
            &seen(800, 0),
            None,
            "GPU_QUOTA_MEMORY=x: no size",
            &mut findings,
        );
        assert!(findings.failed());
        assert!(texts(&findings).contains("GPU_QUOTA_MEMORY=x: no size"));
    }

    #[test]
    fn a_device_that_is_named_and_not_there_is_told() {
        let list = b"0=1GiB,3=2GiB";
        let settings = quota_abi::settings::read(|name| {
            (name == "GPU_QUOTA_MEMORY").then_some(list.as_slice())
        });
        let mut findings = Findings::default();
        not_seen(&settings.unwrap(), &seen(0, 8 << 30).devices, &mut findings);
        let text = texts(&findings);
        assert!(
            text.contains("device 3 has") && !text.contains("device 0"),
            "{text}"
        );
        assert!(!findings.failed());
    }

    fn device_finding(total: u64, limit: Option<u64>) -> Findings {
        let mut findings = Findings::default();
        device(
            &seen(0, 8 << 30).devices[0],
            &seen(0, total).devices[0],
            limit,
            &mut findings,
        );
        findings
    }

    #[test]
    fn a_smaller_total_is_a_quota_at_work() {
        let findings = device_finding(1 << 30, Some(1 << 30));
        assert!(!findings.failed());
        assert!(texts(&findings).contains("1024 MiB of 8192 MiB under"));
    }

    #[test]
    fn a_limit_that_does_not_show_is_a_failure() {
        assert!(device_finding(8 << 30, Some(1 << 30)).failed());
        assert!(!device_finding(8 << 30, Some(9 << 30)).failed());
        assert!(!device_finding(8 << 30, None).failed());
    }
}
