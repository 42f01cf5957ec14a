//! Which driver and which GPUs there are, without the library and with it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use quota_abi::group::Group;
use quota_abi::settings::Settings;

use super::daemon::Ruled;
use super::finding::Findings;
use super::probe::{Device, Seen};
use super::{child, limited};
use crate::output::count;
use crate::units::size;

/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: u32 = 100;

/// Examines the driver bare, then through the library; gives the devices as a program sees them.
pub(super) fn examine(
    shim: Option<&Path>,
    settings: Option<&Settings>,
    ruled: Option<&Ruled>,
    findings: &mut Findings,
) -> Vec<Device> {
    let bare = match probe(None) {
        Ok((seen, _)) => seen,
        Err(reason) => {
            findings.failure(
                "driver",
                format!("a program that only initialises CUDA {reason}"),
                "the driver itself is broken here; nothing can be limited before it works",
            );
            return Vec::new();
        }
    };
    let simulator = simulator([shim.map(Path::to_path_buf), std::env::current_exe().ok()]);
    if !driver(&bare, simulator.as_deref(), findings) {
        return bare.devices;
    }
    nvml(&bare, findings);
    match shim.map(|shim| probe(Some(shim))) {
        Some(Ok((limited, said))) => {
            let asked = limited::Asked { settings, ruled };
            limited::compare(&bare, &limited, asked, &said, findings);
        }
        Some(Err(reason)) => findings.failure(
            "limited",
            format!("with the library preloaded, a program that only initialises CUDA {reason}"),
            "this is a fault of the library: please report it with this output",
        ),
        None => {}
    }
    bare.devices
}

/// The folder of the simulated driver, where it was built with one of these files.
fn simulator(files: impl IntoIterator<Item = Option<PathBuf>>) -> Option<PathBuf> {
    files.into_iter().flatten().find_map(|file| {
        let folder = file.parent()?.parent()?.join("sim");
        folder.join("libcuda.so.1").is_file().then_some(folder)
    })
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
fn driver(bare: &Seen, simulator: Option<&Path>, findings: &mut Findings) -> bool {
    let Some(path) = &bare.driver else {
        let trial = match simulator {
            Some(folder) => format!("`export LD_LIBRARY_PATH={}`", folder.display()),
            None => "build the simulated one (`cargo xtask dist`) and set LD_LIBRARY_PATH to its folder sim".into(),
        };
        findings.failure(
            "driver",
            bare.error.clone().unwrap_or_default(),
            format!(
                "install NVIDIA's driver; in a container, start it with --gpus or a CDI device; \
                 for a trial without a GPU, {trial}"
            ),
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
            format!("{}, {}, {}", device.name, device.uuid, size(device.total)),
        );
    }
    bare.init == 0 && !bare.devices.is_empty()
}

fn nvml(bare: &Seen, findings: &mut Findings) {
    match &bare.nvml {
        Some(nvml) if nvml.init == 0 => findings.ok(
            "nvml",
            format!(
                "driver {}, {}",
                nvml.driver_version,
                count(nvml.devices, "device", "devices")
            ),
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
        assert!(!driver(&seen(NO_DEVICE, 0), None, &mut findings));
        assert!(findings.failed());
        assert!(texts(&findings).contains("CUDA_VISIBLE_DEVICES"));
    }

    #[test]
    fn where_there_is_no_driver_the_simulator_is_named_by_its_path() {
        let folder = std::env::temp_dir().join(format!("doctor-sim-{}", std::process::id()));
        let (lib, sim) = (folder.join("lib"), folder.join("sim"));
        std::fs::create_dir_all(&sim).unwrap();
        let shim = lib.join("libquota_shim.so");
        let mend = |shim: &Path| {
            let mut findings = Findings::default();
            let simulator = simulator([Some(shim.to_path_buf())]);
            driver(&Seen::default(), simulator.as_deref(), &mut findings);
            texts(&findings)
        };
        let without = mend(&shim);
        std::fs::write(sim.join("libcuda.so.1"), "").unwrap();
        let with = mend(&shim);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!without.contains(sim.to_str().unwrap()), "{without}");
        assert!(without.contains("cargo xtask dist"), "{without}");
        let export = format!("export LD_LIBRARY_PATH={}", sim.display());
        assert!(with.contains(&export), "{with}");
    }
}
