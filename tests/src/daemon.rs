//! A `quota-daemon serve` beside a simulation: it sees the simulated GPUs by NVML, and its containers are the tenants of the
//! simulator's account. It is killed and started again as a test wants, always on the same directory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::artefacts::artefacts;
use crate::client::{Client, start};
use crate::program::program;
use crate::report::{Container, Registered, Share, Status, Why};
use crate::sim::Sim;

/// How long the daemon may take to answer, or to do what a test waits for, before it counts as hung.
const WATCHDOG: Duration = Duration::from_secs(30);

/// A daemon and its directory. Dropping it ends the daemon, and removes what it left.
#[derive(Debug)]
pub struct Daemon<'a> {
    sim: &'a Sim,
    dir: TempDir,
    executable: PathBuf,
    mounts: bool,
    child: Mutex<Option<Child>>,
}

impl<'a> Daemon<'a> {
    /// Starts one with this configuration (TOML), and waits until it answers.
    #[must_use]
    pub fn start(sim: &'a Sim, config: &str) -> Self {
        let daemon = Self::prepare(sim, config);
        daemon.restart();
        daemon
    }

    /// The same with a file system of its own for its regions, as it has on a host: root is needed.
    #[must_use]
    pub fn mounting(sim: &'a Sim, config: &str) -> Self {
        let mut daemon = Self::prepare(sim, config);
        daemon.mounts = true;
        daemon.restart();
        daemon
    }

    /// The directory and the configuration alone: nobody serves it yet.
    #[must_use]
    pub fn prepare(sim: &'a Sim, config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Processes of other users come to the sockets in it.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let daemon = Self {
            sim,
            dir,
            executable: artefacts().daemon.clone(),
            mounts: false,
            child: Mutex::new(None),
        };
        fs::create_dir(daemon.state()).unwrap();
        fs::set_permissions(daemon.state(), fs::Permissions::from_mode(0o755)).unwrap();
        daemon.configure(config);
        daemon
    }

    /// Writes another configuration; it takes effect when the daemon is told, or started again.
    pub fn configure(&self, config: &str) {
        fs::write(self.config(), config).unwrap();
    }

    /// The file of its configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("config.toml")
    }

    /// Its directory of sockets and regions.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// The socket that a container's processes attach at.
    #[must_use]
    pub fn socket(&self, container: &str) -> PathBuf {
        let containers = self.state().join("containers");
        containers.join(container).join("attach.sock")
    }

    /// What it has logged since the beginning.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Its pid.
    ///
    /// # Panics
    /// It does not run.
    #[must_use]
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child().as_ref().expect("the daemon runs").id()
    }

    /// Starts it, and waits until it answers.
    #[track_caller]
    pub fn restart(&self) {
        self.launch();
        self.wait("the daemon to answer", |daemon| {
            daemon.try_ask(&json!({"request": "status"})).is_some()
        });
    }

    /// Starts it, and waits for nothing.
    #[track_caller]
    pub fn launch(&self) {
        let mut child = self.child();
        assert!(child.is_none(), "it runs already");
        let mut command = self.command();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))
            .unwrap();
        command
            .arg("serve")
            .arg("--config")
            .arg(self.config())
            .arg("--state")
            .arg(self.state());
        if !self.mounts {
            command.arg("--no-mount");
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        *child = Some(start(&mut command));
    }

    /// A command of the same binary, on the same directory.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C");
        command.env("LD_LIBRARY_PATH", &artefacts().sim);
        command.envs(self.sim.variables());
        command
    }

    /// Uses another binary from the next start on: an upgrade.
    pub fn upgrade(&mut self, executable: &Path) {
        self.executable = executable.into();
    }

    /// What a person gets who types this command: output and exit status.
    #[must_use]
    pub fn type_in(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = self.command();
        command.args(arguments).arg("--state").arg(self.state());
        command.output().unwrap()
    }

    /// The same, which has to succeed and print JSON.
    #[track_caller]
    pub fn typed<T: DeserializeOwned>(&self, arguments: &[&str]) -> T {
        let output = self.type_in(arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}{complaint}");
        serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{arguments:?}: {e}: {text}{complaint}"))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.pid()).unwrap();
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Ends it without a warning.
    #[track_caller]
    pub fn kill9(&self) {
        self.signal(libc::SIGKILL);
        let child = self.child().take();
        child.expect("the daemon runs").wait().unwrap();
    }

    /// Asks it to end, and waits until it has. Its exit status.
    #[track_caller]
    pub fn terminate(&self) -> Option<i32> {
        self.signal(libc::SIGTERM);
        let mut child = self.child().take().expect("the daemon runs");
        let begin = Instant::now();
        while begin.elapsed() < WATCHDOG {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(child.kill());
        drop(child.wait());
        panic!("the daemon does not end\n{}", self.log());
    }

    /// Whether it still runs.
    #[must_use]
    pub fn alive(&self) -> bool {
        self.child()
            .as_mut()
            .is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Waits until something holds.
    ///
    /// # Panics
    /// It never does.
    #[track_caller]
    pub fn wait(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while begin.elapsed() < WATCHDOG {
            if holds(self) {
                return;
            }
            assert!(
                self.alive(),
                "waited for {what}, and the daemon has ended\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("waited in vain for {what}\n{}", self.log());
    }

    /// One request at the control socket.
    ///
    /// # Errors
    /// What the daemon answers instead.
    #[track_caller]
    pub fn ask<T: DeserializeOwned>(&self, request: &Value) -> Result<T, String> {
        let answer = self
            .try_ask(request)
            .unwrap_or_else(|| panic!("no answer to {request}\n{}", self.log()));
        match (answer.get("ok"), answer.get("error")) {
            (Some(value), _) => {
                Ok(serde_json::from_value(value.clone())
                    .unwrap_or_else(|e| panic!("{e}: {answer}")))
            }
            (_, Some(refused)) => Err(refused["text"].as_str().unwrap().into()),
            _ => panic!("{request}: {answer}"),
        }
    }

    fn try_ask(&self, request: &Value) -> Option<Value> {
        let mut socket = UnixStream::connect(self.state().join("control.sock")).ok()?;
        socket.set_read_timeout(Some(WATCHDOG)).unwrap();
        socket.write_all(format!("{request}\n").as_bytes()).ok()?;
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Everything at this moment.
    #[track_caller]
    pub fn status(&self) -> Status {
        self.ask(&json!({"request": "status"})).unwrap()
    }

    /// A container at this moment.
    #[track_caller]
    pub fn container(&self, name: &str) -> Container {
        self.status().container(name).clone()
    }

    /// What a container has of the first device at this moment.
    #[track_caller]
    pub fn share(&self, name: &str) -> Share {
        self.status().share(name).clone()
    }

    /// Its registered processes.
    #[track_caller]
    pub fn processes(&self, container: &str) -> Vec<Registered> {
        self.ask(&json!({"request": "processes", "container": container}))
            .unwrap()
    }

    /// The last refusals and waits of a container.
    #[track_caller]
    pub fn why(&self, container: &str) -> Why {
        self.ask(&json!({"request": "why", "container": container}))
            .unwrap()
    }

    /// Changes a value of a container: `memory`, `compute` and so on.
    ///
    /// # Errors
    /// Why the daemon does not.
    #[track_caller]
    pub fn set(
        &self,
        container: &str,
        key: &str,
        value: impl Into<Value>,
    ) -> Result<Value, String> {
        self.ask(&json!({"request": "set", "container": container, key: value.into()}))
    }

    /// A program of `programs/` as a process of a container.
    pub fn client(&self, container: &str, name: &str) -> Client {
        self.command_in(container, &program(name))
    }

    /// Any executable as a process of a container: it knows the socket, and no quota.
    pub fn command_in(&self, container: &str, executable: &Path) -> Client {
        let client = self.sim.command(executable).without("GPU_QUOTA_GROUP");
        client
            .env("GPU_QUOTA_SOCKET", self.socket(container))
            .env("GPU_SIM_TENANT", container)
    }

    /// Bytes of memory that the daemon itself has resident.
    #[must_use]
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// CPU time that the daemon has used.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let (_, tail) = stat.rsplit_once(") ").unwrap();
        let ticks: u64 = tail
            .split(' ')
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().unwrap())
            .sum();
        // The kernel shows all of them in hundredths of a second.
        Duration::from_millis(ticks * 10)
    }

    /// Descriptors that the daemon has open.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid()))
            .unwrap()
            .count()
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let child = self.child().take();
        if let Some(mut child) = child {
            drop(child.kill());
            drop(child.wait());
        }
        if std::thread::panicking() {
            eprintln!("--- log of the daemon\n{}---", self.log());
        }
        unmount_below(&self.state());
    }
}

/// What a daemon has mounted outlives it, for the next one; here there is none.
pub(crate) fn unmount_below(dir: &Path) {
    let dir = dir.canonicalize().unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for place in places.filter(|place| dir.is_absolute() && Path::new(place).starts_with(&dir)) {
        let path = std::ffi::CString::new(place).unwrap();
        // SAFETY: a string that ends in a zero.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}
