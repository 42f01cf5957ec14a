//! A daemon that serves, without a GPU.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{daemon, out};

/// A daemon of this test's own, which ends with it.
pub(crate) struct Daemon {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) child: Child,
}

impl Daemon {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.toml");
        std::fs::write(&config, "[[container]]\nname = \"a\"\nmemory = \"4GiB\"\n").unwrap();
        let mut command = daemon();
        command
            .args(["serve", "--no-mount", "--config"])
            .arg(&config);
        command.arg("--state").arg(folder.path().join("state"));
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let this = Self { folder, child };
        wait("the control socket", || this.ask(&["status"]).success());
        this
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn ask(&self, words: &[&str]) -> std::process::ExitStatus {
        self.command(words).output().unwrap().status
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = daemon();
        command.args(words).env("GPU_QUOTA_STATE", self.state());
        command
    }

    pub(crate) fn processes(&self) -> serde_json::Value {
        let output = self.command(&["ps", "--json"]).output().unwrap();
        serde_json::from_str(&out(&output)).unwrap()
    }

    pub(crate) fn containers(&self) -> Vec<serde_json::Value> {
        let output = self.command(&["status", "--json"]).output().unwrap();
        let status: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
        status
            .pointer("/containers")
            .unwrap()
            .as_array()
            .unwrap()
            .clone()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
pub(crate) fn wait(what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
