//! `quota-daemon serve` as an init system runs it: told when it is ready, asked to read its configuration again, asked to
//! end, killed. No GPU is needed.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a helper that fails must fail its test, where it stands"
)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Long enough for anything that does not hang.
const WATCHDOG: Duration = Duration::from_secs(30);

struct Place {
    directory: TempDir,
    /// Where an init system listens.
    notices: UnixDatagram,
}

/// Ends the daemon with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Place {
    fn new(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config.toml"), config).unwrap();
        let notices = UnixDatagram::bind(directory.path().join("notices")).unwrap();
        notices.set_read_timeout(Some(WATCHDOG)).unwrap();
        Self { directory, notices }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quota-daemon"));
        command
            .env_clear()
            .env("NOTIFY_SOCKET", self.path("notices"));
        command
            .args(["serve", "--no-mount", "--config"])
            .arg(self.path("config.toml"));
        command.arg("--state").arg(self.path("state"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    fn start(&self) -> Daemon {
        let daemon = Daemon(self.command().stderr(Stdio::null()).spawn().unwrap());
        self.wait_for("READY=1");
        daemon
    }

    /// Waits until the daemon says so.
    #[track_caller]
    fn wait_for(&self, notice: &str) {
        let mut bytes = [0; 4096];
        loop {
            let length = self
                .notices
                .recv(&mut bytes)
                .unwrap_or_else(|_| panic!("no {notice}"));
            let text = String::from_utf8_lossy(&bytes[..length]);
            if text.lines().any(|line| line == notice) {
                return;
            }
        }
    }

    /// One request, one answer.
    fn ask(&self, request: &str) -> String {
        let mut socket = UnixStream::connect(self.path("state/control.sock")).unwrap();
        writeln!(socket, "{request}").unwrap();
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer).unwrap();
        answer
    }
}

fn signal(daemon: &Daemon, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(daemon.0.id()).unwrap();
    // SAFETY: sends a signal to our own child.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn wait(daemon: &mut Daemon) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = daemon.0.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < WATCHDOG, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ONE: &str = "[[container]]\nname = \"a\"\nmemory = \"1GiB\"\n";

#[test]
fn it_says_when_it_is_ready_when_it_reads_again_and_when_it_ends() {
    let place = Place::new(ONE);
    let mut daemon = place.start();
    assert!(
        place
            .ask(r#"{"request":"status"}"#)
            .contains("\"name\":\"a\"")
    );
    let mode = std::fs::metadata(place.path("state/control.sock"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);

    std::fs::write(place.path("config.toml"), ONE.replace("\"a\"", "\"b\"")).unwrap();
    signal(&daemon, libc::SIGHUP);
    place.wait_for("RELOADING=1");
    place.wait_for("READY=1");
    let status = place.ask(r#"{"request":"status"}"#);
    assert!(
        status.contains("\"name\":\"b\"") && !status.contains("\"name\":\"a\""),
        "{status}"
    );

    signal(&daemon, libc::SIGTERM);
    place.wait_for("STOPPING=1");
    assert_eq!(wait(&mut daemon).code(), Some(0));
    assert!(
        place.path("state/regions/b.policy.1").exists(),
        "containers stay limited"
    );
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused_and_a_running_daemon_keeps_its_own() {
    let place = Place::new(ONE);
    let daemon = place.start();
    std::fs::write(place.path("config.toml"), "[[container]]\nname = 7\n").unwrap();
    let output = place.command().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("config.toml:2:8"),
        "{}",
        stderr(&output)
    );
    signal(&daemon, libc::SIGHUP);
    place.wait_for("RELOADING=1");
    place.wait_for("READY=1");
    assert!(
        place
            .ask(r#"{"request":"status"}"#)
            .contains("\"name\":\"a\"")
    );
}

#[test]
fn a_second_one_names_the_first_and_a_third_takes_over_from_the_killed() {
    let place = Place::new(ONE);
    let mut first = place.start();
    let output = place.command().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let pid = format!("(pid {})", first.0.id());
    assert!(stderr(&output).contains(&pid), "{}", stderr(&output));

    let set = r#"{"request":"set","container":"a","memory":"2GiB"}"#;
    assert!(place.ask(set).contains("\"ok\""));
    first.0.kill().unwrap();
    wait(&mut first);
    let _third = place.start();
    let kept = std::fs::read_to_string(place.path("state/containers.json")).unwrap();
    assert!(kept.contains("2147483648"), "{kept}");
}
