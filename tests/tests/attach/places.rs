//! Where the daemon is looked for, and by whom.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use quota_abi::slots;
use quota_abi::wire::{Purpose, Status};
use quota_tests::{Client, Finished, GIB, MIB, Sim, artefacts, is_root, program, workspace};

use crate::fake::{Fake, Ground, answer, send, uuid};
use crate::{allocate, begin, under, with};

#[test]
fn a_folder_stands_for_the_socket_in_it() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let _fake = Fake::granting(&ground);
    let folder = ground.socket().parent().unwrap().to_path_buf();
    let finished = with(sim.client("init"), &folder).run().ok();
    assert_eq!(finished.number("total0"), GIB);
}

/// The address of a socket has room for 107 bytes.
#[test]
fn a_path_may_be_longer_than_an_address() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let mut folder: PathBuf = ground.socket().parent().unwrap().into();
    for _ in 0..4 {
        folder.push("a".repeat(60));
    }
    std::fs::create_dir_all(&folder).unwrap();
    let _fake = Fake::at(&folder.join("attach.sock"), &ground, |ground, _, to| {
        ground.grant(to);
    });
    for path in [folder.join("attach.sock"), folder] {
        let finished = with(sim.client("init"), &path).run().ok();
        assert_eq!(finished.number("total0"), GIB, "{finished:?}");
    }
}

#[test]
fn no_descriptor_stays_open() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let _fake = Fake::granting(&ground);
    let mut steps = under(&sim, &ground.socket());
    begin(&mut steps);
    let folder = ground.socket().parent().unwrap().to_path_buf();
    let open = std::fs::read_dir(format!("/proc/{}/fd", steps.pid())).unwrap();
    for file in open {
        let target = std::fs::read_link(file.unwrap().path()).unwrap();
        assert!(!target.starts_with(&folder), "{}", target.display());
        let text = target.to_str().unwrap();
        assert!(!text.starts_with("socket:"), "{text}");
    }
}

/// Each worker attaches for itself and has a slot of its own; together they have what the container has.
#[test]
fn forked_children_attach_for_themselves() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let fake = Fake::granting(&ground);
    let client = with(sim.client("fork_workers").arg("4"), &ground.socket());
    let finished = client.run().ok();
    let blocks: u64 = finished
        .stdout
        .lines()
        .map(|line| line["blocks ".len()..].parse::<u64>().unwrap())
        .sum();
    assert_eq!(blocks, GIB / (64 * MIB), "{finished:?}");
    let mut pids: Vec<u32> = fake.asked.lock().unwrap().iter().map(|q| q.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 4);
}

#[test]
fn a_program_that_becomes_another_attaches_again() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let fake = Fake::granting(&ground);
    let finished = with(sim.client("exec_again"), &ground.socket()).run().ok();
    assert_eq!(
        finished.stdout,
        "image 1: blocks 4\nimage 2: blocks 4\nimage 3: blocks 4\n"
    );
    assert_eq!(fake.questions(), 3);
}

/// It asks to be shown, takes no slot, and is shown what the container may and holds.
#[test]
fn a_viewer_sees_the_container_without_being_in_it() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let fake = Fake::granting(&ground);
    let mut steps = under(&sim, &ground.socket());
    begin(&mut steps);
    assert_eq!(allocate(&mut steps, 256 * MIB), 0);
    ground.row().overhead.store(128 * MIB, Relaxed);
    let finished = with(sim.client("nvml_view"), &ground.socket()).run();
    assert_eq!(
        finished.stdout.lines().next(),
        Some("before CUDA: v1 total 1024 free 640, v2 total 1024 free 640"),
        "{finished:?}"
    );
    let asked = fake.asked.lock().unwrap();
    let purposes: Vec<Purpose> = asked.iter().map(|question| question.purpose).collect();
    assert_eq!(purposes, [Purpose::Attach, Purpose::View, Purpose::Attach]);
    assert_eq!(slots::owners(ground.usage()).count(), 2);
}

/// A program with the daemon's places in a mount namespace of its own, where `commands` fill `/run/gpu-quota`. `None` where no
/// such namespace may be made.
fn in_place(sim: &Sim, commands: &str, change: impl Fn(Client) -> Client) -> Option<Finished> {
    let script = format!(
        "mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/gpu-quota/container && {commands} && exec {}",
        program("init").display()
    );
    let client = sim.command(Path::new("/usr/bin/unshare"));
    let client = client.args(["--mount", "/bin/sh", "-c", &script]);
    let finished = change(client.watchdog(30)).run();
    if finished.stderr.contains("unshare:") || finished.stderr.contains("mount:") {
        println!("skipped: no mount namespace here: {}", finished.stderr);
        return None;
    }
    Some(finished.ok())
}

#[test]
fn the_containers_own_socket_comes_before_what_a_variable_says() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let _fake = Fake::granting(&ground);
    let folder = ground.socket().parent().unwrap().to_path_buf();
    let bind = format!("mount --bind {} /run/gpu-quota/container", folder.display());
    let named = |client: Client| {
        client
            .env("GPU_QUOTA_SOCKET", "/nonexistent")
            .memory("4GiB")
    };
    let Some(finished) = in_place(&sim, &bind, named) else {
        return;
    };
    assert_eq!(finished.number("total0"), GIB, "{finished:?}");
    // Its directory alone is enough: nobody there is waited for, and then it is refused.
    let Some(finished) = in_place(&sim, "true", |client| client.memory("4GiB")) else {
        return;
    };
    assert_eq!(finished.number("init"), 802, "{finished:?}");
    assert!(
        finished
            .stderr
            .contains("/run/gpu-quota/container/attach.sock")
    );
}

#[test]
fn the_hosts_socket_rules_whom_it_has_a_rule_for() {
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(GIB);
    let memory = |client: Client| client.memory("4GiB");
    let link = format!(
        "rmdir /run/gpu-quota/container && ln -s {} /run/gpu-quota/host.sock",
        ground.socket().display()
    );
    {
        let _fake = Fake::granting(&ground);
        let Some(finished) = in_place(&sim, &link, memory) else {
            return;
        };
        assert_eq!(finished.number("total0"), GIB, "{finished:?}");
    }
    {
        let _fake = Fake::start(&ground, |_, _, to| {
            send(to, &answer(Status::NoRule, "").encode(), &[]);
        });
        let finished = in_place(&sim, &link, memory).unwrap();
        assert_eq!(finished.number("total0"), 4 * GIB, "{finished:?}");
    }
    // Nobody there, and no list of cgroups, or none that names this one: the variables.
    let other = format!("{link} && echo '/no-such-cgroup-*' >/run/gpu-quota/host.cgroups");
    for commands in [&link, &other] {
        let finished = in_place(&sim, commands, memory).unwrap();
        assert_eq!(finished.number("total0"), 4 * GIB, "{finished:?}");
    }
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().last().unwrap().splitn(3, ':').nth(2).unwrap();
    let listed = format!("{link} && printf '/a\\n{own}\\n/**\\n' >/run/gpu-quota/host.cgroups");
    let finished = in_place(&sim, &listed, memory).unwrap();
    assert_eq!(finished.number("init"), 802, "{finished:?}");
    assert!(finished.stderr.contains("/run/gpu-quota/host.sock"));
}

/// No variable steers a program with privileges that its caller does not have; its container's socket does.
#[test]
fn a_setuid_program_goes_by_the_containers_own_socket_alone() {
    if !is_root() {
        println!("skipped: needs root, for another user's program and a mount namespace");
        return;
    }
    let sim = Sim::new();
    let ground = Ground::new(&sim).memory(2 * GIB);
    let _fake = Fake::granting(&ground);
    let dir = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o755))
        .tempdir()
        .unwrap();
    // A simulation's name decides what its devices are called, and each of the two programs has one of its own.
    for (row, kind) in ["plain", "setuid"].into_iter().enumerate() {
        let folder = dir.path().join("shared").join(kind);
        std::fs::create_dir_all(&folder).unwrap();
        let named = Sim::new().with("GPU_SIM", folder.join("sim").to_str().unwrap());
        ground.add(row + 1, uuid(&named, 0));
        ground.policy().rows[row + 1].memory.store(2 * GIB, Relaxed);
    }
    std::fs::remove_dir_all(dir.path().join("shared")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh"])
        .arg(workspace().join("tests/programs/setuid.sh"))
        .arg(dir.path())
        .arg(&artefacts().shim)
        .arg(&artefacts().sim)
        .arg(program("init"))
        .env("CONTAINER", ground.socket().parent().unwrap())
        .output();
    let Ok(output) = output else {
        return println!("skipped: no unshare on this machine");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("unshare failed") || complaint.contains("mount:") {
        return println!("skipped: no mount namespace here: {complaint}");
    }
    let totals: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("total0") && !line.starts_with("bare"))
        .collect();
    let expected = ["plain: total0=1073741824", "setuid: total0=2147483648"];
    assert_eq!(totals, expected, "{said}{complaint}");
}
