//! The examples with container runtimes: Podman's is run, the compose files name devices that there are.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use quota_tests::podman::{Podman, text};
use quota_tests::{artefacts, is_root, workspace};

#[test]
fn podman_gives_two_containers_their_quotas() {
    if !is_root() {
        return println!("skipped: the daemon publishes in /var/run/cdi, which needs root");
    }
    let podman = match Podman::new(None, &[], "/:O") {
        Ok(podman) => podman,
        Err(why) => return println!("skipped: {why}"),
    };
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=10", "120"])
        .arg(workspace().join("examples/podman/run.sh"))
        .arg("--sim")
        .env("DIST", &artefacts().root)
        .env("GPU_SIM_DEVICES", "4GiB")
        .env("PODMAN", podman.words_for_a_shell())
        .stdin(Stdio::null());
    for (name, value) in podman.variables() {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    let text = text(&output);
    println!("{text}");
    assert!(output.status.success(), "{text}");
    let (list, rest) = text.split_once("alice:\n").unwrap();
    assert_eq!(list.matches("  served  ").count(), 2, "{text}");
    let (alice, rest) = rest.split_once("bob:\n").unwrap();
    let (bob, exec) = rest.split_once("alice, by podman exec").unwrap();
    assert!(alice.contains("shows 1024 MiB"), "{text}");
    assert!(bob.contains("shows 2048 MiB"), "{text}");
    assert!(exec.contains("shows 1024 MiB"), "{text}");
}

/// The devices that a text names.
fn devices(text: &str) -> BTreeSet<String> {
    let named = text.split_whitespace();
    let named = named.filter(|word| word.starts_with("gpu-quota.io/container="));
    named.map(String::from).collect()
}

#[test]
fn compose_files_name_devices_of_the_configuration() {
    let config = workspace().join("examples/podman/config.toml");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(&artefacts().daemon);
    command.args(["cdi", "generate", "--config"]).arg(config);
    command.arg("--shim").arg(&artefacts().shim);
    command.arg("--output").arg(folder.path()).env_clear();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let there = devices(&text(&output));
    assert_eq!(there.len(), 2);
    for example in ["podman", "docker"] {
        let file = workspace()
            .join("examples")
            .join(example)
            .join("compose.yaml");
        assert_eq!(
            devices(&std::fs::read_to_string(file).unwrap()),
            there,
            "{example}"
        );
    }
}
