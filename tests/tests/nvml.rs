//! NVML shows the quota, and agrees with the driver.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use quota_tests::Sim;

/// Row 41: both surfaces are cut to the quota, by the same account.
#[test]
fn memory_info_agrees_with_the_driver() {
    let sim = Sim::new();
    let client = sim
        .client("nvml_view")
        .memory("1GiB")
        .free_context()
        .run()
        .ok();
    let lines: Vec<&str> = client.stdout.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "before CUDA: v1 total 1024 free 1024, v2 total 1024 free 1024",
            "begin: v1 total 1024 free 1024, v2 total 1024 free 1024, driver total 1024 free 1024",
            "held: v1 total 1024 free 256, v2 total 1024 free 256, driver total 1024 free 256",
            "ready",
        ]
    );
    assert!(
        lines[4].starts_with("freed: v1 total 1024 free 1024, v2 total 1024 free 1024"),
        "{}",
        client.stdout
    );
    assert_eq!(client.stderr, "");
}

/// A viewer in another process of the group, which makes no CUDA call, sees what the group holds.
#[test]
fn a_viewer_sees_what_its_group_holds() {
    let sim = Sim::new();
    let mut holder = sim
        .client("hold")
        .arg("512")
        .memory("1GiB")
        .free_context()
        .spawn();
    assert_eq!(holder.line("result"), "result=0");
    let viewer = sim.client("nvml_view").memory("1GiB").free_context().run();
    assert_eq!(
        viewer.stdout.lines().next(),
        Some("before CUDA: v1 total 1024 free 512, v2 total 1024 free 512"),
        "{viewer:?}"
    );
    let _ = holder.finish().ok();
}

#[test]
fn odd_arguments_get_nvmls_answer() {
    let run = |bare: bool| {
        let sim = Sim::new();
        let client = sim
            .client("nvml_view")
            .memory("1GiB")
            .free_context()
            .bare_if(bare)
            .run()
            .ok();
        client
            .stdout
            .lines()
            .rev()
            .take(3)
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let bare = run(true);
    assert!(bare[0].starts_with("odd version: "), "{bare:?}");
    assert_eq!(run(false), bare);
}

#[test]
fn without_a_quota_nvml_is_untouched() {
    let run = |bare: bool| {
        let sim = Sim::new();
        sim.client("nvml_view").bare_if(bare).run().ok().stdout
    };
    assert_eq!(run(false), run(true));
}
