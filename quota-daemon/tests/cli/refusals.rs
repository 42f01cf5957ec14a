//! What is refused before any program starts, and in which words.

use crate::support::{Scratch, daemon, err, out};

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
