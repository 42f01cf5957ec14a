//! Real containers: podman, with devices that a daemon publishes. It has a storage of its own, and touches nobody's containers.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::client::Client;
use crate::daemon::unmount_below;

/// No network, no limits beyond what a plain process has here, nothing outside the given directories.
const CONFIG: &str = r#"
[containers]
netns = "none"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
log_driver = "none"

[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
"#;

/// A user's podman. Dropping it ends its containers.
#[derive(Debug)]
pub struct Podman {
    /// Of the runtime: a tmpfs, since an overlay's upper layer cannot lie on every file system.
    runroot: TempDir,
    storage: TempDir,
    user: Option<User>,
    /// Flags of every container.
    flags: Vec<OsString>,
}

/// A user who is not root, and has subordinate ids for containers.
#[derive(Debug, Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// The user's and the group's number.
    pub ids: (u32, u32),
}

impl User {
    /// The first one that can have containers.
    #[must_use]
    pub fn with_subordinate_ids() -> Option<Self> {
        let owners = fs::read_to_string("/etc/subuid").ok()?;
        let users = fs::read_to_string("/etc/passwd").ok()?;
        owners.lines().find_map(|line| {
            let owner = line.split(':').next()?;
            users.lines().find_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next().filter(|name| *name == owner)?;
                let mut ids = fields.skip(1).map(|id| id.parse().ok());
                let ids = (ids.next()??, ids.next()??);
                Some(Self {
                    name: name.into(),
                    ids,
                })
            })
        })
    }
}

impl Podman {
    /// One whose containers all get these flags, of root or of another user.
    ///
    /// # Errors
    /// Why there can be none here: `rootfs` is tried.
    pub fn new(user: Option<User>, flags: &[&str], rootfs: &str) -> Result<Self, String> {
        if let Err(error) = Command::new("podman").arg("--version").output() {
            return Err(format!("no podman: {error}"));
        }
        let tmpfs = Path::new("/dev/shm");
        let runroot = tempfile::Builder::new()
            .prefix("gpu-quota.podman.")
            .tempdir_in(tmpfs)
            .unwrap();
        let podman = Self {
            runroot,
            storage: tempfile::tempdir().unwrap(),
            user,
            flags: flags.iter().map(OsString::from).collect(),
        };
        for dir in [podman.runroot.path(), podman.storage.path()] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
            podman.give(dir);
        }
        fs::write(podman.storage.path().join("containers.conf"), CONFIG).unwrap();
        let tried = podman.run("--rm", &[], rootfs, &["true"]);
        if tried.status.success() {
            return Ok(podman);
        }
        Err(format!(
            "podman runs no container here: {}",
            text(&tried).trim()
        ))
    }

    /// Makes a file or a folder this user's, with all that is in it.
    ///
    /// # Panics
    /// It cannot be.
    pub fn give(&self, path: &Path) {
        if let Some(user) = &self.user {
            let (uid, gid) = user.ids;
            let mut command = Command::new("chown");
            command.args(["-hR", &format!("{uid}:{gid}")]).arg(path);
            assert!(
                command.status().unwrap().success(),
                "chown {}",
                path.display()
            );
        }
    }

    /// The words before podman's own command.
    fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(user) = &self.user {
            let (uid, gid) = user.ids;
            words.push("setpriv".into());
            words.push(format!("--reuid={uid}").into());
            words.push(format!("--regid={gid}").into());
            words.push("--clear-groups".into());
        }
        words.push("podman".into());
        for (flag, path) in [
            ("--root", self.storage.path().join("root")),
            ("--runroot", self.runroot.path().join("run")),
            ("--tmpdir", self.runroot.path().join("tmp")),
        ] {
            words.extend([flag.into(), path.into_os_string()]);
        }
        words
    }

    /// The same as one text, for a script to put its command behind.
    #[must_use]
    pub fn words_for_a_shell(&self) -> String {
        let words = self.words();
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    /// The variables of its process.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![
            ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin".into()),
            ("LC_ALL", "C".into()),
            ("HOME", self.storage.path().into()),
            (
                "CONTAINERS_CONF",
                self.storage.path().join("containers.conf").into(),
            ),
        ];
        if let Some(user) = &self.user {
            variables.push(("XDG_RUNTIME_DIR", self.runroot.path().into()));
            variables.push(("USER", user.name.clone().into()));
        }
        variables
    }

    /// A command of podman's.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut words = self.words().into_iter();
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(arguments)
            .env_clear()
            .envs(self.variables());
        command.current_dir("/").stdin(std::process::Stdio::null());
        command
    }

    /// A container that runs a program to its end, or begins to (`--detach`).
    #[must_use]
    pub fn run(&self, how: &str, flags: &[&str], rootfs: &str, program: &[&str]) -> Output {
        let mut command = self.command(&["run", how]);
        command.args(&self.flags).args(flags);
        command.args(["--rootfs", rootfs]).args(program);
        command.output().unwrap()
    }

    /// A container as a client of a test: the program's arguments are to follow.
    pub fn client(&self, flags: &[&str], rootfs: &str, program: &Path) -> Client {
        let mut words = self.words().into_iter();
        let executable = Path::new("/usr/bin").join(words.next().unwrap());
        let mut client = Client::new(&executable).bare().no_driver().args(words);
        for (name, value) in self.variables() {
            client = client.env(name, value);
        }
        client
            .args(["run", "--rm", "--init=false"])
            .args(&self.flags)
            .args(flags)
            .args(["--rootfs", rootfs])
            .arg(program)
    }

    /// What a command of podman's prints, which has to succeed.
    ///
    /// # Panics
    /// It does not.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "podman {arguments:?}: {}",
            text(&output)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn pause_process(&self) -> Option<libc::pid_t> {
        let path = self.runroot.path().join("tmp/pause.pid");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    }
}

/// Both streams.
#[must_use]
pub fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}

impl Drop for Podman {
    fn drop(&mut self) {
        let mut command = self.command(&["rm", "--all", "--force", "--time=0"]);
        let removed = command.output();
        if let Some(pid) = self.pause_process() {
            // SAFETY: signals the process that podman has noted as its own, in the directory that is ours.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        if let Ok(removed) = removed
            && !removed.status.success()
        {
            eprintln!("containers may be left: {}", text(&removed));
        }
        // What clears up after a container's end may still be at it, and podman leaves its storage mounted.
        for dir in [self.runroot.path(), self.storage.path()] {
            for _ in 0..40 {
                unmount_below(dir);
                if fs::remove_dir_all(dir).is_ok() || !dir.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }
}

/// A root directory with these programs and what they load, and nothing else: an image without a distribution.
///
/// # Panics
/// A program is missing.
pub fn small_rootfs(dir: &Path, programs: &[PathBuf]) {
    for folder in [
        "usr/bin",
        "usr/lib",
        "usr/lib64",
        "usr/sbin",
        "etc",
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
    ] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    for link in ["bin", "lib", "lib64", "sbin"] {
        std::os::unix::fs::symlink(format!("usr/{link}"), dir.join(link)).unwrap();
    }
    fs::write(dir.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    for program in programs {
        let loads = Command::new("ldd").arg(program).output().unwrap();
        let loads = String::from_utf8_lossy(&loads.stdout).into_owned();
        let libraries = loads
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        for file in libraries.map(Path::new).chain([program.as_path()]) {
            let place = place(dir, file);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::copy(file, &place).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        }
    }
}

/// Where a file of the host lies below `dir`, with the links on the way to it followed.
fn place(dir: &Path, file: &Path) -> PathBuf {
    let folder = file.parent().unwrap().canonicalize().unwrap();
    let folder = folder.strip_prefix("/").unwrap();
    dir.join(folder).join(file.file_name().unwrap())
}
