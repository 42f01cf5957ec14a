//! The file that a group's processes share where there is no daemon.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use quota_tests::{Client, GIB, Sim, is_root, program};

fn quota(client: Client) -> Client {
    client.memory("1GiB").free_context()
}

/// Users of one group share it, whatever the first one's umask was.
#[test]
fn everybody_may_use_it() {
    let sim = Sim::new();
    let script = format!("umask 077; exec {}", program("init").display());
    let client = quota(sim.command(Path::new("/bin/sh")).args(["-c", &script]));
    assert_eq!(client.run().ok().number("total0"), GIB);
    let mode = fs::metadata(sim.region()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o666);
}

#[test]
fn two_users_of_a_group_share_its_quota() {
    if !is_root() {
        println!("skipped: needs root, to be another user");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let everybody = |mode| PermissionsExt::from_mode(mode);
    fs::set_permissions(dir.path(), everybody(0o777)).unwrap();
    let machine = dir.path().join("simulation");
    let sim = Sim::new().with("GPU_SIM", machine.to_str().unwrap());
    let mut holder = quota(sim.client("hold").arg("768")).spawn();
    assert_eq!(holder.line("result"), "result=0");
    // The devices are the same ones for the other user.
    fs::set_permissions(&machine, everybody(0o666)).unwrap();
    let copy = dir.path().join("blocks");
    fs::copy(program("blocks_dlsym"), &copy).unwrap();
    let shim = dir.path().join("libquota_shim.so");
    fs::copy(&quota_tests::artefacts().shim, &shim).unwrap();
    let driver = dir.path().join("sim");
    fs::create_dir(&driver).unwrap();
    for name in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        fs::copy(quota_tests::artefacts().sim.join(name), driver.join(name)).unwrap();
    }
    let client = quota(sim.command(Path::new("/usr/bin/setpriv")).bare())
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"])
        .arg(format!("LD_PRELOAD={}", shim.display()))
        .arg(copy)
        .driver(&driver)
        .run()
        .ok();
    assert_eq!(
        (client.number("blocks"), client.number("result")),
        (1, 2),
        "768 of 1024 MiB are held"
    );
    let _ = holder.finish().ok();
}

/// What lies there and is none of ours, or of another version, is refused with its path and a mend.
#[track_caller]
fn is_refused(sim: &Sim) {
    let client = quota(sim.client("init")).watchdog(30).run().ok();
    assert_eq!(client.stdout, "init=800\n", "{client:?}");
    assert_eq!(client.stderr.lines().count(), 1, "{}", client.stderr);
    let path = sim.region().display().to_string();
    assert!(
        client.stderr.contains(&path) && client.stderr.contains("GPU_QUOTA_GROUP"),
        "{}",
        client.stderr
    );
}

#[test]
fn a_file_of_another_size_is_refused() {
    let sim = Sim::new();
    fs::write(sim.region(), b"not a region").unwrap();
    is_refused(&sim);
    assert_eq!(
        fs::read(sim.region()).unwrap(),
        b"not a region",
        "what is not ours stays as it is"
    );
}

#[test]
fn a_region_of_another_version_is_refused() {
    let sim = Sim::new();
    let _ = quota(sim.client("init")).run().ok();
    let mut bytes = fs::read(sim.region()).unwrap();
    assert!(bytes.len() >= 4096);
    for byte in &mut bytes[..16] {
        *byte ^= 0x55;
    }
    fs::write(sim.region(), bytes).unwrap();
    is_refused(&sim);
}

#[test]
fn something_else_under_its_name_is_refused() {
    let sim = Sim::new();
    fs::create_dir(sim.region()).unwrap();
    is_refused(&sim);
    fs::remove_dir(sim.region()).unwrap();
    // A link may lead anywhere: it is not followed.
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    std::os::unix::fs::symlink(&target, sim.region()).unwrap();
    is_refused(&sim);
    assert!(!target.exists());
}

/// Whoever makes no CUDA call makes no region.
#[test]
fn only_a_limited_process_makes_one() {
    let sim = Sim::new();
    let _ = quota(sim.client("inert")).run().ok();
    assert!(!sim.region().exists(), "without a CUDA call");
    let _ = quota(sim.client("init")).run().ok();
    assert!(sim.region().exists());
}
