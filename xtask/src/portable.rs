//! The portable build: linked by zig against glibc 2.17.
//!
//! A preloaded library that needs a newer glibc than its container has stops every process of
//! that container from starting, the shell included. zig carries the symbol versions of every
//! glibc release, so it can link against one that is older than the build machine's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::elf::{self, GlibcVersion};
use crate::workspace;

/// Where cargo puts what it builds for another target.
#[cfg(target_arch = "x86_64")]
pub const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Where cargo puts what it builds for another target.
#[cfg(target_arch = "aarch64")]
pub const TRIPLE: &str = "aarch64-unknown-linux-gnu";

/// The oldest glibc that the portable artefacts load on: that of CentOS 7 and manylinux2014.
pub const FLOOR: GlibcVersion = GlibcVersion {
    major: 2,
    minor: 17,
    patch: 0,
};

/// `cargo zigbuild` for the portable target, its tools installed at first use.
///
/// # Errors
/// When Python or the two packages cannot be had.
pub fn cargo(target_dir: &Path, triple: &str) -> Result<Command> {
    let venv = tools()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = vec![venv.join("bin")];
    folders.extend(std::env::split_paths(&path));
    let mut cargo = workspace::cargo(target_dir);
    cargo
        .env("PATH", std::env::join_paths(folders)?)
        .env("CARGO_ZIGBUILD_CACHE_DIR", venv.join("cache"))
        .args(["zigbuild", "--target", &format!("{triple}.{FLOOR}")]);
    Ok(cargo)
}

/// Whether Rust's own library for another machine is installed.
///
/// # Errors
/// It is not, and how to have it.
pub fn check_target(triple: &str) -> Result<()> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", triple])
        .output()
        .context("cannot start rustc")?;
    let folder = String::from_utf8_lossy(&output.stdout);
    if Path::new(folder.trim()).is_dir() {
        return Ok(());
    }
    bail!("Rust's library for {triple} is not installed: `rustup target add {triple}`")
}

/// Fails when `path` needs a newer glibc than [`FLOOR`].
///
/// # Errors
/// That, and when the file cannot be read.
pub fn check_floor(path: &Path) -> Result<()> {
    let floor = elf::glibc_floor(path)?;
    if floor > FLOOR {
        bail!(
            "{} needs glibc {floor}; a portable one needs at most {FLOOR}",
            path.display()
        );
    }
    Ok(())
}

/// The folder of a Python environment that holds zig and cargo-zigbuild.
fn tools() -> Result<PathBuf> {
    let venv = workspace::target().join("zig-venv");
    if venv.join("bin/cargo-zigbuild").exists() {
        return Ok(venv);
    }
    workspace::run(Command::new("python3").args(["-m", "venv"]).arg(&venv)).context(
        "the portable build needs python3 with its venv module (Debian: apt install python3-venv)",
    )?;
    workspace::run(
        Command::new(venv.join("bin/python"))
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(["ziglang", "cargo-zigbuild"]),
    )
    .context("the portable build needs the packages ziglang and cargo-zigbuild from PyPI")?;
    Ok(venv)
}
