//! How the tests start the program.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The program, with none of the tester's own settings.
pub(crate) fn daemon() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quota-daemon"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("GPU_") || name.starts_with("CUDA_") || name == "LD_PRELOAD" {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// What it wrote to stdout.
pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it wrote to stderr.
pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder of this test's own, with a library that can be preloaded and does nothing.
pub(crate) struct Scratch {
    pub(crate) folder: PathBuf,
    pub(crate) library: PathBuf,
}

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("quota-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let library = folder.join("libquota_shim.so");
        let source = folder.join("nothing.c");
        std::fs::write(&source, "int quota_cli_test_nothing;\n").unwrap();
        let made = Command::new("cc")
            .args(["-shared", "-o"])
            .arg(&library)
            .arg(&source)
            .status()
            .unwrap();
        assert!(made.success());
        Self { folder, library }
    }

    pub(crate) fn run(&self, flags: &[&str], program: &[&str]) -> Output {
        let mut command = daemon();
        command
            .arg("run")
            .arg("--shim")
            .arg(&self.library)
            .args(flags)
            .arg("--")
            .args(program);
        command.output().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
