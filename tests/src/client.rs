//! A client process: environment, watchdog, captured output.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::artefacts::{artefacts, workspace};
use crate::limits::Limits;
use crate::steps::Steps;

/// How long a client may take before it counts as hung.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A client process that is not started yet.
#[derive(Debug)]
#[must_use]
pub struct Client {
    executable: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    without: Vec<OsString>,
    shim: Option<PathBuf>,
    driver: Option<PathBuf>,
    watchdog: Duration,
    limits: Option<Arc<Limits>>,
}

impl Client {
    /// A client with the shim preloaded and the simulated driver in reach.
    pub fn new(executable: &Path) -> Self {
        Self {
            executable: executable.into(),
            args: Vec::new(),
            env: Vec::new(),
            without: Vec::new(),
            shim: Some(artefacts().shim.clone()),
            driver: Some(artefacts().sim.clone()),
            watchdog: WATCHDOG,
            limits: None,
        }
    }

    /// Notes with its simulation what the client is allowed, when it starts.
    pub(crate) fn noted_in(mut self, limits: &Arc<Limits>) -> Self {
        self.limits = Some(Arc::clone(limits));
        self
    }

    /// Without the shim.
    pub fn bare(mut self) -> Self {
        self.shim = None;
        self
    }

    /// With no driver in reach.
    pub fn no_driver(mut self) -> Self {
        self.driver = None;
        self
    }

    /// With the driver libraries of another directory.
    pub fn driver(mut self, dir: &Path) -> Self {
        self.driver = Some(dir.into());
        self
    }

    /// Without the shim if `bare`: for loops over both.
    pub fn bare_if(self, bare: bool) -> Self {
        if bare { self.bare() } else { self }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    /// Sets a variable.
    pub fn env(mut self, variable: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((variable.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Leaves out a variable that is set otherwise.
    pub fn without(mut self, variable: &str) -> Self {
        self.without.push(variable.into());
        self
    }

    /// Sets the memory quota.
    pub fn memory(self, quota: &str) -> Self {
        self.env("GPU_QUOTA_MEMORY", quota)
    }

    /// Sets the share of GPU time.
    pub fn compute(self, quota: &str) -> Self {
        self.env("GPU_QUOTA_COMPUTE", quota)
    }

    /// Leaves contexts out of the account.
    pub fn free_context(self) -> Self {
        self.env("GPU_QUOTA_CONTEXT", "0")
    }

    /// How long the client may run before it is killed and its test fails.
    pub fn watchdog(mut self, seconds: u64) -> Self {
        self.watchdog = Duration::from_secs(seconds);
        self
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(self) -> Finished {
        self.spawn().finish()
    }

    /// Starts it.
    #[must_use]
    pub fn spawn(self) -> Running {
        let dir = tempfile::tempdir().unwrap();
        let watchdog = self.watchdog;
        let mut command = self.command();
        command.stdin(Stdio::piped());
        command.stdout(File::create(dir.path().join("stdout")).unwrap());
        command.stderr(File::create(dir.path().join("stderr")).unwrap());
        Running {
            child: Some(start(&mut command)),
            dir,
            started: Instant::now(),
            watchdog,
        }
    }

    /// Starts it as a program that is told what to do step by step.
    #[must_use]
    pub fn interpret(self) -> Steps {
        let watchdog = self.watchdog;
        Steps::new(&mut self.command(), watchdog)
    }

    /// The same, with a context.
    ///
    /// # Panics
    /// It is refused one.
    #[must_use]
    #[track_caller]
    pub fn interpret_in_context(self) -> Steps {
        let mut steps = self.interpret();
        for step in [
            "cuInit 0",
            "cuDevicePrimaryCtxRetain &0 0",
            "cuCtxSetCurrent $0",
        ] {
            let _ = steps.quiet(step).ok();
        }
        steps
    }

    fn command(self) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(&self.args);
        // Nothing of the tester's environment reaches a client but what it cannot do without.
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C");
        if let Some(mark) = std::env::var_os("CI_RUN_MARK") {
            command.env("CI_RUN_MARK", mark);
        }
        command.env(
            "QUOTA_TEST_KERNELS",
            workspace().join("gpu-sim/kernels.ptx"),
        );
        if let Some(driver) = &self.driver {
            command.env("LD_LIBRARY_PATH", driver);
        }
        if let Some(shim) = &self.shim {
            command.env("LD_PRELOAD", shim);
        }
        let mut environment = self.env;
        environment.retain(|(variable, _)| !self.without.contains(variable));
        if let (Some(limits), Some(_)) = (&self.limits, &self.shim)
            && let Some(label) = limits.note(&environment)
        {
            command.env("GPU_SIM_TENANT", label);
        }
        command.envs(environment);
        for variable in &self.without {
            command.env_remove(variable);
        }
        // Its own group: the watchdog takes its children along.
        command.process_group(0);
        command
    }
}

/// Starts a prepared command.
pub(crate) fn start(command: &mut Command) -> Child {
    command
        .spawn()
        .unwrap_or_else(|e| panic!("cannot start {}: {e}", command.get_program().display()))
}

/// Kills a client and its children with SIGKILL, and waits for it.
pub(crate) fn end(child: &mut Child) {
    let group = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: the group was made for this child, which has not been waited for yet or has ended just now; its number
    // cannot belong to anyone else while children live.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    child.wait().unwrap();
}

/// A started client. Dropping it kills it with all its children.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    dir: TempDir,
    started: Instant,
    watchdog: Duration,
}

impl Running {
    /// The client's pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Waits until the client has printed a line that starts with `mark`, and returns that line.
    pub fn line(&mut self, mark: &str) -> String {
        loop {
            let text = self.read("stdout");
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            if let Some(line) = complete.lines().find(|line| line.starts_with(mark)) {
                return line.into();
            }
            let child = self.child.as_mut().expect("not finished");
            if let Some(status) = child.try_wait().unwrap() {
                panic!(
                    "client ended ({status}) without '{mark}': {text}{}",
                    self.read("stderr")
                );
            }
            if self.started.elapsed() > self.watchdog {
                self.kill();
                panic!(
                    "client hung without '{mark}': {text}{}",
                    self.read("stderr")
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the client's standard input: the sign to go on for a client that waits for it.
    pub fn go_on(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.stdin.take());
        }
    }

    /// Kills the client and its children with SIGKILL, and waits for it.
    pub fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            end(child);
        }
    }

    /// Waits for its end; a client that passes its watchdog is killed, and says so.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        self.go_on();
        let mut hung = false;
        let status = loop {
            let child = self.child.as_mut().expect("not finished");
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if self.started.elapsed() > self.watchdog {
                hung = true;
                self.kill();
                continue;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let pid = self.pid();
        self.child = None;
        Finished {
            pid,
            status,
            hung,
            stdout: self.read("stdout"),
            stderr: self.read("stderr"),
            elapsed: self.started.elapsed(),
        }
    }

    /// Whether it has not ended, nor been waited for.
    #[must_use]
    pub fn alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| !state.starts_with('Z'))
    }

    /// What it or the library has complained of so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.dir.path().join(name)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A client that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its pid.
    pub pid: u32,
    /// How it ended.
    pub status: ExitStatus,
    /// Whether the watchdog had to end it.
    pub hung: bool,
    /// What it printed.
    pub stdout: String,
    /// What it or the shim complained of.
    pub stderr: String,
    /// How long it ran.
    pub elapsed: Duration,
}

impl Finished {
    /// Whether it ended by itself with exit status 0.
    #[must_use]
    pub fn success(&self) -> bool {
        !self.hung && self.status.success()
    }

    /// Fails the test unless the client ended well; returns it.
    #[must_use]
    pub fn ok(self) -> Self {
        assert!(
            self.success(),
            "client {}: {}\n--- stdout\n{}--- stderr\n{}",
            if self.hung { "hung" } else { "failed" },
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The value of its output line `NAME=VALUE`.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        self.stdout
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or_else(|| panic!("no line {name}= in {self:?}"))
    }

    /// The same, as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        let value = self.value(name);
        value
            .parse()
            .unwrap_or_else(|e| panic!("{name}={value}: {e}"))
    }
}
