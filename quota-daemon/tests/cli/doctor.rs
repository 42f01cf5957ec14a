//! `doctor` as scripts use it, without a GPU or a driver.

use crate::serving::Daemon;
use crate::support::{daemon, out};

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
fn doctor_tells_a_misspelt_variable_and_what_was_meant() {
    let report = |name: &str| {
        let output = daemon().arg("doctor").env(name, "1GiB").output().unwrap();
        out(&output)
    };
    let text = report("GPU_QUOTA_MEMORI");
    assert!(text.contains("warn  settings  GPU_QUOTA_MEMORI"), "{text}");
    assert!(text.contains("-> it is spelt GPU_QUOTA_MEMORY\n"), "{text}");
    let text = report("CUDA_DEVICE_MEMORY_LIMIT_0");
    assert!(!text.contains("warn  settings"), "{text}");
}

#[test]
fn doctor_names_the_variables_that_decide() {
    let mut command = daemon();
    command
        .arg("doctor")
        .env("GPU_QUOTA_MEMORY", "1GiB")
        .env("CUDA_DEVICE_MEMORY_LIMIT", "2g")
        .env("CUDA_DEVICE_SM_LIMIT_0", "30");
    let text = out(&command.output().unwrap());
    let gets = "gets CUDA_DEVICE_SM_LIMIT_0=30 GPU_QUOTA_MEMORY=1GiB\n";
    assert!(text.contains(gets), "{text}");
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
fn doctor_asks_the_daemon_that_rules_here() {
    let mut place = Daemon::start();
    let socket = place.state().join("containers/a/attach.sock");
    let report = |command: &mut std::process::Command| {
        let output = command.env("GPU_QUOTA_SOCKET", &socket).output().unwrap();
        (output.status.code(), out(&output))
    };
    let (_, text) = report(&mut place.command(&["doctor"]));
    let ruled = format!(
        "ok    daemon    a program started here is in container a, by {}",
        socket.display()
    );
    assert!(text.contains(&ruled), "{text}");
    assert!(text.contains("ok    control   daemon "), "{text}");
    assert!(
        text.contains(", pid ") && text.contains("1 container, "),
        "{text}"
    );
    // There is no GPU here, and so none that the container may use.
    assert!(
        text.contains("warn  policy    container a may use no device"),
        "{text}"
    );
    assert!(
        text.contains("settings  no variable sets a limit: the daemon's policy holds alone"),
        "{text}"
    );
    assert!(
        !text.contains("  group ") && !text.contains("  shm "),
        "{text}"
    );

    place.child.kill().unwrap();
    place.child.wait().unwrap();
    let (code, text) = report(&mut place.command(&["doctor"]));
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("FAIL  daemon "), "{text}");
    assert!(text.contains("warn  control   no daemon at "), "{text}");
}
