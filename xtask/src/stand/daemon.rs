//! A `quota-daemon serve` on a directory of its own.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running daemon. Dropping it ends it, and removes its directory.
pub(crate) struct Daemon {
    process: Child,
    folder: TempDir,
}

impl Daemon {
    /// Starts one with this configuration (TOML), and waits until it listens. `prepare` sets what it needs to see the GPU.
    pub(crate) fn start(
        dist: &Path,
        config: &str,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let state = folder.path().join("state");
        fs::create_dir(&state)?;
        fs::write(folder.path().join("config.toml"), config)?;
        let log = File::create(folder.path().join("log"))?;
        let mut command = Command::new(dist.join("bin/quota-daemon"));
        prepare(&mut command);
        command
            .args(["serve", "--no-mount", "--config"])
            .arg(folder.path().join("config.toml"))
            .arg("--state")
            .arg(&state)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process = command.spawn().context("cannot start quota-daemon")?;
        let mut daemon = Self { process, folder };
        let begin = Instant::now();
        while UnixStream::connect(state.join("control.sock")).is_err() {
            if daemon.process.try_wait()?.is_some() || begin.elapsed() > PATIENCE {
                bail!("quota-daemon does not serve:\n{}", daemon.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(daemon)
    }

    /// The socket that a container's processes attach at.
    pub(crate) fn socket(&self, container: &str) -> PathBuf {
        let containers = self.folder.path().join("state/containers");
        containers.join(container).join("attach.sock")
    }

    /// Its directory of sockets and regions.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
