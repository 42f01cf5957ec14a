//! `quota-daemon run` in front of a program does what the variables do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::path::Path;

use quota_tests::{Client, GIB, Sim, artefacts, program};

/// `quota-daemon run FLAGS -- PROGRAM`, as a client of this simulation.
fn run(sim: &Sim, flags: &[&str], program: &Path) -> Client {
    sim.command(&artefacts().daemon)
        .bare()
        .arg("run")
        .args(flags)
        .arg("--")
        .arg(program)
}

#[test]
fn a_program_behind_run_gets_its_quota() {
    let sim = Sim::new();
    let client = run(
        &sim,
        &["--memory", "1GiB", "--context", "0"],
        &program("blocks_dlsym"),
    )
    .run()
    .ok();
    assert_eq!(
        (
            client.number("total"),
            client.number("blocks"),
            client.number("result")
        ),
        (GIB, 4, 2)
    );
    assert_eq!(client.stderr, "");
}

#[test]
fn a_program_behind_run_gets_its_share_of_time() {
    let sim = Sim::new();
    let client = run(&sim, &["--compute", "30%"], &program("share"))
        .args(["launch", "1"])
        .run()
        .ok();
    let permille = client.number("permille");
    assert!((150..=450).contains(&permille), "{permille} per mille");
}

#[test]
fn the_programs_end_is_passed_on() {
    let sim = Sim::new();
    let end = |script: &str| {
        let client = run(&sim, &["--memory", "1GiB"], Path::new("/bin/sh"));
        let finished = client.args(["-c", script]).run();
        (finished.status.code(), finished.signal())
    };
    assert_eq!(end("exit 7"), (Some(7), None));
    assert!(matches!(
        end("kill -TERM $$"),
        (None, Some(15)) | (Some(143), None)
    ));
}

/// Refused before anything is started, with the status for wrong usage.
#[test]
fn a_wrong_quota_starts_nothing() {
    let sim = Sim::new();
    let finished = run(&sim, &["--memory", "lots"], Path::new("/bin/sh"))
        .args(["-c", "echo started"])
        .run();
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert_eq!(finished.stdout, "");
    assert!(
        finished.stderr.contains("lots") && finished.stderr.contains("4GiB"),
        "{}",
        finished.stderr
    );
}
