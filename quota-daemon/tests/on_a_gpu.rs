//! The built program with the built library on the simulated GPU.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::{Client, Finished, Sim, artefacts, program};

/// `quota-daemon` as a user has it: nothing preloaded into itself.
fn daemon(sim: &Sim) -> Client {
    sim.command(&artefacts().daemon).bare()
}

fn doctor(client: Client) -> (Finished, serde_json::Value) {
    let finished = client.arg("doctor").arg("--json").run();
    let report = serde_json::from_str(&finished.stdout).unwrap_or_else(|e| {
        panic!("{e}: {finished:?}");
    });
    (finished, report)
}

/// The findings of one check, as `status: text` lines.
fn findings(report: &serde_json::Value, check: &str) -> String {
    let all = report["findings"].as_array().unwrap().iter();
    let lines = all
        .filter(|finding| finding["check"] == check)
        .map(|finding| {
            format!(
                "{}: {}\n",
                finding["status"].as_str().unwrap(),
                finding["text"].as_str().unwrap()
            )
        });
    lines.collect()
}

#[test]
fn run_limits_a_program() {
    let sim = Sim::new();
    let finished = daemon(&sim)
        .args([
            "run",
            "--memory",
            "1GiB",
            "--context",
            "0",
            "--compute",
            "50%",
        ])
        .args(["--group", &sim.group("run"), "--"])
        .arg(program("hold"))
        .arg("1025")
        .run()
        .ok();
    assert_eq!(finished.number("result"), 2, "{finished:?}");
}

#[test]
fn two_runs_without_a_name_do_not_share() {
    let sim = Sim::new();
    let hold = || {
        daemon(&sim)
            .without("GPU_QUOTA_GROUP")
            .args(["run", "--memory", "1GiB", "--context", "0", "--"])
            .arg(program("hold"))
            .arg("1024")
            .spawn()
    };
    let (mut one, mut two) = (hold(), hold());
    for running in [&mut one, &mut two] {
        running.line("ready");
        sim.adopt(running);
    }
    for running in [one, two] {
        assert_eq!(running.finish().ok().number("result"), 0);
    }
}

#[test]
fn doctor_is_content_where_everything_works() {
    let sim = Sim::new();
    let (finished, report) = doctor(daemon(&sim).memory("1GiB").compute("30%"));
    assert!(finished.success(), "{finished:?}");
    assert_eq!(report["ok"], true);
    assert!(
        findings(&report, "driver").contains("libcuda.so.1"),
        "{report}"
    );
    assert!(findings(&report, "gpu").contains("24 GiB"), "{report}");
    assert!(findings(&report, "nvml").starts_with("ok"), "{report}");
    let limited = findings(&report, "limited");
    assert!(
        limited.starts_with("ok") && limited.contains("1 GiB of 24 GiB"),
        "{limited}"
    );
    assert!(limited.contains("at most 30 % of its time"), "{limited}");
}

#[test]
fn doctor_tells_a_limit_of_time_alone_and_one_of_memory_that_limits_nothing() {
    let sim = Sim::new();
    let (_, report) = doctor(daemon(&sim).compute("30%"));
    let limited = findings(&report, "limited");
    assert!(limited.contains("at most 30 % of its time"), "{limited}");
    assert!(limited.contains("no memory limit"), "{limited}");
    let (finished, report) = doctor(daemon(&sim).memory("40GiB"));
    let limited = findings(&report, "limited");
    assert!(limited.starts_with("warning"), "{limited}");
    assert!(limited.contains("40 GiB is more"), "{limited}");
    assert!(finished.success(), "{finished:?}");
}

#[test]
fn doctor_leaves_nothing_behind() {
    let sim = Sim::new();
    let group = sim.group("untouched");
    let client = daemon(&sim).env("GPU_QUOTA_GROUP", &group).memory("1GiB");
    let (finished, report) = doctor(client);
    assert!(
        findings(&report, "group").contains("has started yet"),
        "{report}"
    );
    for name in [group, format!("doctor-{}", finished.pid)] {
        let region = quota_abi::group::Group::named(&name)
            .path()
            .into_string()
            .unwrap();
        assert!(
            !std::path::Path::new(&region).exists(),
            "{name} is left behind"
        );
    }
}

#[test]
fn doctor_shows_who_is_in_the_group_and_what_is_held() {
    let sim = Sim::new();
    let mut member = sim
        .client("hold")
        .arg("100")
        .memory("1GiB")
        .free_context()
        .spawn();
    member.line("ready");
    let (_, report) = doctor(daemon(&sim).memory("1GiB"));
    let group = findings(&report, "group");
    assert!(
        group.contains(&format!("1 process: pid {}", member.pid())),
        "{group}"
    );
    assert!(
        group.contains("100 MiB of 1 GiB held, 0 requests refused"),
        "{group}"
    );
}

#[test]
fn doctor_tells_a_driver_without_devices() {
    let sim = Sim::new();
    let (finished, report) = doctor(daemon(&sim).env("CUDA_VISIBLE_DEVICES", "-1"));
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(
        findings(&report, "driver").contains("no device"),
        "{report}"
    );
}

#[test]
fn doctor_tells_that_there_is_no_driver() {
    let sim = Sim::new();
    let (finished, report) = doctor(daemon(&sim).no_driver());
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(
        findings(&report, "driver").contains("libcuda.so.1"),
        "{report}"
    );
    // The simulator's own folder, which lies beside the library's.
    let simulator = format!("export LD_LIBRARY_PATH={}", artefacts().sim.display());
    assert!(finished.stdout.contains(&simulator), "{finished:?}");
}

#[test]
fn doctor_tells_a_region_that_is_none() {
    let sim = Sim::new();
    let group = sim.group("garbage");
    let region = quota_abi::group::Group::named(&group)
        .path()
        .into_string()
        .unwrap();
    std::fs::write(&region, "not a region").unwrap();
    let (finished, report) = doctor(daemon(&sim).env("GPU_QUOTA_GROUP", &group).memory("1GiB"));
    std::fs::remove_file(&region).unwrap();
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    let text = findings(&report, "group");
    assert!(
        text.starts_with("failure") && text.contains(&region),
        "{text}"
    );
}
