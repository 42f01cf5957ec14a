//! A library that processes of the container may not read: they run without it, and the daemon sees them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::Case;
use super::stage::Stage;

pub(crate) const CASES: &[Case] = &[("the library's file made unreadable", unreadable)];

/// It should take two seconds; a machine that does much else may need more.
const AT_MOST: Duration = Duration::from_secs(15);

fn unreadable(stage: &Stage<'_>) -> String {
    let library = stage.files.join("libquota_shim.so");
    fs::set_permissions(&library, fs::Permissions::from_mode(0o600)).unwrap();
    let before = metric(stage.port).unwrap_or_default();
    // The host's pids, since the simulated NVML knows a process by its own idea of its pid.
    let flags = ["--pid=host", "--user=65534:65534"];
    let script = format!("sleep 60 | {} 3000", stage.program("hold").display());
    let id = stage.start("b", &flags, &["sh", "-c", &script]);
    let began = Instant::now();
    let unregistered = || {
        let status = stage.daemon.status();
        let list = status.devices[0].unregistered.clone();
        list.into_iter()
            .find(|process| process.bytes == Some(3300 << 20))
    };
    while unregistered().is_none() {
        assert!(
            began.elapsed() < AT_MOST,
            "{:?}",
            stage.daemon.status().devices[0]
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = began.elapsed();
    let pid = unregistered().unwrap().pid;
    let log = stage.daemon.log();
    let line = format!("pid={pid}");
    assert!(
        log.lines()
            .any(|one| one.contains(&line) && one.contains("unregistered process")),
        "{log}"
    );
    assert!(metric(stage.port).unwrap() > before, "the metric counts it");
    stage.end(&id);
    fs::set_permissions(&library, fs::Permissions::from_mode(0o755)).unwrap();
    format!(
        "in status, log and metric {:.1} s after its start",
        took.as_secs_f64()
    )
}

fn metric(port: u16) -> Option<f64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("gpu_quota_unregistered_processes{"))?;
    line.rsplit(' ').next()?.parse().ok()
}
