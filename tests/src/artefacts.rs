//! The built artefacts. Cargo builds no cdylib for another package's tests, so they are built by
//! `cargo xtask dist --dev`, once per test run.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the built files are.
#[derive(Debug, Clone)]
pub struct Artefacts {
    /// The directory that holds `lib`, `bin` and `sim`.
    pub root: PathBuf,
    /// `libquota_shim.so`.
    pub shim: PathBuf,
    /// `quota-daemon`.
    pub daemon: PathBuf,
    /// The directory of the simulated driver's libraries.
    pub sim: PathBuf,
    /// Whether this is the release build (`target/dist`).
    pub release: bool,
}

/// The workspace's root directory.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Builds the artefacts if that was not done in this test run, and says where they are.
///
/// `GPU_QUOTA_DIST=DIR` uses what lies in DIR (made by `cargo xtask dist`) instead.
pub fn artefacts() -> &'static Artefacts {
    static ARTEFACTS: OnceLock<Artefacts> = OnceLock::new();
    ARTEFACTS.get_or_init(|| {
        let found = match std::env::var_os("GPU_QUOTA_DIST") {
            // From the workspace's root, as the command was typed there: tests run in their package's folder.
            Some(dir) => at(&workspace().join(dir), true),
            None => {
                build();
                at(&workspace().join("target/dist-dev"), false)
            }
        };
        for file in [&found.shim, &found.sim.join("libcuda.so.1")] {
            assert!(file.exists(), "{} is missing", file.display());
        }
        found
    })
}

fn at(root: &Path, release: bool) -> Artefacts {
    let root = root
        .canonicalize()
        .unwrap_or_else(|e| panic!("{}: {e}", root.display()));
    Artefacts {
        shim: root.join("lib/libquota_shim.so"),
        daemon: root.join("bin/quota-daemon"),
        sim: root.join("sim"),
        root,
        release,
    }
}

/// Runs `cargo xtask dist --dev` under a lock, unless another test process of the same `cargo
/// test` has done so: those share their parent process.
fn build() {
    let target = workspace().join("target");
    fs::create_dir_all(&target).unwrap();
    let lock = File::create(target.join("dist-dev.lock")).unwrap();
    // SAFETY: the descriptor belongs to `lock`, which lives to the end of this function.
    assert_eq!(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) }, 0);

    let stamp = target.join("dist-dev.run");
    let run = this_run();
    if let Some(run) = &run
        && fs::read_to_string(&stamp).is_ok_and(|done| done == *run)
    {
        return;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "dist",
            "--dev",
        ])
        .current_dir(workspace())
        .output()
        .expect("cargo starts");
    assert!(
        output.status.success(),
        "cargo xtask dist --dev failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    match run {
        Some(run) => fs::write(stamp, run).unwrap(),
        None => drop(fs::remove_file(stamp)),
    }
}

/// Names the `cargo test` that started this process: its pid and start time. None when something
/// else started it (a shell, a debugger): then there is no telling one run from the next.
fn this_run() -> Option<String> {
    // SAFETY: getppid takes no argument and cannot fail.
    let parent = unsafe { libc::getppid() };
    let stat = fs::read_to_string(format!("/proc/{parent}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(") ")?;
    let (_, name) = head.split_once('(')?;
    let started = tail.split(' ').nth(19)?;
    name.starts_with("cargo")
        .then(|| format!("{parent}:{started}"))
}
