//! The command line as scripts use it: variables, exit codes, signals, output.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder of this test's own, with a library that can be preloaded and does nothing.
struct Scratch {
    folder: PathBuf,
    library: PathBuf,
}

impl Scratch {
    fn new(name: &str) -> Self {
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

    fn run(&self, flags: &[&str], program: &[&str]) -> Output {
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

/// The program, with none of the tester's own settings.
fn daemon() -> Command {
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

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

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
fn a_bad_value_is_refused_before_the_program_starts_by_the_name_that_was_written() {
    let scratch = Scratch::new("bad");
    for (flag, variable, value) in [
        ("--memory", "GPU_QUOTA_MEMORY", "much"),
        ("--memory", "GPU_QUOTA_MEMORY", "0"),
        ("--memory", "GPU_QUOTA_MEMORY", ""),
        ("--memory", "GPU_QUOTA_MEMORY", "-4GiB"),
        ("--compute", "GPU_QUOTA_COMPUTE", "130%"),
        ("--compute", "GPU_QUOTA_COMPUTE", "-30%"),
        ("--compute", "GPU_QUOTA_COMPUTE", "-1"),
        ("--context", "GPU_QUOTA_CONTEXT", "-1MiB"),
        ("--group", "GPU_QUOTA_GROUP", ""),
    ] {
        let program = ["sh", "-c", "echo started"];
        let by_flag = scratch.run(&[flag, value], &program);
        let mut command = daemon();
        command.env(variable, value).args(["run", "--shim"]);
        command.arg(&scratch.library).arg("--").args(program);
        let by_variable = command.output().unwrap();
        for (output, name, other) in [(by_flag, flag, variable), (by_variable, variable, flag)] {
            let said = err(&output);
            assert_eq!(output.status.code(), Some(2), "{name} {value}: {said}");
            assert!(out(&output).is_empty(), "{name} {value}");
            assert!(said.contains(&format!("{name}={value:?} ")), "{said}");
            assert!(said.contains(&format!("for example {name}=")), "{said}");
            assert!(!said.contains(other), "{said}");
        }
    }
}

#[test]
fn a_program_without_the_dashes_before_it_is_told_where_it_goes() {
    let scratch = Scratch::new("dashes");
    let mut command = daemon();
    command.args(["run", "--memory", "1GiB", "--shim"]);
    command.arg(&scratch.library).args(["true", "now"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("run ... -- true"), "{}", err(&output));
    // A flag without its value stays what it is.
    let output = daemon()
        .args(["run", "--memory", "--compute", "30%", "--", "true"])
        .output()
        .unwrap();
    assert!(err(&output).contains("a value is required for '--memory"));
}

#[test]
fn a_device_below_zero_shows_none() {
    let scratch = Scratch::new("device");
    let output = scratch.run(&["--memory", "1GiB", "--device", "-1"], &["env"]);
    assert_eq!(variable(&output, "CUDA_VISIBLE_DEVICES").unwrap(), "-1");
}

#[test]
fn a_misspelt_variable_is_told_and_the_program_runs() {
    let scratch = Scratch::new("misspelt");
    let run = |name: &str| {
        let mut command = daemon();
        command.env(name, "1GiB").args(["run", "--compute", "30%"]);
        command.arg("--shim").arg(&scratch.library);
        command.args(["--", "echo", "started"]).output().unwrap()
    };
    let output = run("GPU_QUOTA_MEMORI");
    assert_eq!(out(&output), "started\n");
    let said = err(&output);
    assert!(said.contains("GPU_QUOTA_MEMORI ") && said.contains("GPU_QUOTA_MEMORY?"));
    assert_eq!(err(&run("GPU_QUOTA_MEMORY")), "");
}

#[test]
fn nothing_to_enforce_is_a_mistake() {
    let scratch = Scratch::new("nothing");
    let output = scratch.run(&["--group", "x"], &["true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("--memory 4GiB"), "{}", err(&output));
}

#[test]
fn a_missing_library_is_not_found_and_the_program_not_started() {
    let mut command = daemon();
    command.args([
        "run",
        "--memory",
        "1GiB",
        "--shim",
        "/nonexistent/x.so",
        "--",
        "echo",
        "started",
    ]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(out(&output).is_empty());
    assert!(err(&output).contains("GPU_QUOTA_SHIM"), "{}", err(&output));
}

#[test]
fn doctor_speaks_json_and_ends_with_1_where_something_is_wrong() {
    let mut command = daemon();
    command.args(["doctor", "--json", "--shim", "/nonexistent/x.so"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(report["version"], 1);
    assert_eq!(report["ok"], false);
    let findings = report["findings"].as_array().unwrap();
    let library = findings
        .iter()
        .find(|finding| finding["check"] == "library")
        .unwrap();
    assert_eq!(library["status"], "failure");
    for finding in findings {
        let bad = finding["status"] == "failure" || finding["status"] == "warning";
        assert_eq!(bad, finding["mend"].is_string(), "{finding}");
    }
}

#[test]
fn doctor_shows_a_bad_variable_in_the_librarys_words() {
    let mut command = daemon();
    let output = command
        .arg("doctor")
        .env("GPU_QUOTA_COMPUTE", "300%")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        out(&output).contains("GPU_QUOTA_COMPUTE=\"300%\""),
        "{}",
        out(&output)
    );
    assert!(!out(&output).contains('\x1b'), "no colour off a terminal");
}

#[test]
fn doctor_tells_an_absent_daemon_by_its_code() {
    let mut command = daemon();
    command
        .arg("doctor")
        .env("GPU_QUOTA_SOCKET", "/nonexistent/quota.sock");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", out(&output));
}

#[test]
fn a_wrong_command_line_is_usage() {
    for arguments in [
        &["run"][..],
        &["no-such-command"],
        &["doctor", "--no-such-flag"],
    ] {
        assert_eq!(
            daemon().args(arguments).output().unwrap().status.code(),
            Some(2)
        );
    }
}
