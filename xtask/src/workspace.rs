//! Where things are, and how cargo is called.

use std::env;
use std::fs::{self, File};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the checkout: the folder that holds the workspace's `Cargo.toml`.
///
/// `cargo run` tells where the package lies now; the compiled-in path serves a binary that is
/// started by hand.
#[must_use]
pub fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .filter(|folder| folder.ends_with("xtask"))
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    package
        .parent()
        .map_or_else(|| package.clone(), Path::to_path_buf)
}

/// `target/` of the checkout. Artefacts always go here, whatever `CARGO_TARGET_DIR` says about
/// where cargo keeps its own files: scripts and documents name this path.
#[must_use]
pub fn target() -> PathBuf {
    root().join("target")
}

/// Where cargo keeps its own files when nobody says otherwise.
#[must_use]
pub fn cargo_target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(target, |folder| root().join(folder))
}

/// A `cargo` command in the workspace root with its own target directory.
///
/// Variables that the outer cargo set for this program (package names, the dynamic loader's
/// path) would otherwise make the inner one rebuild.
#[must_use]
pub fn cargo(target_dir: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root())
        .env("CARGO_TARGET_DIR", target_dir);
    for (name, _) in env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
        .env_remove("LD_PRELOAD")
        .env_remove("LD_LIBRARY_PATH");
    command
}

/// What tells an inner cargo how much to say: somebody who watches a terminal sees what is being built.
#[must_use]
pub fn verbosity() -> Option<&'static str> {
    (!std::io::stderr().is_terminal()).then_some("--quiet")
}

/// Runs a command whose output is for the reader, on stderr: stdout is for results.
///
/// # Errors
/// When the command cannot be started or does not succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let shown = words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    let status = command
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown} ended with {status}");
    }
    Ok(())
}

/// Holds an exclusive lock on `path` until dropped; waits for another holder.
///
/// The kernel drops the lock with its holder, so a killed run leaves nothing to clear up.
///
/// # Errors
/// When the file cannot be made or locked.
pub fn lock(path: &Path) -> Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    file.lock()
        .with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}
