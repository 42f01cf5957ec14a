//! In a process that makes no CUDA call nothing differs for the library being there, and in one that
//! runs with another user's rights it does nothing at all.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use quota_tests::{Client, Sim, artefacts, is_root, library, program, workspace};

/// Settings that would make the shim do something, were there a CUDA call.
fn loud(client: Client, log: &Path) -> Client {
    client
        .memory("1GiB")
        .compute("30%")
        .env("GPU_QUOTA_LOG", "debug")
        .env("GPU_QUOTA_LOG_FILE", log)
        // Otherwise only a client with the shim is given one.
        .env("GPU_SIM_TENANT", "inert")
}

/// Descriptors, threads, signal handlers, masks, mapped files, variables, limits: all as without.
#[test]
fn a_program_without_cuda_is_left_alone() {
    let sim = Sim::new();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let bare = loud(sim.client("inert"), &log).bare().run().ok();
    let preloaded = loud(sim.client("inert"), &log).run().ok();
    assert!(
        bare.stdout.lines().count() > 40,
        "the program says too little: {}",
        bare.stdout
    );
    assert_eq!(
        without_runtime_parts(&preloaded.stdout),
        without_runtime_parts(&bare.stdout)
    );
    assert_eq!(preloaded.stderr, "");
    assert!(!log.exists(), "a log file was made");
}

/// The list of mapped files without parts of the C library itself, which the shim may need more of
/// than the program.
fn without_runtime_parts(text: &str) -> Vec<&str> {
    let part = |line: &str| {
        ["/libdl.so", "/libpthread.so", "/libm.so", "/librt.so"]
            .iter()
            .any(|name| line.contains(name))
    };
    text.lines()
        .filter(|line| !(line.starts_with("mapped ") && part(line)))
        .collect()
}

/// What the process asks of the kernel, by strace: apart from loading one more library, and memory
/// of its own, the same calls with the same arguments.
#[test]
fn a_program_without_cuda_makes_no_system_call_more() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: no strace on this machine");
        return;
    }
    let sim = Sim::new();
    let dir = tempfile::tempdir().unwrap();
    let shim = artefacts().shim.display().to_string();
    let calls = |preload: bool| {
        let trace = dir.path().join(if preload { "preloaded" } else { "bare" });
        let mut client = loud(
            sim.command(Path::new("/usr/bin/env")),
            &dir.path().join("log"),
        )
        .bare();
        client = client
            .args(["strace", "-f", "-qq", "-v", "-s", "200", "-o"])
            .arg(&trace);
        if preload {
            client = client.args(["-E", &format!("LD_PRELOAD={shim}")]);
        }
        let _ = client.arg(program("inert")).run().ok();
        let mut counts = BTreeMap::new();
        for line in std::fs::read_to_string(trace).unwrap().lines() {
            let ours = line.contains("libquota_shim");
            match call_name(line) {
                // Which files are opened counts; that one more is, and read, is the library itself.
                Some(call @ ("openat" | "open" | "openat2")) if !ours => {
                    let file = line.split('"').nth(1).unwrap_or_default();
                    *counts.entry(format!("{call} {file}")).or_insert(0) += 1;
                }
                Some(call) if !ours && !matters_not(call) => {
                    *counts.entry(call.to_string()).or_insert(0) += 1;
                }
                _ => {}
            }
        }
        counts
    };
    let (bare, preloaded) = (calls(false), calls(true));
    assert!(bare.len() > 10, "strace showed too little: {bare:?}");
    assert_eq!(preloaded, bare);
    assert!(!dir.path().join("log").exists());
}

/// The name of the system call of a line of strace's.
fn call_name(line: &str) -> Option<&str> {
    let (head, _) = line.split_once('(')?;
    head.split_whitespace().next_back()
}

/// Calls by which a library is loaded, and memory of its own is got.
fn matters_not(call: &str) -> bool {
    [
        "mmap",
        "munmap",
        "mprotect",
        "madvise",
        "brk",
        "read",
        "pread64",
        "close",
        "fstat",
        "newfstatat",
        "execve",
        "write",
    ]
    .contains(&call)
}

#[test]
fn plain_programs_start_with_no_driver_installed() {
    let sim = Sim::new();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let run = |bare: bool, script: &str| {
        let client = loud(sim.command(Path::new("/bin/sh")), &log)
            .no_driver()
            .args(["-c", script]);
        let finished = client.bare_if(bare).run();
        (finished.stdout, finished.stderr, finished.status.code())
    };
    for script in [
        "exec /bin/true",
        "exec /bin/false",
        "echo one | cat; echo two >&2; (exit 7)",
        "umask; ulimit -a; trap",
        "id -u",
    ] {
        assert_eq!(run(false, script), run(true, script), "{script}");
    }
    assert!(!log.exists());
    assert!(!sim.region().exists(), "a region was made");
}

/// Exporting the driver's names must not make a driver appear to exist.
#[test]
fn no_driver_appears_where_none_is() {
    let sim = Sim::new();
    for with_driver_in_path in [false, true] {
        let run = |bare: bool| {
            let client = sim.client("no_driver_seen").memory("1GiB").bare_if(bare);
            let client = if with_driver_in_path {
                client
            } else {
                client.no_driver()
            };
            client.run().ok().stdout
        };
        let bare = run(true);
        assert!(
            bare.contains("weak cuInit: absent") && bare.contains("own handle puts: there"),
            "{bare}"
        );
        assert_eq!(run(false), bare);
    }
}

/// A linked call with no driver: an answer, not a crash.
#[test]
fn a_linked_call_without_a_driver_is_answered() {
    let sim = Sim::new();
    let client = sim
        .client("linked_without_driver")
        .arg(library("driver_user"))
        .no_driver()
        .memory("1GiB")
        .run()
        .ok();
    assert_eq!(
        client.stdout, "cuInit: 303\ncuMemAlloc: 303\n",
        "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED"
    );
}

#[test]
fn a_setuid_program_reads_no_variable_and_opens_no_file() {
    if !is_root() {
        println!("skipped: needs root, for another user's program and a mount namespace");
        return;
    }
    let dir = tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh"])
        .arg(workspace().join("tests/programs/setuid.sh"))
        .arg(dir.path())
        .arg(&artefacts().shim)
        .arg(&artefacts().sim)
        .arg(program("init"))
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return println!("skipped: no unshare on this machine: {error}"),
    };
    let (said, complaint) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if complaint.contains("unshare failed") || complaint.contains("mount:") {
        return println!("skipped: no mount namespace here: {complaint}");
    }
    assert!(output.status.success(), "{said}{complaint}");
    // The same file without the setuid bit is limited: the library is in its reach.
    assert!(
        said.contains("plain: total0=1073741824\n"),
        "{said}{complaint}"
    );
    assert!(said.contains("plain: wrote the log\n"), "{said}{complaint}");
    let of = |kind: &str| -> Vec<&str> {
        let lines = said.lines();
        lines.filter_map(|line| line.strip_prefix(kind)).collect()
    };
    // Whatever the simulated driver opens it opens without the library as well.
    assert_eq!(of("setuid: "), of("bare: "), "{said}{complaint}");
    assert!(of("setuid: ").contains(&"total0=25769803776"), "{said}");
}
