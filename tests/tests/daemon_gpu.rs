//! What the daemon sees of the GPUs themselves: processes past the library, memory beyond the ledger, and an NVML that fails.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quota_tests::{Daemon, GIB, MIB, Sim, artefacts};
use serde_json::{Value, json};

/// It should take two seconds; a machine that does much else may need more.
const AT_MOST: Duration = Duration::from_secs(15);

const TWO: &str = "
[[container]]
name = 'a'
memory = '4GiB'
[[container]]
name = 'b'
memory = '4GiB'
";

fn status(daemon: &Daemon<'_>) -> Value {
    daemon.ask(&json!({"request": "status"})).unwrap()
}

/// The unregistered process of this pid, and the device it is on.
fn unregistered(status: &Value, pid: u32) -> Option<(Value, Value)> {
    let devices = status["devices"].as_array().unwrap();
    devices.iter().find_map(|device| {
        let list = device["unregistered"].as_array().unwrap();
        let found = list.iter().find(|process| process["pid"] == pid)?;
        Some((found.clone(), device.clone()))
    })
}

/// A port that nobody has.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn fetch(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(AT_MOST)).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}

fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name}{{")))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn a_process_without_the_library_shows_in_status_log_and_metrics() {
    let sim = Sim::new();
    let port = port();
    let daemon = Daemon::start(
        &sim,
        &format!("[daemon]\nmetrics = '127.0.0.1:{port}'\n{TWO}"),
    );
    assert_eq!(
        metric(&fetch(port), "gpu_quota_unregistered_processes"),
        Some(0.0)
    );
    // One that is registered is none.
    let mut honest = daemon.client("a", "hold").arg("10").spawn();
    honest.line("ready");
    let mut hold = sim.client("hold").bare().arg("100").spawn();
    hold.line("ready");
    let began = Instant::now();
    daemon.wait("the process in the status", |daemon| {
        unregistered(&status(daemon), hold.pid()).is_some()
    });
    let took = began.elapsed();
    println!("seen after {} ms", took.as_millis());
    assert!(took < AT_MOST, "{took:?}");
    let now = status(&daemon);
    let (process, _) = unregistered(&now, hold.pid()).unwrap();
    assert_eq!(process["bytes"], 400 * MIB);
    assert_eq!(process["container"], Value::Null);
    assert_eq!(process["killed"], false);
    assert_eq!(unregistered(&now, honest.pid()), None);
    let line = format!("pid={}", hold.pid());
    let log = daemon.log();
    let lines: Vec<_> = log.lines().filter(|one| one.contains(&line)).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("unregistered process"), "{log}");
    let text = fetch(port);
    assert_eq!(
        metric(&text, "gpu_quota_unregistered_processes"),
        Some(1.0),
        "{text}"
    );
    let bytes = metric(&text, "gpu_quota_unregistered_bytes");
    assert_eq!(bytes, Some(400.0 * 1024.0 * 1024.0), "{text}");
    hold.kill();
    daemon.wait("its end", |daemon| {
        unregistered(&status(daemon), hold_pid(&process)).is_none()
    });
    honest.kill();
}

fn hold_pid(process: &Value) -> u32 {
    u32::try_from(process["pid"].as_u64().unwrap()).unwrap()
}

#[test]
fn one_on_an_instance_shows_at_the_instance() {
    let sim = Sim::new().with("GPU_SIM_DEVICES", "8GiB[1GiB,2GiB]");
    let daemon = Daemon::start(&sim, "");
    let mut hold = sim.client("hold").bare().arg("100").spawn();
    hold.line("ready");
    daemon.wait("the process", |daemon| {
        unregistered(&status(daemon), hold.pid()).is_some()
    });
    let now = status(&daemon);
    assert_eq!(now["devices"].as_array().unwrap().len(), 2, "{now:#}");
    let (_, device) = unregistered(&now, hold.pid()).unwrap();
    assert_eq!(device["mig"], true);
    assert!(
        device["uuid"].as_str().unwrap().starts_with("GPU-")
            || device["uuid"].as_str().unwrap().starts_with("MIG-")
    );
    assert_eq!(device["used_bytes"], 400 * MIB);
    let elsewhere = now["devices"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|d| d["used_bytes"] == 0);
    assert_eq!(elsewhere.count(), 1, "{now:#}");
    hold.kill();
}

/// This test's own cgroup, as the daemon sees it.
fn own_cgroup() -> String {
    let text = fs::read("/proc/self/cgroup").unwrap();
    String::from_utf8(quota_abi::cgroups::path_of(&text).to_vec()).unwrap()
}

#[test]
fn where_it_is_configured_one_in_a_declared_cgroup_is_killed() {
    let cgroup = own_cgroup();
    let sim = Sim::new();
    let config = |cgroup: &str| {
        format!(
            "[daemon]\nunregistered = 'kill'\n[[container]]\nname = 'a'\nmemory = '4GiB'\ncgroups = ['{cgroup}']\n"
        )
    };
    // One that is somewhere else is left alone, and so is one whose cgroup could be anybody's.
    let daemon = Daemon::start(&sim, &config("/nobody/is/here"));
    let mut hold = sim.client("hold").bare().arg("100").spawn();
    hold.line("ready");
    daemon.wait("the process", |daemon| {
        unregistered(&status(daemon), hold.pid()).is_some()
    });
    let (process, _) = unregistered(&status(&daemon), hold.pid()).unwrap();
    assert_eq!(
        (&process["killed"], &process["container"]),
        (&json!(false), &Value::Null)
    );
    drop(daemon);
    assert!(hold.alive());
    if cgroup == "/" {
        eprintln!("the rest is not tested: this process is in the root cgroup");
        return;
    }
    let daemon = Daemon::start(&sim, &config(&cgroup));
    let pid = format!("pid={}", hold.pid());
    daemon.wait("the kill", |_| !hold.alive());
    let finished = hold.finish();
    assert_eq!(finished.signal(), Some(libc::SIGKILL), "{finished:?}");
    daemon.wait("the line", |daemon| {
        let log = daemon.log();
        log.lines()
            .any(|line| line.contains("killed an unregistered process") && line.contains(&pid))
    });
}

#[test]
fn what_contexts_take_is_learned_and_counted() {
    let sim = Sim::new().with("GPU_SIM_CONTEXT", "500MiB");
    let daemon = Daemon::start(&sim, TWO);
    let mut first = daemon.client("a", "hold").arg("100").spawn();
    first.line("ready");
    let charged = daemon.share("a").memory_used_bytes;
    assert_eq!(
        charged,
        500 * MIB,
        "400 MiB where nothing is known, and what it asked for"
    );
    daemon.wait("the overhead", |daemon| {
        daemon.share("a").memory_overhead_bytes == 100 * MIB
    });
    assert_eq!(daemon.share("b").memory_overhead_bytes, 0);
    // The next context is charged what the first one took.
    let mut second = daemon.client("b", "hold").arg("100").spawn();
    second.line("ready");
    assert_eq!(daemon.share("b").memory_used_bytes, 600 * MIB);
    // What one held beyond the ledger ends with it.
    first.kill();
    daemon.wait("its end", |daemon| daemon.container("a").processes == 0);
    let share = daemon.share("a");
    assert_eq!(
        (share.memory_used_bytes, share.memory_overhead_bytes),
        (0, 0)
    );
    second.kill();
}

#[test]
fn while_nvml_hangs_limits_hold_and_the_daemon_answers() {
    let folder = tempfile::tempdir().unwrap();
    let hung = folder.path().join("hung");
    let sim = Sim::new().with("GPU_SIM_FAULTS", &format!("nvml-hang@{}", hung.display()));
    let daemon = Daemon::start(&sim, TWO);
    assert_eq!(status(&daemon)["daemon"]["warnings"], json!([]));
    fs::write(&hung, "").unwrap();
    daemon.wait("the warning", |daemon| {
        let now = status(daemon);
        now["devices"][0]["trouble"]
            .as_str()
            .is_some_and(|text| text.contains("has not answered since"))
    });
    let now = status(&daemon);
    assert_eq!(now["devices"][0]["used_bytes"], Value::Null);
    assert!(
        !now["daemon"]["warnings"].as_array().unwrap().is_empty(),
        "{now:#}"
    );
    let finished = daemon.client("a", "hold").arg("5000").run();
    assert_eq!(finished.number("result"), 2, "{finished:?}");
    daemon.wait("the log", |daemon| {
        daemon.log().contains("has not answered since")
    });
    fs::remove_file(&hung).unwrap();
    daemon.wait("its return", |daemon| {
        status(daemon)["devices"][0]["trouble"] == Value::Null
    });
    daemon.wait("the log", |daemon| {
        daemon.log().contains("NVML answers again")
    });
}

#[test]
fn a_daemon_without_nvml_serves_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let away = folder.path().join("away");
    fs::write(&away, "").unwrap();
    let sim = Sim::new().with(
        "GPU_SIM_FAULTS",
        &format!("nvml-no-driver@{}", away.display()),
    );
    let daemon = Daemon::start(&sim, TWO);
    let now = status(&daemon);
    assert_eq!(now["devices"], json!([]));
    assert!(
        now["daemon"]["warnings"]
            .to_string()
            .contains("modprobe nvidia"),
        "{now:#}"
    );
    fs::remove_file(&away).unwrap();
    daemon.wait("the device", |daemon| {
        status(daemon)["devices"][0]["used_bytes"] == 0
    });
    let finished = daemon.client("a", "hold").arg("5000").run();
    assert_eq!(finished.number("result"), 2, "{finished:?}");
}

/// Ends with its test.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_daemon_does_not_see_what_the_library_shows() {
    let sim = Sim::new();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let config = folder.path().join("config.toml");
    fs::create_dir(&state).unwrap();
    fs::write(&config, "").unwrap();
    let child = Command::new(&artefacts().daemon)
        .args(["serve", "--no-mount", "--config"])
        .arg(&config)
        .arg("--state")
        .arg(&state)
        .env("LD_LIBRARY_PATH", &artefacts().sim)
        .env("LD_PRELOAD", &artefacts().shim)
        .env("GPU_SIM", sim.name())
        .env("GPU_QUOTA_MEMORY", "1GiB")
        .env("GPU_QUOTA_GROUP", sim.group("daemon"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = Child(child);
    let end = Instant::now() + AT_MOST;
    let socket = state.join("control.sock");
    while UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < end, "the daemon does not answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"{\"request\":\"status\"}\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    let device = &answer["ok"]["devices"][0];
    assert_eq!(device["memory_bytes"], 24 * GIB, "{answer:#}");
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.0.id())).unwrap();
    assert!(!maps.contains("libquota_shim"), "{maps}");
}
