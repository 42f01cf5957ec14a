//! `run` as scripts use it: variables, exit codes, signals.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::support::{Scratch, daemon, err, out};

/// What `env` printed for `name`.
fn variable(output: &Output, name: &str) -> Option<String> {
    let prefix = format!("{name}=");
    out(output)
        .lines()
        .find_map(|line| line.strip_prefix(&prefix).map(String::from))
}

#[test]
fn run_sets_what_the_library_reads() {
    let scratch = Scratch::new("variables");
    let flags = [
        "--memory",
        "4GiB",
        "--compute",
        "30%",
        "--context",
        "0",
        "--device",
        "1",
    ];
    let output = scratch.run(&flags, &["env"]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(variable(&output, "GPU_QUOTA_MEMORY").unwrap(), "4GiB");
    assert_eq!(variable(&output, "GPU_QUOTA_COMPUTE").unwrap(), "30%");
    assert_eq!(variable(&output, "GPU_QUOTA_CONTEXT").unwrap(), "0");
    assert_eq!(variable(&output, "CUDA_VISIBLE_DEVICES").unwrap(), "1");
    let preload = variable(&output, "LD_PRELOAD").unwrap();
    assert_eq!(Path::new(&preload), scratch.library);
    assert!(err(&output).is_empty(), "{}", err(&output));
}

#[test]
fn what_is_not_asked_is_not_set() {
    let scratch = Scratch::new("unset");
    let output = scratch.run(&["--memory", "1GiB"], &["env"]);
    assert_eq!(variable(&output, "GPU_QUOTA_COMPUTE"), None);
    assert_eq!(variable(&output, "GPU_QUOTA_CONTEXT"), None);
    assert_eq!(variable(&output, "CUDA_VISIBLE_DEVICES"), None);
}

#[test]
fn an_existing_preload_stays_behind_ours() {
    let scratch = Scratch::new("preload");
    let other = scratch.folder.join("other.so");
    std::fs::copy(&scratch.library, &other).unwrap();
    let mut command = daemon();
    command
        .args(["run", "--memory", "1GiB", "--shim"])
        .arg(&scratch.library);
    let output = command
        .args(["--", "env"])
        .env("LD_PRELOAD", &other)
        .output()
        .unwrap();
    let preload = variable(&output, "LD_PRELOAD").unwrap();
    assert_eq!(
        preload,
        format!("{}:{}", scratch.library.display(), other.display())
    );
}

#[test]
fn every_run_is_a_group_of_its_own_unless_named() {
    let scratch = Scratch::new("group");
    let group =
        |flags: &[&str]| variable(&scratch.run(flags, &["env"]), "GPU_QUOTA_GROUP").unwrap();
    let (one, two) = (group(&["--memory", "1GiB"]), group(&["--memory", "1GiB"]));
    assert_ne!(one, two);
    assert_eq!(group(&["--memory", "1GiB", "--group", "team-a"]), "team-a");
}

#[test]
fn a_variable_stands_in_for_a_flag_and_a_flag_wins() {
    let scratch = Scratch::new("precedence");
    let memory = |flags: &[&str]| {
        let mut command = daemon();
        command
            .env("GPU_QUOTA_MEMORY", "2GiB")
            .arg("run")
            .arg("--shim")
            .arg(&scratch.library);
        let output = command.args(flags).args(["--", "env"]).output().unwrap();
        variable(&output, "GPU_QUOTA_MEMORY").unwrap()
    };
    assert_eq!(memory(&[]), "2GiB");
    assert_eq!(memory(&["--memory", "1GiB"]), "1GiB");
}

#[test]
fn the_alias_of_another_shim_is_something_to_enforce() {
    let scratch = Scratch::new("alias");
    let mut command = daemon();
    command
        .env("CUDA_DEVICE_MEMORY_LIMIT", "4096m")
        .arg("run")
        .arg("--shim")
        .arg(&scratch.library);
    assert!(command.args(["--", "true"]).status().unwrap().success());
}

#[test]
fn the_programs_end_is_the_end() {
    let scratch = Scratch::new("status");
    let quota = ["--memory", "1GiB"];
    assert_eq!(
        scratch.run(&quota, &["sh", "-c", "exit 42"]).status.code(),
        Some(42)
    );
    let killed = scratch.run(&quota, &["sh", "-c", "kill -TERM $$"]).status;
    assert_eq!(killed.signal(), Some(15), "a shell shows this as 143");
    assert_eq!(
        scratch
            .run(&quota, &["no-such-program-anywhere"])
            .status
            .code(),
        Some(127)
    );
    let plain = scratch.folder.join("plain");
    std::fs::write(&plain, "text").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let denied = scratch.run(&quota, &[plain.to_str().unwrap()]);
    assert_eq!(denied.status.code(), Some(126), "{}", err(&denied));
    assert!(err(&denied).contains("plain"), "{}", err(&denied));
}

#[test]
fn the_program_keeps_the_pid() {
    let scratch = Scratch::new("pid");
    let mut command = daemon();
    command
        .args(["run", "--memory", "1GiB", "--shim"])
        .arg(&scratch.library);
    command
        .args(["--", "sh", "-c", "echo $$"])
        .stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = child.id();
    assert_eq!(
        out(&child.wait_with_output().unwrap()).trim(),
        pid.to_string()
    );
}

#[test]
fn a_device_below_zero_shows_none() {
    let scratch = Scratch::new("device");
    let output = scratch.run(&["--memory", "1GiB", "--device", "-1"], &["env"]);
    assert_eq!(variable(&output, "CUDA_VISIBLE_DEVICES").unwrap(), "-1");
}
