//! Whose memory it is: processes that come to be and end in unusual ways, pids that are used again, pid namespaces. The
//! region's own words are looked at.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::ffi::CString;
use std::path::Path;

use quota_abi::region::Mapped;
use quota_abi::{devices, slots};
use quota_tests::{Client, GIB, MIB, Running, Sim, is_root, program};

const HELD: u64 = 512 * MIB;

fn quota(client: Client) -> Client {
    client.memory("1GiB").free_context()
}

fn ends(sim: &Sim, way: &[&str]) -> Client {
    quota(sim.client("ends").args(way))
}

/// One that holds, waiting.
fn holder(sim: &Sim) -> Running {
    let mut client = ends(sim, &["hold"]).spawn();
    client.line("ready");
    client
}

fn region(sim: &Sim) -> Mapped {
    let path = CString::new(sim.region().to_str().unwrap()).unwrap();
    Mapped::open(&path).unwrap().unwrap()
}

/// Bytes that the region says are held, and by how many processes.
fn words(sim: &Sim) -> (u64, usize) {
    let region = region(sim);
    let usage = devices::ledger(&region, 0).unwrap().usage();
    (usage, slots::owners(&region).count())
}

/// All of the quota goes to the next process, and then is all that the region says is held.
#[track_caller]
fn all_is_left(sim: &Sim) {
    let mut next = quota(sim.client("hold").arg("1024")).spawn();
    assert_eq!(next.line("result"), "result=0", "something is held still");
    assert_eq!(words(sim), (GIB, 1));
    assert_eq!(sim.account().devices[0].requested, GIB);
    let _ = next.finish().ok();
}

#[test]
fn one_that_leaves_by_exit_leaves_nothing() {
    let sim = Sim::new();
    let _ = ends(&sim, &["exit"]).run().ok();
    assert_eq!(
        words(&sim),
        (HELD, 1),
        "nobody has looked: nothing is done at exit"
    );
    all_is_left(&sim);
}

/// A zombie leader with living threads is alive.
#[test]
fn one_whose_first_thread_has_ended_goes_on_holding() {
    let sim = Sim::new();
    let mut client = ends(&sim, &["thread_exit"]).spawn();
    assert_eq!(client.line("free"), "free=512");
    client.line("ready");
    let next = quota(sim.client("hold").arg("513")).run().ok();
    assert_eq!(next.number("result"), 2);
    assert_eq!(words(&sim).0, HELD);
    client.kill();
    all_is_left(&sim);
}

#[test]
fn a_child_that_outlives_its_parent_holds_nothing() {
    let sim = Sim::new();
    // Its end would end the orphan too: it is kept.
    let mut parent = ends(&sim, &["orphan"]).spawn();
    let orphan: u32 = parent.line("child=")["child=".len()..].parse().unwrap();
    all_is_left(&sim);
    assert!(Path::new(&format!("/proc/{orphan}")).exists());
    parent.kill();
}

#[test]
fn one_that_became_a_program_without_gpu_holds_nothing() {
    let sim = Sim::new();
    let mut client = ends(&sim, &["become", "/bin/sleep", "100"]).spawn();
    client.line("becoming");
    let exe = format!("/proc/{}/exe", client.pid());
    while !std::fs::read_link(&exe).is_ok_and(|path| path.ends_with("sleep")) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    all_is_left(&sim);
    client.kill();
}

#[test]
fn a_raw_clone_has_a_slot_of_its_own() {
    let sim = Sim::new();
    let client = ends(&sim, &["clone"]).run().ok();
    assert_eq!(client.number("child"), 512);
    assert_eq!(client.number("parent"), 0, "512 MiB of 1 GiB, in each");
    all_is_left(&sim);
}

#[test]
fn a_clone_that_shares_memory_is_its_parent() {
    let sim = Sim::new();
    let mut client = ends(&sim, &["clone_vm"]).spawn();
    assert_eq!(client.line("free"), "free=256");
    client.line("ready");
    assert_eq!(words(&sim), (HELD + 256 * MIB, 1));
    client.kill();
    all_is_left(&sim);
}

#[test]
fn a_container_whose_processes_all_die_starts_again_with_all() {
    let sim = Sim::new();
    let mut clients: Vec<_> = (0..8)
        .map(|_| quota(sim.client("hold").arg("128")).spawn())
        .collect();
    for client in &mut clients {
        assert_eq!(client.line("result"), "result=0");
    }
    for client in &mut clients {
        client.kill();
    }
    assert_eq!(words(&sim), (GIB, 8));
    all_is_left(&sim);
}

/// The pid of a dead holder belongs to another process now, which is taken for the holder by nobody.
#[test]
fn a_pid_that_is_used_again() {
    let sim = Sim::new();
    let mut dead = holder(&sim);
    let pid = dead.pid().to_string();
    dead.kill();
    // Start times are told in hundredths of a second.
    std::thread::sleep(std::time::Duration::from_millis(30));
    let mut other = ends(&sim, &["reuse", &pid]).spawn();
    if other.line("reuse") != "reuse=1" {
        println!("skipped: pid {pid} cannot be given to another process here");
        return;
    }
    assert_eq!(words(&sim), (HELD, 1));
    all_is_left(&sim);
    let _ = other.finish().ok();
}

/// As a client of `unshare --pid`: process 1 of a namespace of its own.
fn apart(sim: &Sim, way: &str) -> Option<Running> {
    let unshare = Path::new("/usr/bin/unshare");
    let works = is_root()
        && std::process::Command::new(unshare)
            .args(["--pid", "--fork", "--mount-proc", "true"])
            .output()
            .is_ok_and(|done| done.status.success());
    if !works {
        println!("skipped: no pid namespace can be made here");
        return None;
    }
    let program = program("ends");
    let client = quota(sim.command(unshare))
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(program)
        .arg(way);
    Some(client.spawn())
}

/// Two namespaces in one group, in which pids mean nothing to each other: one limit, and the dead are cleared up by their own.
#[test]
fn two_pid_namespaces_share_a_quota() {
    let sim = Sim::new();
    let Some(mut inner) = apart(&sim, "shell") else {
        return;
    };
    // 512 MiB are held, 600 more do not fit; when their holder is dead they do.
    assert_eq!(inner.line("beside"), "beside=2");
    assert_eq!(inner.line("after"), "after=0");
    inner.line("ready");
    assert_eq!(words(&sim), (600 * MIB, 1));
    let next = quota(sim.client("hold").arg("425")).run().ok();
    assert_eq!(
        next.number("result"),
        2,
        "600 of 1024 MiB are held in the other"
    );
    let next = quota(sim.client("hold").arg("424")).run().ok();
    assert_eq!(next.number("result"), 0);
    inner.kill();
}

/// Who cannot tell whether a process lives takes it for alive: pid 1 of another namespace is not pid 1 here.
#[test]
fn the_dead_of_another_namespace_stay_until_one_of_theirs_looks() {
    let sim = Sim::new();
    let Some(mut inner) = apart(&sim, "hold") else {
        return;
    };
    inner.line("ready");
    inner.kill();
    let next = quota(sim.client("hold").arg("513")).run().ok();
    assert_eq!(next.number("result"), 2);
    assert_eq!(words(&sim).0, HELD, "in doubt it is alive");
}

/// Process 1 here and process 1 there, started at any time, are two.
#[test]
fn processes_of_the_same_pid_in_two_namespaces_are_two() {
    let sim = Sim::new();
    let (Some(mut one), Some(mut two)) = (apart(&sim, "hold"), apart(&sim, "hold")) else {
        return;
    };
    one.line("ready");
    two.line("ready");
    assert_eq!(words(&sim), (GIB, 2));
    let next = quota(sim.client("hold").arg("1")).run().ok();
    assert_eq!(next.number("result"), 2);
}
