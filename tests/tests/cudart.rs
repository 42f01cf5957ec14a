//! NVIDIA's own runtime library over its own driver library, bare and under the shim. Without a GPU
//! both end in an error, and it must be the same one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::fs;
use std::path::PathBuf;

use quota_tests::{Client, Sim, real_drivers, workspace};

/// What `replay/fetch-cudart.sh` put under `target/`.
fn runtimes() -> Vec<(String, PathBuf)> {
    let required = std::env::var_os("GPU_QUOTA_TEST_REAL").is_some();
    let mut found = Vec::new();
    for version in ["11.8", "12", "13"] {
        let dir = workspace().join("target/cudart").join(version);
        let library = fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_string_lossy().contains("libcudart.so."));
        match library {
            Some(library) => found.push((version.into(), library.canonicalize().unwrap())),
            None => {
                assert!(!required, "{} holds no libcudart", dir.display());
                println!("skipped: no libcudart {version}; tests/replay/fetch-cudart.sh gets it");
            }
        }
    }
    found
}

/// Runs the runtime bare and under the shim, and returns what both printed.
fn same_words(what: &str, client: &dyn Fn() -> Client) -> String {
    let bare = client().bare().run();
    let shimmed = client().memory("1GiB").compute("50%").run();
    assert_eq!(shimmed.stdout, bare.stdout, "{what}");
    assert_eq!(shimmed.stderr, bare.stderr, "{what}");
    assert_eq!(shimmed.status, bare.status, "{what}");
    let count = bare
        .stdout
        .lines()
        .find(|line| line.starts_with("device count"))
        .unwrap_or("no answer");
    println!("{what}: bare and shimmed alike: {count}");
    bare.stdout
}

/// Row 26: the driver's code, not another one.
#[test]
fn runtime_over_the_real_driver_library() {
    for (branch, dir) in real_drivers() {
        for (version, runtime) in runtimes() {
            let sim = Sim::new();
            let what = format!("libcudart {version} over driver {branch}");
            let words = same_words(&what, &|| sim.client("cudart").arg(&runtime).driver(&dir));
            assert!(words.contains("device count: "), "{what}: {words}");
        }
    }
}

#[test]
fn runtime_with_no_driver_at_all() {
    for (version, runtime) in runtimes() {
        let sim = Sim::new();
        let what = format!("libcudart {version} with no driver");
        let words = same_words(&what, &|| sim.client("cudart").arg(&runtime).no_driver());
        assert!(
            words.contains("device count: 35 "),
            "cudaErrorInsufficientDriver: {words}"
        );
    }
}

/// The runtime needs NVIDIA's private tables, which the simulator does not have: it must fail alike.
#[test]
fn runtime_over_the_simulator() {
    for (version, runtime) in runtimes() {
        let sim = Sim::new();
        let client = || sim.client("cudart").arg(&runtime).watchdog(60);
        let bare = client().bare().run();
        let shimmed = client().run();
        println!(
            "libcudart {version} over the simulator: {}",
            bare.stdout.replace('\n', "; ")
        );
        assert_eq!(
            (shimmed.stdout, shimmed.status),
            (bare.stdout, bare.status),
            "libcudart {version}"
        );
    }
}
