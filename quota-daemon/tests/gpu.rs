//! The GPUs as the daemon reads them: the simulator's NVML, whole and half broken.
//!
//! NVML is found in `LD_LIBRARY_PATH`, which a process cannot change for itself; so the readings are taken in a child, which is
//! this test program again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use quota_daemon::gpu::{Detail, Nvml, Pace, Source, Watcher};
use quota_tests::{Sim, artefacts};
use serde_json::{Value, json};

const CHILD: &str = "GPU_READING_CHILD";
const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(30);

/// Not a test: what the child does. It writes each reading that differs from the last.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let pace = Pace {
        often: Duration::from_millis(20),
        seldom: Duration::from_millis(20),
        patience: Duration::from_millis(300),
        ..Pace::default()
    };
    let mut nvml = Nvml::new();
    let source = move |_: Detail| nvml.read(Detail::Full);
    let watcher = Watcher::start(source, pace, || {}).unwrap();
    let mut last = Value::Null;
    loop {
        let reading = watcher.latest();
        let device = |device: &quota_daemon::gpu::DeviceReading| {
            let processes = device.processes.as_ref().map(|list| {
                let list = list
                    .iter()
                    .map(|process| json!([process.pid, process.bytes]));
                list.collect::<Vec<_>>()
            });
            json!({
                "device": device.device,
                "used": device.used_bytes,
                "utilization": device.utilization_percent,
                "processes": processes,
                "trouble": device.trouble,
            })
        };
        let devices: Vec<_> = reading.devices.iter().map(device).collect();
        let this = json!({ "devices": devices, "trouble": reading.trouble });
        if reading.number > 0 && this != last {
            // The harness has written the beginning of this line.
            if writeln!(std::io::stdout(), "\n@{this}").is_err() {
                return;
            }
            last = this;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The child, which ends with its test.
struct Readings {
    child: Child,
    lines: Receiver<Value>,
}

impl Readings {
    fn start(sim: &Sim, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .env("LD_LIBRARY_PATH", &artefacts().sim)
            .env("GPU_SIM", sim.name())
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some(json) = line.strip_prefix('@') {
                    let _ = sender.send(serde_json::from_str(json).unwrap());
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a reading of which this is true.
    fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + SOON;
        let mut last = Value::Null;
        while !is_so(&last) {
            let left = end.saturating_duration_since(Instant::now());
            last = self
                .lines
                .recv_timeout(left)
                .unwrap_or_else(|e| panic!("{what}: {e}; the last was {last:#}"));
        }
        last
    }
}

impl Drop for Readings {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn says(value: &Value, word: &str) -> bool {
    value.as_str().is_some_and(|text| text.contains(word))
}

#[test]
fn devices_processes_and_memory() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "1GiB,2GiB");
    let mut hold = sim.client("hold").bare().arg("100").spawn();
    hold.line("ready");
    let readings = Readings::start(&sim, &[]);
    let pid = u64::from(hold.pid());
    let reading = readings.until("the process", |r| r["devices"][0]["processes"][0][0] == pid);
    let [first, second] = &reading["devices"].as_array().unwrap()[..] else {
        panic!("{reading:#}");
    };
    assert_eq!(first["device"]["memory_bytes"], 1024 * MIB);
    assert_eq!(first["device"]["index"], 0);
    assert_eq!(first["device"]["mig"], false);
    // The context and what it asked for.
    assert_eq!(first["used"], 400 * MIB);
    assert_eq!(first["processes"], json!([[pid, 400 * MIB]]));
    assert!(first["utilization"].is_u64(), "{first:#}");
    assert_eq!(second["device"]["memory_bytes"], 2048 * MIB);
    assert_eq!(second["processes"], json!([]));
    assert_eq!(
        (&reading["trouble"], &first["trouble"]),
        (&Value::Null, &Value::Null)
    );
    hold.kill();
    readings.until("its end", |r| r["devices"][0]["used"] == 0);
}

#[test]
fn instances_are_devices_of_their_own() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "8GiB[1GiB,2GiB],1GiB");
    let mut hold = sim.client("hold").bare().arg("100").spawn();
    hold.line("ready");
    let readings = Readings::start(&sim, &[]);
    let reading = readings.until("three devices", |r| r["devices"][2].is_object());
    let devices = reading["devices"].as_array().unwrap();
    let memory = |device: &Value| device["device"]["memory_bytes"].as_u64().unwrap() / MIB;
    let place = |device: &Value| {
        (
            device["device"]["index"].clone(),
            device["device"]["mig"].clone(),
        )
    };
    let mut instances: Vec<_> = devices[..2].iter().map(memory).collect();
    instances.sort_unstable();
    assert_eq!(instances, [1024, 2048]);
    assert_eq!(place(&devices[0]), (json!(0), json!(true)));
    assert_eq!(place(&devices[2]), (json!(1), json!(false)));
    // The process is on one of them, with what it holds there.
    let on: Vec<_> = devices
        .iter()
        .filter(|d| d["processes"] != json!([]))
        .collect();
    assert_eq!(on.len(), 1, "{reading:#}");
    assert_eq!(on[0]["processes"], json!([[hold.pid(), 400 * MIB]]));
    assert_eq!(on[0]["device"]["mig"], true);
    assert_eq!(on[0]["used"], 400 * MIB);
    hold.kill();
}

#[test]
fn old_drivers_tell_as_much_as_they_know() {
    for driver in ["11.5", "12.0"] {
        let sim = Sim::new().with("GPU_SIM_DRIVER", driver);
        let mut hold = sim.client("hold").bare().arg("100").spawn();
        hold.line("ready");
        let readings = Readings::start(&sim, &[("GPU_SIM_DRIVER", driver)]);
        let reading = readings.until(driver, |r| r["devices"][0]["processes"][0].is_array());
        assert_eq!(reading["devices"][0]["used"], 400 * MIB, "{driver}");
        assert_eq!(
            reading["devices"][0]["processes"][0][1],
            400 * MIB,
            "{driver}"
        );
        assert_eq!(reading["devices"][0]["trouble"], Value::Null, "{driver}");
        hold.kill();
    }
}

#[test]
fn what_nvml_does_not_tell_is_said() {
    let sim = Sim::new();
    let read = |faults: &str| {
        let readings = Readings::start(&sim, &[("GPU_SIM_FAULTS", faults)]);
        readings.until(faults, Value::is_object)
    };
    let reading = read("nvml-processes-unsupported");
    assert_eq!(reading["devices"][0]["processes"], Value::Null);
    assert_eq!(reading["devices"][0]["used"], 0);
    assert!(
        says(&reading["devices"][0]["trouble"], "not supported"),
        "{reading:#}"
    );

    let reading = read("nvml-no-processes");
    assert_eq!(reading["devices"][0]["processes"], json!([]));

    let reading =
        read("nvml-missing:nvmlDeviceGetMemoryInfo_v2,nvml-missing:nvmlDeviceGetMemoryInfo");
    assert_eq!(reading["devices"], json!([]), "its size is not known");
    assert!(
        says(&reading["trouble"], "nvmlDeviceGetMemoryInfo"),
        "{reading:#}"
    );

    for (faults, word) in [
        ("nvml-unknown-error", "nvmlDeviceGetUUID"),
        ("nvml-gpu-lost", "fallen off the bus"),
        ("nvml-no-driver", "modprobe nvidia"),
        ("nvml-version-mismatch", "different versions"),
    ] {
        let reading = read(faults);
        assert!(says(&reading["trouble"], word), "{faults}: {reading:#}");
    }
}

#[test]
fn without_a_driver_the_library_is_named() {
    let sim = Sim::new();
    let empty = tempfile::tempdir().unwrap();
    let nowhere = empty.path().to_str().unwrap();
    let readings = Readings::start(&sim, &[("LD_LIBRARY_PATH", nowhere)]);
    let reading = readings.until("a reading", Value::is_object);
    assert_eq!(reading["devices"], json!([]));
    assert!(
        says(&reading["trouble"], "libnvidia-ml.so.1"),
        "{reading:#}"
    );
}

#[test]
fn one_gpu_is_lost_and_comes_back() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "1GiB,2GiB");
    let folder = tempfile::tempdir().unwrap();
    let pulled = folder.path().join("pulled");
    let faults = format!("nvml-gpu-lost:1@{}", pulled.display());
    let readings = Readings::start(
        &sim,
        &[
            ("GPU_SIM_FAULTS", &faults),
            ("GPU_SIM_DEVICES", "1GiB,2GiB"),
        ],
    );
    let before = readings.until("both", |r| r["devices"][1]["used"] == 0);
    std::fs::write(&pulled, "").unwrap();
    let lost = readings.until("the loss", |r| r["devices"][1]["trouble"].is_string());
    assert_eq!(lost["devices"][0], before["devices"][0]);
    assert_eq!(lost["devices"][1]["device"], before["devices"][1]["device"]);
    assert_eq!(lost["devices"][1]["used"], Value::Null);
    assert!(says(&lost["devices"][1]["trouble"], "dmesg"), "{lost:#}");
    std::fs::remove_file(&pulled).unwrap();
    let after = readings.until("its return", |r| r["devices"][1]["used"] == 0);
    assert_eq!(after, before);
}

#[test]
fn one_that_hangs_is_told_of_and_one_that_goes_away_keeps_its_devices() {
    let sim = Sim::new();
    let folder = tempfile::tempdir().unwrap();
    let hung = folder.path().join("hung");
    let faults = format!("nvml-hang@{}", hung.display());
    let readings = Readings::start(&sim, &[("GPU_SIM_FAULTS", &faults)]);
    let before = readings.until("a reading", |r| r["devices"][0]["used"] == 0);
    std::fs::write(&hung, "").unwrap();
    let hangs = readings.until("the hang", |r| r["trouble"].is_string());
    assert!(
        says(&hangs["trouble"], "has not answered since"),
        "{hangs:#}"
    );
    assert_eq!(
        hangs["devices"][0]["device"],
        before["devices"][0]["device"]
    );
    assert_eq!(hangs["devices"][0]["used"], Value::Null);
    std::fs::remove_file(&hung).unwrap();
    let after = readings.until("its return", |r| r["devices"][0]["used"] == 0);
    assert_eq!(after, before);
}
