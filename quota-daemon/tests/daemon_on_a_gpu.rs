//! The built program as a daemon on the simulated GPU, and the commands that ask it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use quota_tests::{Client, Finished, Running, Sim, artefacts, program};

/// A daemon with one container of 4 GiB and 30 %, which ends with the test.
struct Place {
    sim: Sim,
    folder: tempfile::TempDir,
    _serving: Running,
}

const CONFIG: &str =
    "[[container]]\nname = \"a\"\nmemory = \"4GiB\"\ncompute = \"30%\"\ncontext = 0\n";

impl Place {
    fn new() -> Self {
        let (sim, folder) = (Sim::new(), tempfile::tempdir().unwrap());
        let config = folder.path().join("config.toml");
        std::fs::write(&config, CONFIG).unwrap();
        let serving = sim
            .command(&artefacts().daemon)
            .bare()
            .args(["serve", "--no-mount", "--config"])
            .arg(&config)
            .arg("--state")
            .arg(folder.path().join("state"))
            .spawn();
        let place = Self {
            sim,
            folder,
            _serving: serving,
        };
        let begin = Instant::now();
        while !place.ask(&["status"]).success() {
            assert!(begin.elapsed() < Duration::from_secs(60), "no daemon");
            std::thread::sleep(Duration::from_millis(20));
        }
        place
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn command(&self, words: &[&str]) -> Client {
        let client = self.sim.command(&artefacts().daemon).bare();
        let client = client.without("GPU_QUOTA_GROUP");
        client.args(words).env("GPU_QUOTA_STATE", self.state())
    }

    fn ask(&self, words: &[&str]) -> Finished {
        self.command(words).run()
    }

    fn json(&self, words: &[&str]) -> serde_json::Value {
        let finished = self.command(words).arg("--json").run().ok();
        serde_json::from_str(&finished.stdout).unwrap()
    }
}

#[test]
fn a_refusal_is_explained_with_its_arithmetic() {
    let place = Place::new();
    let mut first = place
        .command(&["run", "--container", "a", "--"])
        .arg(program("hold"))
        .arg("3000")
        .spawn();
    first.line("ready");
    let second = place
        .command(&["run", "--container", "a", "--"])
        .arg(program("hold"))
        .arg("2000")
        .run();
    assert_eq!(second.number("result"), 2, "{second:?}");
    let text = place.ask(&["why", "a"]).ok().stdout;
    // What NVML finds beyond the ledger comes off the 4 GiB within a second, or has not yet.
    for part in [
        "asked 1.95 GiB; the container held 2.92 GiB of ",
        " (0 B this process, 2.92 GiB others), so ",
        "iB short\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let why = place.json(&["why", "a"]);
    assert_eq!(why["refusals"][0]["asked_bytes"], 2000_u64 << 20, "{why}");
    let ps = place.json(&["ps", "a"]);
    assert_eq!(ps[0]["pid"], first.pid(), "{ps}");
    assert_eq!(ps[0]["memory"][0]["ledger_bytes"], 3000_u64 << 20, "{ps}");
    let status = place.ask(&["status"]).ok().stdout;
    assert!(status.contains("2.92 GiB  4 GiB"), "{status}");
}

#[test]
fn a_run_of_its_own_is_limited_and_changed_live() {
    let place = Place::new();
    let mut running = place
        .command(&[
            "run",
            "--daemon",
            "--memory",
            "1GiB",
            "--context",
            "0",
            "--",
        ])
        .arg(program("hold"))
        .arg("600")
        .spawn();
    running.line("ready");
    let ps = place.json(&["ps"]);
    let name = ps[0]["container"].as_str().unwrap();
    assert_eq!(ps[0]["pid"], running.pid(), "{ps}");
    let another = || {
        let run = place.command(&["run", "--container", name, "--"]);
        run.arg(program("hold")).arg("600").run().number("result")
    };
    assert_eq!(another(), 2, "the container is full");
    let set = place.json(&["set", name, "--memory", "2GiB"]);
    assert_eq!(set["devices"][0]["memory_limit_bytes"], 2_u64 << 30);
    assert_eq!(another(), 0, "it has been given more");
}

#[test]
fn doctor_shows_the_policy_and_what_a_program_sees_of_it() {
    let place = Place::new();
    let socket = place.state().join("containers/a/attach.sock");
    let doctor = |memory: Option<&str>| {
        let mut client = place.command(&["doctor"]).env("GPU_QUOTA_SOCKET", &socket);
        if let Some(memory) = memory {
            client = client.memory(memory);
        }
        client.run()
    };
    let finished = doctor(None);
    let text = &finished.stdout;
    assert!(finished.success(), "{text}");
    assert!(text.contains("is in container a, by "), "{text}");
    assert!(text.contains(": 4 GiB, 30 % of its time"), "{text}");
    assert!(text.contains("shows 4 GiB of 24 GiB under"), "{text}");
    assert!(
        text.contains("gives 30 % of its time by the daemon's policy"),
        "{text}"
    );
    let lowered = doctor(Some("1GiB")).stdout;
    assert!(lowered.contains("shows 1 GiB of 24 GiB under"), "{lowered}");
    assert!(
        lowered.contains("lower what the daemon's policy gives"),
        "{lowered}"
    );
    let raised = doctor(Some("8GiB")).stdout;
    assert!(raised.contains("shows 4 GiB of 24 GiB under"), "{raised}");
    assert!(
        raised.contains("than the daemon's policy gives, which holds"),
        "{raised}"
    );
}
