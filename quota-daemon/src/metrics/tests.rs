mod monitoring;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use super::*;
use crate::model::{Compute, Device, Origin};
use crate::report::{Container, Daemon, DeviceStatus, Share, Unregistered, VERSION};

const DEVICE: Uuid = Uuid([0xab; 16]);

fn status() -> Status {
    Status {
        version: VERSION,
        daemon: Daemon {
            pid: 1,
            version: "0.1.0".into(),
            started_at: 1_700_000_000,
            state: "/run/gpu-quota".into(),
            warnings: vec!["one".into()],
        },
        devices: vec![DeviceStatus {
            device: Device {
                uuid: DEVICE,
                index: 3,
                name: "GPU \"x\"".into(),
                memory_bytes: 80 << 30,
                mig: false,
            },
            promised_bytes: 40 << 30,
            used_bytes: None,
            utilization_percent: Some(37),
            trouble: Some("lost".into()),
            active: 1,
            unregistered: vec![Unregistered {
                pid: 7,
                program: None,
                bytes: Some(5 << 20),
                container: None,
                killed: false,
            }],
        }],
        containers: vec![Container {
            name: "team-a".into(),
            origin: Origin::Config,
            socket: "/x".into(),
            device: None,
            processes: 2,
            damage: None,
            devices: vec![Share {
                uuid: DEVICE,
                memory_limit_bytes: None,
                memory_used_bytes: 1 << 30,
                memory_overhead_bytes: 512,
                memory_dead_bytes: 0,
                memory_peak_bytes: 2 << 30,
                refusals: 4,
                compute: Compute::Free,
                observe: false,
                priority: 0,
                own_percent: Some(25.0),
                now_percent: Some(50.0),
                got_percent: None,
                active: true,
                gpu_time_ns: 1_500_000_000,
                waited_ns: 250_000_000,
                waits: 9,
                launches: 1000,
                forced: 1,
                measured_ns: 900_000_000,
                estimated_ns: 1_000_000_000,
            }],
        }],
    }
}

/// With a value for everything that may be absent.
fn full() -> Status {
    let mut full = status();
    full.devices[0].used_bytes = Some(1);
    full.containers[0].devices[0].memory_limit_bytes = Some(1);
    full.containers[0].devices[0].got_percent = Some(1.0);
    full
}

fn counters() -> Counters {
    let counters = Counters::default();
    counters.attaches.store(11, Ordering::Relaxed);
    counters.waits.take("team-a", 0, std::iter::empty());
    let waits = [(DEVICE, 300_000), (DEVICE, 2_000_000_000)];
    counters.waits.take("team-a", 2, waits.into_iter());
    counters
}

#[test]
fn each_number_is_where_it_is_looked_for() {
    let text = render(&status(), &counters());
    let device = r#"device="GPU-abababab-abab-abab-abab-abababababab",gpu="3""#;
    let both = format!(r#"container="team-a",{device}"#);
    for line in [
        "# TYPE gpu_quota_memory_refusals_total counter".to_owned(),
        "# HELP gpu_quota_memory_refusals_total Requests for memory that were refused".to_owned(),
        format!("gpu_quota_memory_refusals_total{{{both}}} 4"),
        format!("gpu_quota_memory_used_bytes{{{both}}} 1073741824"),
        format!("gpu_quota_memory_overhead_bytes{{{both}}} 512"),
        format!("gpu_quota_compute_seconds_total{{{both}}} 1.5"),
        format!("gpu_quota_wait_seconds_total{{{both}}} 0.25"),
        format!("gpu_quota_waits_total{{{both}}} 9"),
        format!("gpu_quota_compute_own_ratio{{{both}}} 0.25"),
        format!("gpu_quota_device_utilization_ratio{{{device}}} 0.37"),
        format!("gpu_quota_device_readable{{{device}}} 0"),
        format!("gpu_quota_unregistered_processes{{{device}}} 1"),
        format!("gpu_quota_unregistered_bytes{{{device}}} 5242880"),
        format!("gpu_quota_active_containers{{{device}}} 1"),
        r#"gpu_quota_processes{container="team-a"} 2"#.to_owned(),
        r#"gpu_quota_build_info{version="0.1.0"} 1"#.to_owned(),
        "gpu_quota_daemon_attaches_total 11".to_owned(),
        format!(r#"gpu_quota_sampled_wait_seconds_bucket{{le="0.0005",{both}}} 1"#),
        format!(r#"gpu_quota_sampled_wait_seconds_bucket{{le="1.0",{both}}} 1"#),
        format!(r#"gpu_quota_sampled_wait_seconds_bucket{{le="+Inf",{both}}} 2"#),
        format!("gpu_quota_sampled_wait_seconds_count{{{both}}} 2"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    for absent in [
        "memory_limit_bytes",
        "memory_used_bytes{device",
        "compute_used_ratio",
        "# EOF",
    ] {
        assert!(!text.contains(absent), "{absent}\n{text}");
    }
    let resident = "gpu_quota_daemon_resident_memory_bytes ";
    assert!(
        text.lines().any(|line| line.starts_with(resident)),
        "{text}"
    );
}

/// Prometheus's own judgement, where its checker is: `promtool` of Debian's package `prometheus`, in the path.
#[test]
fn promtool_has_nothing_to_say() {
    let full = full();
    let checker = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut checker = match checker {
        Ok(checker) => checker,
        Err(error) => {
            eprintln!("not checked: promtool: {error}");
            return;
        }
    };
    let text = render(&full, &counters());
    checker
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let found = checker.wait_with_output().unwrap();
    let said = [found.stdout, found.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(found.status.success() && said.is_empty(), "{said}\n{text}");
}
