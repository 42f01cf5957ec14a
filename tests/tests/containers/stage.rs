//! What all cases share: a daemon that publishes devices, podman, and a container of each quota that commands are carried out in.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use quota_tests::podman::{Podman, small_rootfs, text};
use quota_tests::{Account, Daemon, Load, MIB, Sim, Tenant, Work, artefacts, program};
use tempfile::TempDir;

/// What a context is charged.
pub(crate) const CONTEXT: u64 = 300 * MIB;
/// This machine's own file system, with a layer over it that goes with the container.
pub(crate) const HOST: &str = "/:O";
/// In it, a program holds what it was asked to hold as long as its standard input is open.
const KEPT: &[&str] = &["sleep", "600"];

const CONFIG: &str = r#"
[daemon]
context = "300MiB"
metrics = "127.0.0.1:PORT"

[cdi]
publish = true
kind = "KIND"
library = "LIBRARY"

[[container]]
name = "a"
memory = "2GiB"
compute = "30%"

[[container]]
name = "b"
memory = "3GiB"
compute = "50%"

[[container]]
name = "w1"
memory = "2GiB"
weight = 1

[[container]]
name = "w2"
memory = "2GiB"
weight = 1
"#;

/// The stage.
pub(crate) struct Stage<'a> {
    pub(crate) sim: &'a Sim,
    pub(crate) daemon: Daemon<'a>,
    pub(crate) podman: Podman,
    /// Mounted in every container at its own place: programs, the simulation, accounts of loads.
    pub(crate) files: &'a Path,
    pub(crate) port: u16,
    kind: String,
    kept: OnceCell<String>,
}

impl<'a> Stage<'a> {
    /// The directory that containers share with the test.
    pub(crate) fn files() -> TempDir {
        let files = tempfile::tempdir().unwrap();
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o777)).unwrap();
        files
    }

    /// Sets it up, or says why that cannot be.
    pub(crate) fn set(sim: &'a Sim, files: &'a Path) -> Result<Self, String> {
        for name in ["hold", "load", "hostile_policy"] {
            fs::copy(program(name), files.join(name)).unwrap();
        }
        let library = files.join("libquota_shim.so");
        fs::copy(&artefacts().shim, &library).unwrap();
        small_rootfs(&files.join("small"), &small_programs(files));
        let flags = flags(sim, files);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let podman = Podman::new(None, &flags, HOST)?;

        let kind = format!("test-{}.gpu-quota.io/container", std::process::id());
        let port = port();
        let config = CONFIG
            .replace("PORT", &port.to_string())
            .replace("KIND", &kind)
            .replace("LIBRARY", library.to_str().unwrap());
        for (name, memory) in [("a", "2GiB"), ("b", "3GiB"), ("w1", "2GiB"), ("w2", "2GiB")] {
            sim.allow(name, memory);
        }
        let daemon = Daemon::mounting(sim, &config);
        // Users of all kinds take part in the simulation.
        fs::set_permissions(files.join("gpu"), fs::Permissions::from_mode(0o666)).unwrap();
        Ok(Self {
            sim,
            daemon,
            podman,
            files,
            port,
            kind,
            kept: OnceCell::new(),
        })
    }

    /// Behind `--device`.
    pub(crate) fn device(&self, container: &str) -> String {
        format!("{}={container}", self.kind)
    }

    /// The flags that make a container of podman's one of the daemon's.
    pub(crate) fn of(&self, container: &str) -> [String; 2] {
        [
            format!("--device={}", self.device(container)),
            format!("--env=GPU_SIM_TENANT={container}"),
        ]
    }

    /// The same, and more.
    fn with(&self, container: &str, flags: &[&str]) -> Vec<String> {
        let flags = flags.iter().map(ToString::to_string);
        self.of(container).into_iter().chain(flags).collect()
    }

    /// Runs a shell command as a container's first process, to its end.
    pub(crate) fn run(&self, container: &str, flags: &[&str], script: &str) -> Output {
        self.run_in(container, flags, HOST, script)
    }

    /// The same on another root file system.
    pub(crate) fn run_in(
        &self,
        container: &str,
        flags: &[&str],
        rootfs: &str,
        script: &str,
    ) -> Output {
        let all = self.with(container, flags);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        self.podman.run("--rm", &all, rootfs, &["sh", "-c", script])
    }

    /// A container that goes on until the test ends or it is removed; its id.
    #[track_caller]
    pub(crate) fn start(&self, container: &str, flags: &[&str], program: &[&str]) -> String {
        let all = self.with(container, flags);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let output = self.podman.run("--detach", &all, HOST, program);
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).trim().into()
    }

    /// Carries out a shell command in a container of `a` that has been running since the first such command.
    pub(crate) fn exec(&self, flags: &[&str], script: &str) -> Output {
        let kept = self.kept.get_or_init(|| self.start("a", &[], KEPT));
        let mut command = self.podman.command(&["exec"]);
        command.args(flags).arg(kept).args(["sh", "-c", script]);
        command.output().unwrap()
    }

    /// Ends a container at once.
    pub(crate) fn end(&self, id: &str) {
        self.podman.ok(&["rm", "--force", "--time=0", id]);
    }

    /// A load as the first process of a container.
    #[track_caller]
    pub(crate) fn load(&self, container: &str, flags: &[&str], work: Work) -> Load {
        let all = self.with(container, flags);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let client = self.podman.client(&all, HOST, &self.program("load"));
        let load = Load::begin_in(self.files, client, work);
        load.await_ready();
        load
    }

    /// Where a client program lies.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    /// A shell command that tries to hold so many MiB, and what stands before it.
    pub(crate) fn hold(&self, before: &str, mib: u64) -> String {
        format!(
            "{before} {} {mib} </dev/null",
            self.program("hold").display()
        )
    }

    /// The same for a process that has lost its environment: the simulator's variables alone.
    pub(crate) fn bare_hold(&self, tenant: &str, mib: u64) -> String {
        let gpu = self.files.join("gpu");
        self.hold(
            &format!("GPU_SIM={} GPU_SIM_TENANT={tenant}", gpu.display()),
            mib,
        )
    }

    /// The simulator's account of a tenant.
    pub(crate) fn tenant(&self, name: &str) -> Tenant {
        tenant(&self.sim.account(), name)
    }

    /// What each of these got of the device while the test slept, in percent.
    pub(crate) fn shares<const N: usize>(&self, names: [&str; N], milliseconds: u64) -> [f64; N] {
        let before = self.sim.account();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        let after = self.sim.account();
        let elapsed = (after.clock_ns - before.clock_ns) as f64;
        names.map(|name| {
            let ran = tenant(&after, name).busy_ns - tenant(&before, name).busy_ns;
            ran as f64 * 100.0 / elapsed
        })
    }
}

fn tenant(account: &Account, name: &str) -> Tenant {
    let tenants = account.devices[0].tenants.iter();
    let found = tenants.clone().find(|tenant| tenant.label == name);
    found
        .unwrap_or_else(|| panic!("nobody of {name} in {account:?}"))
        .clone()
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // As a daemon that was killed leaves them.
        let prefix = self.kind.replace('/', "-");
        for entry in fs::read_dir("/var/run/cdi").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// What a container without a distribution has.
fn small_programs(files: &Path) -> Vec<PathBuf> {
    let tools = ["sh", "env", "sleep", "true"].map(|name| Path::new("/usr/bin").join(name));
    let driver = artefacts().sim.join("libcuda.so.1");
    tools
        .into_iter()
        .chain([files.join("hold"), driver])
        .collect()
}

/// What every container has beside its device: the simulated driver where the system's libraries are, and the test's files.
pub(crate) fn flags(sim: &Sim, files: &Path) -> Vec<String> {
    let driver = artefacts().sim.join("libcuda.so.1");
    let lib = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let mut flags = vec![
        format!("--volume={}:{lib}/libcuda.so.1:ro", driver.display()),
        format!("--volume={0}:{0}", files.display()),
    ];
    let kernels = quota_tests::workspace()
        .canonicalize()
        .unwrap()
        .join("gpu-sim/kernels.ptx");
    let copy = files.join("kernels.ptx");
    fs::copy(kernels, &copy).unwrap();
    flags.push(format!("--env=QUOTA_TEST_KERNELS={}", copy.display()));
    flags.extend(
        sim.variables()
            .skip(1)
            .map(|(name, value)| format!("--env={name}={value}")),
    );
    flags
}

/// A port that nobody has.
fn port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// What `hold` was answered.
#[track_caller]
pub(crate) fn result(output: &Output) -> u32 {
    let text = text(output);
    let line = text.lines().find_map(|line| line.strip_prefix("result="));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

/// Fails unless more than the quota was refused and less was granted.
#[track_caller]
pub(crate) fn limited(more: &Output, less: &Output) -> String {
    let (more_got, less_got) = (result(more), result(less));
    assert_eq!(
        less_got,
        0,
        "less than the quota was refused: {}",
        text(less)
    );
    assert_eq!(
        more_got,
        2,
        "more than the quota was granted: {}",
        text(more)
    );
    "3000 MiB of 2 GiB refused, 1500 granted".into()
}
