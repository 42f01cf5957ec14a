//! Several processes in one simulation: what a killed one held is free again.

#![expect(clippy::unwrap_used, reason = "a failure is the test's answer")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_sim_core::{Config, Member, Simulation};

const MIB: u64 = 1 << 20;

struct Fixture(PathBuf);

impl Fixture {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gpu-sim-{name}-{}", std::process::id()));
        Self(path)
    }

    fn open(&self, tenant: &str) -> Arc<Simulation> {
        let path = self.0.to_str().unwrap().to_owned();
        let config = Config::from_lookup(|name| match name {
            "GPU_SIM" => Some(path.clone()),
            "GPU_SIM_DEVICES" => Some("64MiB,32MiB".to_owned()),
            "GPU_SIM_CONTEXT" => Some("8MiB".to_owned()),
            "GPU_SIM_TENANT" => Some(tenant.to_owned()),
            _ => None,
        });
        Arc::new(Simulation::open(config.unwrap()).unwrap())
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = Simulation::remove(&self.0);
    }
}

/// The role of a child process: holds memory and waits to be killed.
#[test]
#[ignore = "run by the other tests in a process of its own"]
fn holder() {
    let path = PathBuf::from(std::env::var("HOLDER_PATH").unwrap());
    let fixture = std::mem::ManuallyDrop::new(Fixture(path));
    let member = Member::register(fixture.open("victim")).unwrap();
    member.context_created(0).unwrap();
    member.charge(0, 40 * MIB, 39 * MIB).unwrap();
    let mut timeline = member.timeline(0);
    timeline.advance(gpu_sim_core::now_ns(), None);
    timeline.submit(gpu_sim_core::FOREVER);
    println!("holding");
    std::thread::sleep(Duration::from_secs(60));
}

fn start_holder(fixture: &Fixture) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "holder"])
        .env("HOLDER_PATH", &fixture.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("holding")));
    child
}

#[test]
fn killing_frees() {
    let fixture = Fixture::new("kill");
    let member = Member::register(fixture.open("me")).unwrap();
    let mut child = start_holder(&fixture);
    let (total, usage) = member.simulation().memory(0);
    assert_eq!((total, usage.used), (64 * MIB, 48 * MIB));
    let refused = member.charge(0, 40 * MIB, 40 * MIB).unwrap_err();
    assert_eq!(refused.free, 16 * MIB);

    child.kill().unwrap();
    // Not waited for: a zombie holds nothing either. The kill takes effect soon, not at once.
    let deadline = Instant::now() + Duration::from_secs(20);
    while member.charge(0, 40 * MIB, 40 * MIB).is_err() {
        assert!(Instant::now() < deadline, "the dead process holds on");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.wait().unwrap();
    let snapshot = member.simulation().snapshot();
    let device = &snapshot.devices[0];
    assert_eq!(device.usage.used, 40 * MIB);
    assert_eq!(device.usage.peak, 48 * MIB);
    let victim = device
        .tenants
        .iter()
        .find(|tenant| tenant.label == "victim")
        .unwrap();
    assert_eq!((victim.usage.used, victim.usage.peak), (0, 48 * MIB));
    assert_eq!(victim.usage.peak_requested, 39 * MIB);
    assert!(victim.busy_ns > 0, "its time stays on the account");
    assert_eq!(device.processes.len(), 1);
}

/// Nobody has looked after the dead when the next bytes are taken, and yet they are not added to what was held then.
#[test]
fn what_the_dead_left_is_in_no_new_peak() {
    let fixture = Fixture::new("peak");
    let member = Member::register(fixture.open("victim")).unwrap();
    let mut child = start_holder(&fixture);
    child.kill().unwrap();
    child.wait().unwrap();
    member.charge(0, 12 * MIB, 12 * MIB).unwrap();
    let snapshot = member.simulation().snapshot();
    assert_eq!(snapshot.devices[0].usage.peak, 48 * MIB);
    assert_eq!(snapshot.devices[0].tenants[0].usage.peak_exact, 39 * MIB);
}

#[test]
fn reserves_are_no_exact_bytes() {
    let fixture = Fixture::new("reserves");
    let member = Member::register(fixture.open("me")).unwrap();
    member.charge_reserve(0, 32 * MIB).unwrap();
    member.charge(0, 2 * MIB, MIB).unwrap();
    let usage = member.usage(0);
    assert_eq!((usage.used, usage.requested), (34 * MIB, 33 * MIB));
    assert_eq!((usage.exact, usage.peak_exact), (MIB, MIB));
    member.refund_reserve(0, 32 * MIB);
    member.refund(0, 2 * MIB, MIB);
    let usage = member.usage(0);
    assert_eq!((usage.used, usage.requested, usage.exact), (0, 0, 0));
    assert_eq!(
        (usage.peak_requested, usage.peak_exact),
        (33 * MIB, MIB),
        "peaks stay"
    );
}

/// An allocation that its owner frees while another process holds it moves in one step, on whichever side one looks.
#[test]
fn shared_memory_changes_hands_in_one_step() {
    let fixture = Fixture::new("hands");
    let [owner, holder] = ["a", "a"].map(|tenant| Member::register(fixture.open(tenant)).unwrap());
    let key = (1, 1);
    owner.charge(0, 4 * MIB, 3 * MIB).unwrap();
    assert!(owner.share(key, 0, 3 * MIB));
    assert!(holder.hold(key));
    owner.refund_shared(key, 0, 4 * MIB, 3 * MIB);
    assert_eq!((owner.usage(0).exact, holder.usage(0).exact), (0, 3 * MIB));
    let device = owner.simulation().snapshot().devices[0].usage;
    assert_eq!((device.exact, device.peak_exact), (3 * MIB, 3 * MIB));
    assert_eq!((device.used, device.peak), (3 * MIB, 4 * MIB));
    // What another asks for next is not added to anything that is on its way.
    owner.charge(0, MIB, MIB).unwrap();
    let device = owner.simulation().snapshot().devices[0].usage;
    assert_eq!(device.peak_exact, 4 * MIB);
    assert!(holder.let_go(key));
    assert_eq!(holder.usage(0).exact, 0);
    let device = owner.simulation().snapshot().devices[0].usage;
    assert_eq!((device.exact, device.peak_exact), (MIB, 4 * MIB));
}

#[test]
fn a_context_is_charged_once_per_process() {
    let fixture = Fixture::new("context");
    let member = Member::register(fixture.open("me")).unwrap();
    member.context_created(1).unwrap();
    member.context_created(1).unwrap();
    assert_eq!(member.usage(1).used, 8 * MIB);
    assert_eq!(member.usage(1).requested, 0);
    member.context_destroyed(1);
    assert_eq!(member.usage(1).used, 8 * MIB);
    member.context_destroyed(1);
    assert_eq!(member.usage(1).used, 0);
    assert_eq!(member.usage(1).peak, 8 * MIB);
}

#[test]
fn a_file_of_another_layout_is_replaced() {
    let fixture = Fixture::new("layout");
    std::fs::write(&fixture.0, "something else").unwrap();
    assert_eq!(fixture.open("me").devices().len(), 2);
}

#[test]
fn the_json_names_every_account() {
    let fixture = Fixture::new("json");
    let member = Member::register(fixture.open("a \"b\"")).unwrap();
    member.charge(1, 3 * MIB, 2 * MIB).unwrap();
    let json = member.simulation().snapshot().to_json();
    assert!(
        json.contains(
            "\"label\":\"a \\\"b\\\"\",\"used\":3145728,\"peak\":3145728,\"requested\":2097152"
        ),
        "{json}"
    );
    member.simulation().reset_account();
}

#[test]
fn two_that_want_all_get_half_each() {
    let fixture = Fixture::new("share");
    let members: Vec<Member> = ["a", "b"]
        .map(|tenant| Member::register(fixture.open(tenant)).unwrap())
        .into();
    let mut timelines: Vec<_> = members.iter().map(|member| member.timeline(0)).collect();
    let start = gpu_sim_core::now_ns();
    for timeline in &mut timelines {
        timeline.advance(start, None);
        timeline.submit(gpu_sim_core::FOREVER);
    }
    std::thread::sleep(Duration::from_millis(50));
    let end = timelines[0].advance(gpu_sim_core::now_ns(), None);
    let snapshot = members[0].simulation().snapshot();
    let busy: Vec<u64> = members.iter().map(|member| member.busy_ns(0)).collect();
    // Both numbers were read later than `end`: nothing is lost, and nobody is a slice ahead twice.
    assert!(busy.iter().sum::<u64>() >= end - start);
    assert!(busy[0].abs_diff(busy[1]) <= 2 * 1_024_000, "{busy:?}");
    assert_eq!(timelines[0].contenders(), 2);
    let labels: Vec<_> = snapshot.devices[0]
        .tenants
        .iter()
        .map(|tenant| tenant.label.clone())
        .collect();
    assert_eq!(labels, ["a", "b"]);
    for timeline in &mut timelines {
        timeline.submit(0);
    }
    timelines[0].advance(gpu_sim_core::now_ns(), None);
    assert_eq!(timelines[0].contenders(), 0);
}
