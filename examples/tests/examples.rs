//! Every example runs, and shows what it promises.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use quota_tests::{artefacts, workspace};

/// Runs `command` to its end; one that hangs is ended and fails.
fn run(command: &mut Command, patience: Duration) -> Output {
    let child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let begin = Instant::now();
        while begin.elapsed() < patience {
            match waiting.recv_timeout(Duration::from_millis(100)) {
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                _ => return false,
            }
        }
        // SAFETY: signals the group that was just made for the child and what it started.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
        true
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    assert!(!watchdog.join().unwrap(), "hung: {}", text(&output));
    output
}

fn text(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn standalone_gets_its_gibibyte_and_no_more() {
    let group = format!("test-standalone-{}", std::process::id());
    let mut command = Command::new(workspace().join("examples/standalone/run.sh"));
    command
        .env("GROUP", &group)
        .arg("--sim")
        .env("DIST", &artefacts().root)
        .env("GPU_SIM_DEVICES", "4GiB");
    let output = run(&mut command, Duration::from_secs(120));
    let region = quota_abi::group::Group::named(&group)
        .path()
        .into_string()
        .unwrap();
    let _ = std::fs::remove_file(region);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    let (bare, limited) = text.split_once("with 1 GiB:").unwrap();
    assert!(bare.contains("shows 4096 MiB"), "{text}");
    assert!(limited.contains("shows 1024 MiB"), "{text}");
    assert!(
        limited.contains("got 4 blocks of 256 MiB, then CUDA error 2"),
        "{text}"
    );
}

#[test]
fn standalone_without_a_gpu_says_how_to_go_on() {
    let script = workspace().join("examples/standalone/run.sh");
    let say = |arguments: &[&str]| {
        let mut command = Command::new(&script);
        command
            .args(arguments)
            .env("DIST", &artefacts().root)
            // A GPU that may be here shows no device to it.
            .env("CUDA_VISIBLE_DEVICES", "-1")
            .env_remove("LD_LIBRARY_PATH");
        let output = run(&mut command, Duration::from_secs(120));
        (output.status.code(), text(&output))
    };
    let (code, text) = say(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("run.sh --sim` runs it on the simulated"),
        "{text}"
    );
    let (code, text) = say(&["--simulated"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--simulated means nothing"), "{text}");
}

#[test]
fn two_containers_under_a_daemon_get_what_the_configuration_says() {
    let mut command = Command::new(workspace().join("examples/daemon/run.sh"));
    command
        .arg("--sim")
        .env("DIST", &artefacts().root)
        .env("GPU_SIM_DEVICES", "4GiB");
    let output = run(&mut command, Duration::from_secs(120));
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    let (alice, rest) = text.split_once("bob:").unwrap();
    let (bob, changed) = rest.split_once("set alice").unwrap();
    assert!(alice.contains("shows 1024 MiB"), "{text}");
    assert!(bob.contains("shows 2048 MiB"), "{text}");
    assert!(changed.contains("shows 1536 MiB"), "{text}");
    // `why` tells of both refusals.
    let (_, why) = changed.rsplit_once("alice").unwrap();
    assert!(why.contains("256"), "{text}");
}

#[test]
fn the_demo_holds_every_quota() {
    let artefacts = artefacts();
    if artefacts.release {
        return; // the demo builds and runs the artefacts of this checkout
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "demo",
            "--sim",
            // Shares are promised over seconds.
            "--seconds",
            "5",
        ])
        .current_dir(workspace())
        .env_remove("RUSTFLAGS");
    let output = run(&mut command, Duration::from_secs(900));
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for said in [
        "Summary (simulated GPU",
        "both at once",
        "5/5 refused",
        "no tenant held a byte more",
        "its own context too, counted as 0.39 GiB",
    ] {
        assert!(text.contains(said), "{said:?} is missing: {text}");
    }
    // What the last row of the table counts is what the summary counts.
    let row = text
        .lines()
        .find(|line| line.contains("over quota  "))
        .unwrap();
    assert_eq!(row.matches(", 5 refused").count(), 2, "{row}");
    assert!(!text.contains("FAILS") && !text.contains('\x1b'), "{text}");
}
