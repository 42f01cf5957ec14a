//! Processes: how they come to be, how they end, and what is left of them in the account.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::time::{Duration, Instant};

use quota_tests::{Client, GIB, MIB, Sim, program};

fn quota(client: Client) -> Client {
    client.memory("1GiB").free_context()
}

/// The child's answers are the bare driver's, and the parent's account stays its own.
#[track_caller]
fn child_as_bare(way: &str) {
    let run = |bare: bool| {
        let sim = Sim::new();
        quota(sim.client("fork_child").arg(way))
            .bare_if(bare)
            .run()
            .ok()
    };
    let (bare, limited) = (run(true), run(false));
    let children = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| !line.starts_with("parent"))
            .map(String::from)
            .collect()
    };
    assert!(children(&bare.stdout).len() > 5, "{}", bare.stdout);
    assert_eq!(children(&limited.stdout), children(&bare.stdout), "{way}");
    assert_eq!(limited.stderr, bare.stderr);
    assert!(
        limited
            .stdout
            .contains("parent: free 512 MiB of 1024 MiB\nparent: done\n"),
        "{way}: {}",
        limited.stdout
    );
}

/// Row 23.
#[test]
fn a_forked_child() {
    child_as_bare("fork");
}

#[test]
fn a_child_by_raw_clone() {
    child_as_bare("clone");
}

#[test]
fn a_vforked_child_that_becomes_a_program() {
    child_as_bare("vfork_exec");
}

#[test]
fn a_daemonised_grandchild() {
    child_as_bare("daemon");
}

/// Row 48: several processes, one limit.
#[test]
fn workers_forked_before_cuda_share_the_quota() {
    let sim = Sim::new();
    let client = quota(sim.client("fork_workers").arg("8")).run().ok();
    let blocks: Vec<u64> = client
        .stdout
        .lines()
        .map(|line| line.strip_prefix("blocks ").unwrap().parse().unwrap())
        .collect();
    assert_eq!(blocks.len(), 8);
    assert_eq!(
        blocks.iter().sum::<u64>(),
        16,
        "64 MiB each, of 1 GiB: {blocks:?}"
    );
    assert!(sim.account().devices[0].peak_requested <= GIB);
}

/// The pid and its start time outlive an exec; what the old image held does not.
#[test]
fn exec_gives_the_memory_back() {
    let sim = Sim::new();
    let client = quota(sim.client("exec_again")).run().ok();
    assert_eq!(
        client.stdout,
        "image 1: blocks 4\nimage 2: blocks 4\nimage 3: blocks 4\n"
    );
}

#[test]
fn closing_every_descriptor_changes_nothing() {
    let sim = Sim::new();
    let client = quota(sim.client("close_descriptors"))
        .compute("50%")
        .run()
        .ok();
    assert_eq!(client.number("blocks"), 4);
    assert_eq!(client.stderr, "");
}

/// Rows 17 and 18: killed at any instant, and the others go on with an exact account.
#[test]
fn killed_processes_leave_the_account_exact() {
    let sim = Sim::new();
    for round in 0..10 {
        let mut clients: Vec<_> = (0..3)
            .map(|seed| {
                quota(
                    sim.client("churn")
                        .args(["60", &format!("{}", round * 10 + seed)]),
                )
                .spawn()
            })
            .collect();
        for client in &mut clients {
            client.line("ready");
            client.go_on();
        }
        std::thread::sleep(Duration::from_millis(30 + round * 7));
        for client in &mut clients {
            client.kill();
        }
        let started = Instant::now();
        let after = quota(sim.client("blocks_dlsym")).run().ok();
        assert_eq!(
            after.number("blocks"),
            4,
            "round {round}: the dead still hold something"
        );
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "the dead made others wait"
        );
    }
}

/// Row 47: the sum over all processes is never above the limit, at no instant.
#[test]
fn racing_processes_never_pass_the_limit() {
    let sim = Sim::new();
    let seconds = if quota_tests::full() { "10" } else { "2" };
    let mut clients: Vec<_> = (0..8)
        .map(|seed| quota(sim.client("churn").args([seconds, &format!("{seed}")])).spawn())
        .collect();
    for client in &mut clients {
        client.line("ready");
    }
    for client in &mut clients {
        client.go_on();
    }
    let (mut served, mut refused) = (0, 0);
    for client in clients {
        let client = client.finish().ok();
        served += client.number("served");
        refused += client.number("refused");
    }
    let device = &sim.account().devices[0];
    println!(
        "{served} served, {refused} refused, peak {} MiB",
        device.peak_requested / MIB
    );
    assert!(
        served > 100 && refused > 10,
        "no race took place: {served} served, {refused} refused"
    );
    assert!(
        device.peak_requested <= GIB,
        "{} bytes at once",
        device.peak_requested
    );
    assert!(
        device.peak_requested > GIB / 2,
        "what fits was refused: {} bytes at most",
        device.peak_requested
    );
    assert_eq!(device.requested, 0);
}

/// Row 20: a server that starts many workers at once.
#[test]
fn two_hundred_processes_at_once() {
    let sim = Sim::new();
    let started = Instant::now();
    let clients: Vec<_> = (0..200)
        .map(|_| sim.client("init").memory("1GiB").watchdog(120).spawn())
        .collect();
    for client in clients {
        let client = client.finish().ok();
        assert_eq!(client.number("init"), 0, "{}", client.stderr);
        assert_eq!(client.number("total0"), GIB);
    }
    println!("200 processes in {:?}", started.elapsed());
    assert!(
        started.elapsed() < Duration::from_secs(100),
        "far from sub-second each"
    );
}

/// As many hold memory at the same time: slots do not run out.
#[test]
fn a_hundred_processes_hold_memory_at_once() {
    // Room for as many contexts, which the quota does not count here.
    let sim = Sim::new().with("GPU_SIM_DEVICES", "141GiB");
    let mut clients: Vec<_> = (0..100)
        .map(|_| quota(sim.client("hold").arg("10")).watchdog(120).spawn())
        .collect();
    for client in &mut clients {
        assert_eq!(client.line("result"), "result=0");
    }
    let more = quota(sim.client("hold").arg("100")).run().ok();
    assert_eq!(more.number("result"), 2, "1000 MiB of 1024 are held");
    assert_eq!(sim.account().devices[0].requested, 1000 * MIB);
    for client in clients {
        let _ = client.finish().ok();
    }
}

/// Nobody named a group: the processes of one container share, and another container has a quota of its own. In a /dev/shm of its
/// own, since the file is named after the container alone.
#[test]
fn without_a_name_the_container_is_the_group() {
    let inner = "mount -t tmpfs none /dev/shm || { echo skipped; exit 0; }
        coproc HOLD 512
        until read -r line <&\"${COPROC[0]}\" && [ \"$line\" = ready ]; do :; done
        echo beside=$(HOLD 768 </dev/null | sed -n 's/^result=//p')
        echo fits=$(HOLD 512 </dev/null | sed -n 's/^result=//p')
        echo other=$(unshare --cgroup HOLD 768 </dev/null | sed -n 's/^result=//p')
        ls /dev/shm | grep -c '^gpu-quota' | sed 's/^/regions=/'";
    let sim = Sim::new();
    let script = inner.replace("HOLD", program("hold").to_str().unwrap());
    let client = sim
        .command(std::path::Path::new("/usr/bin/unshare"))
        .args(["--mount", "--cgroup", "bash", "-c", &script])
        .without("GPU_QUOTA_GROUP")
        .memory("1GiB")
        .free_context();
    let finished = client.run();
    if !finished.success() || finished.stdout.contains("skipped") {
        println!(
            "skipped: no namespaces can be made here: {}",
            finished.stderr
        );
        return;
    }
    assert_eq!(finished.number("beside"), 2, "{finished:?}");
    assert_eq!(finished.number("fits"), 0, "{finished:?}");
    assert_eq!(finished.number("other"), 0, "{finished:?}");
    assert_eq!(finished.number("regions"), 2, "{finished:?}");
}
