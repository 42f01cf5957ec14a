use proptest::prelude::*;

use super::*;
use crate::gpu::{DeviceReading, GpuProcess};
use crate::model::Device;

const MIB: u64 = 1 << 20;
const OWN: u32 = 999;

fn uuid(number: u8) -> Uuid {
    Uuid([number; 16])
}

fn device(number: u8, processes: Option<&[(u32, u64)]>) -> DeviceReading {
    let process = |(pid, bytes): &(u32, u64)| GpuProcess {
        pid: *pid,
        bytes: Some(*bytes),
    };
    DeviceReading {
        device: Device {
            uuid: uuid(number),
            index: u32::from(number),
            name: "GPU".into(),
            memory_bytes: 1 << 34,
            mig: false,
        },
        used_bytes: processes.map(|p| p.iter().map(|(_, bytes)| bytes).sum()),
        utilization_percent: None,
        processes: processes.map(|p| p.iter().map(process).collect()),
        trouble: processes.is_none().then(|| "lost".to_owned()),
    }
}

fn client(container: &str, pid: u32, ledger: &[(u8, u64)]) -> Client {
    Client {
        container: container.into(),
        pid,
        since: 0,
        ledger: ledger.iter().map(|(n, bytes)| (uuid(*n), *bytes)).collect(),
    }
}

/// Who lives: start time and cgroup by pid.
type World = BTreeMap<u32, (u64, &'static str)>;

/// Containers `a` and `b`, which have cgroups, and a clock.
struct Bench {
    reconciler: Reconciler,
    at: Instant,
    number: u64,
    world: World,
    charges: BTreeMap<(String, Uuid), u64>,
    kill: bool,
}

impl Bench {
    fn new(world: &[(u32, u64, &'static str)]) -> Self {
        Self {
            reconciler: Reconciler::new(),
            at: Instant::now(),
            number: 0,
            world: world
                .iter()
                .map(|(pid, start, cgroup)| (*pid, (*start, *cgroup)))
                .collect(),
            charges: BTreeMap::new(),
            kill: false,
        }
    }

    /// A reading 800 ms after the one before.
    fn step(&mut self, clients: &[Client], devices: Vec<DeviceReading>) -> Outcome {
        self.step_after(Duration::from_millis(800), clients, devices)
    }

    fn step_after(
        &mut self,
        pause: Duration,
        clients: &[Client],
        devices: Vec<DeviceReading>,
    ) -> Outcome {
        self.at += pause;
        self.number += 1;
        let reading = Reading {
            number: self.number,
            at: self.at,
            devices,
            trouble: None,
        };
        let containers = ["a", "b"].map(|name| Declared {
            name: name.into(),
            cgroups: vec![format!("/docker/{name}")],
        });
        let world = self.world.clone();
        self.reconciler.step(&Input {
            reading: &reading,
            clients,
            containers: &containers,
            charges: &self.charges,
            kill: self.kill,
            look: &|pid| {
                world.get(&pid).map(|(start, cgroup)| Seen {
                    start: *start,
                    cgroup: (*cgroup).to_owned(),
                    program: "python3".into(),
                })
            },
            own: OWN,
        })
    }
}

fn of(outcome: &BTreeMap<(String, Uuid), u64>, container: &str, number: u8) -> Option<u64> {
    outcome.get(&(container.to_owned(), uuid(number))).copied()
}

fn pids(outcome: &Outcome, number: u8) -> Vec<u32> {
    let list = outcome.unregistered.get(&uuid(number));
    list.into_iter()
        .flatten()
        .map(|process| process.pid)
        .collect()
}

#[test]
fn overhead_is_what_two_readings_agree_on() {
    let mut bench = Bench::new(&[(7, 1, "/docker/a"), (8, 1, "/docker/a")]);
    let clients = [
        client("a", 7, &[(1, 100 * MIB)]),
        client("a", 8, &[(1, 50 * MIB)]),
    ];
    let read = |one, other| vec![device(1, Some(&[(7, one), (8, other)]))];
    let first = bench.step(&clients, read(130 * MIB, 40 * MIB));
    assert_eq!(of(&first.overhead, "a", 1), Some(0));
    let second = bench.step(&clients, read(120 * MIB, 40 * MIB));
    assert_eq!(of(&second.overhead, "a", 1), Some(20 * MIB));
    let third = bench.step(&clients, read(500 * MIB, 60 * MIB));
    assert_eq!(of(&third.overhead, "a", 1), Some(20 * MIB));
    let fourth = bench.step(&clients, read(101 * MIB, 60 * MIB));
    assert_eq!(of(&fourth.overhead, "a", 1), Some(11 * MIB));
    assert_eq!(fourth.by_process[&7], BTreeMap::from([(uuid(1), MIB)]));
    assert_eq!(fourth.by_process[&8], BTreeMap::from([(uuid(1), 10 * MIB)]));
    let gone = bench.step(&clients[1..], read(101 * MIB, 60 * MIB));
    assert_eq!(of(&gone.overhead, "a", 1), Some(10 * MIB));
}

#[test]
fn what_was_just_freed_is_no_overhead() {
    let mut bench = Bench::new(&[(7, 1, "/docker/a")]);
    let read = || vec![device(1, Some(&[(7, 1000 * MIB)]))];
    for held in [1000, 0, 1000, 0] {
        let clients = [client("a", 7, &[(1, held * MIB)])];
        let outcome = bench.step(&clients, read());
        assert_eq!(of(&outcome.overhead, "a", 1), Some(0), "{held}");
    }
}

#[test]
fn a_device_that_is_not_read_keeps_what_was_known() {
    let mut bench = Bench::new(&[(7, 1, "/docker/a"), (9, 1, "/user")]);
    let clients = [client("a", 7, &[(1, 100 * MIB)])];
    let seen = || vec![device(1, Some(&[(7, 150 * MIB), (9, MIB)]))];
    bench.step(&clients, seen());
    bench.step(&clients, seen());
    let blind = bench.step(&clients, vec![device(1, None)]);
    assert_eq!(of(&blind.overhead, "a", 1), Some(50 * MIB));
    assert_eq!(pids(&blind, 1), [9]);
    assert!(
        matches!(&blind.events[..], [Event::Trouble { uuid: Some(_), .. }]),
        "{:?}",
        blind.events
    );
    bench.world.remove(&9);
    let blind = bench.step(&clients, vec![device(1, None)]);
    assert_eq!(pids(&blind, 1), [] as [u32; 0]);
    assert_eq!(blind.events, [], "a trouble is told once");
    let back = bench.step(&clients, vec![device(1, Some(&[]))]);
    assert_eq!(
        back.events,
        [Event::Recovered {
            uuid: Some(uuid(1))
        }]
    );
    assert_eq!(of(&back.overhead, "a", 1), Some(0));
}

#[test]
fn a_stranger_is_told_of_once_after_two_readings() {
    let mut bench = Bench::new(&[(9, 1, "/user"), (10, 1, "/docker/b/inner")]);
    let read = || {
        vec![device(
            1,
            Some(&[(0, MIB), (9, 5 * MIB), (10, MIB), (OWN, MIB)]),
        )]
    };
    assert_eq!(pids(&bench.step(&[], read()), 1), [] as [u32; 0]);
    let quick = bench.step_after(Duration::from_millis(100), &[], read());
    assert_eq!(
        pids(&quick, 1),
        [] as [u32; 0],
        "two readings in a row may be one moment"
    );
    let second = bench.step(&[], read());
    assert_eq!(pids(&second, 1), [9, 10]);
    let list = &second.unregistered[&uuid(1)];
    assert_eq!(list[0].container, None);
    assert_eq!(list[0].bytes, Some(5 * MIB));
    assert_eq!(list[1].container.as_deref(), Some("b"));
    assert_eq!(second.events.len(), 2);
    assert_eq!(second.kill, [], "it is not configured");
    assert_eq!(bench.step(&[], read()).events, []);
    let left = bench.step(&[], vec![device(1, Some(&[(10, MIB)]))]);
    assert_eq!(
        left.events,
        [Event::Left {
            pid: 9,
            uuid: uuid(1)
        }]
    );
    // One that registers after all.
    let late = bench.step(&[client("b", 10, &[])], vec![device(1, Some(&[(10, MIB)]))]);
    assert_eq!(pids(&late, 1), [] as [u32; 0]);
}

#[test]
fn a_pid_that_is_used_again_begins_anew() {
    let mut bench = Bench::new(&[(9, 1, "/user")]);
    let read = || vec![device(1, Some(&[(9, MIB)]))];
    bench.step(&[], read());
    bench.world.insert(9, (2, "/user"));
    assert_eq!(pids(&bench.step(&[], read()), 1), [] as [u32; 0]);
    assert_eq!(pids(&bench.step(&[], read()), 1), [9]);
}

#[test]
fn the_dead_still_hold_until_nvml_forgets_them() {
    let mut bench = Bench::new(&[(7, 1, "/docker/a")]);
    let read = || vec![device(1, Some(&[(7, 300 * MIB)]))];
    bench.step(&[client("a", 7, &[])], read());
    bench.world.remove(&7);
    // It may have ended after this was read.
    assert_eq!(bench.step(&[], read()).dead, BTreeMap::new());
    for _ in 0..100 {
        let outcome = bench.step(&[], read());
        assert_eq!(of(&outcome.dead, "a", 1), Some(300 * MIB));
        assert_eq!(of(&outcome.overhead, "a", 1), None);
        assert_eq!(pids(&outcome, 1), [] as [u32; 0]);
    }
    // Somebody else with its pid is a stranger.
    bench.world.insert(7, (2, "/user"));
    let outcome = bench.step(&[], read());
    assert_eq!(of(&outcome.dead, "a", 1), None);
    assert_eq!(pids(&bench.step(&[], read()), 1), [7]);
}

#[test]
fn only_who_is_in_a_declared_cgroup_is_killed_and_once() {
    let mut bench = Bench::new(&[
        (9, 1, "/user"),
        (10, 4, "/docker/b/inner"),
        (11, 1, "/docker/bb"),
    ]);
    bench.kill = true;
    let read = || {
        vec![
            device(1, Some(&[(9, MIB), (10, MIB), (11, MIB)])),
            device(2, Some(&[(10, MIB)])),
        ]
    };
    assert_eq!(bench.step(&[], read()).kill, []);
    let outcome = bench.step(&[], read());
    let target = Target {
        pid: 10,
        start: 4,
        container: "b".into(),
        program: "python3".into(),
    };
    assert_eq!(outcome.kill, std::slice::from_ref(&target));
    bench.reconciler.killed(&target);
    let outcome = bench.step(&[], read());
    assert_eq!(outcome.kill, []);
    assert!(outcome.unregistered[&uuid(2)][0].killed);
    assert!(!outcome.unregistered[&uuid(1)][0].killed);
}

#[test]
fn who_shares_a_cgroup_with_registered_processes_is_named_and_not_killed() {
    let mut bench = Bench::new(&[(7, 1, "/lxc/4711"), (9, 1, "/lxc/4711")]);
    bench.kill = true;
    let clients = [client("c", 7, &[])];
    let read = || vec![device(1, Some(&[(7, MIB), (9, MIB)]))];
    bench.step(&clients, read());
    let outcome = bench.step(&clients, read());
    assert_eq!(
        outcome.unregistered[&uuid(1)][0].container.as_deref(),
        Some("c")
    );
    assert_eq!(outcome.kill, []);
}

#[test]
fn pids_that_nobody_knows_are_passed_over_and_told_of_if_they_stay() {
    let mut bench = Bench::new(&[]);
    let read = || vec![device(1, Some(&[(0, MIB), (4711, MIB)]))];
    for _ in 0..6 {
        let outcome = bench.step(&[], read());
        assert_eq!(outcome.warnings, [] as [String; 0]);
        assert_eq!(pids(&outcome, 1), [] as [u32; 0]);
    }
    bench.step(&[], read());
    let outcome = bench.step(&[], read());
    assert!(
        outcome.warnings[0].contains("pid 4711"),
        "{:?}",
        outcome.warnings
    );
    let outcome = bench.step(&[], vec![device(1, Some(&[]))]);
    assert_eq!(outcome.warnings, [] as [String; 0]);
}

#[test]
fn a_context_is_measured_where_the_ledger_holds_still() {
    let mut bench = Bench::new(&[(7, 1, "/docker/a")]);
    bench.charges.insert(("a".into(), uuid(1)), 400 * MIB);
    let mut step = |held: u64, nvml: u64| {
        let clients = [client("a", 7, &[(1, held * MIB)])];
        let outcome = bench.step(&clients, vec![device(1, Some(&[(7, nvml * MIB)]))]);
        outcome.contexts.get(&uuid(1)).copied()
    };
    assert_eq!(step(400, 300), None, "the first reading");
    assert_eq!(step(400, 300), Some(300 * MIB));
    assert_eq!(step(1400, 1300), Some(300 * MIB), "it is changing");
    assert_eq!(
        step(1400, 1320),
        Some(300 * MIB),
        "modules are not the context"
    );
    assert_eq!(step(1400, 1290), Some(290 * MIB));
}

/// What may happen between two readings.
#[derive(Clone, Debug)]
enum Move {
    /// A process has this on a device, by NVML.
    Nvml(u32, u8, u64),
    /// A process is registered, with this ledger.
    Register(u32, u8, u64),
    /// It is not any more.
    Deregister(u32),
    /// It ends, and another may come with its pid.
    Exchange(u32),
    Blind(u8),
    Read,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let pid = || 0_u32..6;
    let number = || 1_u8..3;
    let bytes = || 0..4096 * MIB;
    let one = prop_oneof![
        (pid(), number(), bytes()).prop_map(|(p, n, b)| Move::Nvml(p, n, b)),
        (pid(), number(), bytes()).prop_map(|(p, n, b)| Move::Register(p, n, b)),
        pid().prop_map(Move::Deregister),
        pid().prop_map(Move::Exchange),
        number().prop_map(Move::Blind),
        Just(Move::Read),
        Just(Move::Read),
    ];
    prop::collection::vec(one, 1..80)
}

const CGROUPS: [&str; 6] = [
    "/docker/a",
    "/docker/a/x",
    "/docker/b",
    "/user",
    "/",
    "/docker",
];

proptest! {
    #[test]
    fn whatever_happens_it_stays_sound(moves in moves()) {
        let world: Vec<_> = (0..6).zip(CGROUPS).map(|(pid, cgroup)| (pid, 1, cgroup)).collect();
        let mut bench = Bench::new(&world);
        bench.kill = true;
        let mut nvml: BTreeMap<u8, BTreeMap<u32, u64>> = BTreeMap::new();
        let mut clients: BTreeMap<u32, Client> = BTreeMap::new();
        let mut blind = BTreeSet::new();
        let mut killed = BTreeSet::new();
        let mut since = 0;
        for step in moves {
            match step {
                Move::Nvml(pid, n, bytes) => drop(nvml.entry(n).or_default().insert(pid, bytes)),
                Move::Register(pid, n, bytes) => {
                    clients.entry(pid).or_insert_with(|| {
                        since += 1;
                        Client { since, ..client("a", pid, &[]) }
                    }).ledger.insert(uuid(n), bytes);
                }
                Move::Deregister(pid) => drop(clients.remove(&pid)),
                Move::Exchange(pid) => {
                    clients.remove(&pid);
                    for list in nvml.values_mut() {
                        list.remove(&pid);
                    }
                    bench.world.entry(pid).and_modify(|(start, _)| *start += 1);
                }
                Move::Blind(n) => drop(blind.insert(n)),
                Move::Read => {
                    let list: Vec<Client> = clients.values().cloned().collect();
                    let devices = [1, 2].map(|n| {
                        let list: Vec<_> = nvml.entry(n).or_default().iter().map(|(p, b)| (*p, *b)).collect();
                        device(n, (!blind.contains(&n)).then_some(&list[..]))
                    });
                    let outcome = bench.step(&list, devices.to_vec());
                    for n in [1, 2] {
                        if blind.contains(&n) {
                            continue;
                        }
                        // No more overhead than NVML shows beyond the ledgers right now.
                        let most: u64 = list.iter().filter(|c| c.pid != 0).map(|c| {
                            let held = nvml[&n].get(&c.pid).copied().unwrap_or(0);
                            held.saturating_sub(c.ledger.get(&uuid(n)).copied().unwrap_or(0))
                        }).sum();
                        prop_assert!(of(&outcome.overhead, "a", n).unwrap_or(0) <= most);
                        for process in outcome.unregistered.get(&uuid(n)).into_iter().flatten() {
                            prop_assert!(nvml[&n].contains_key(&process.pid));
                        }
                    }
                    for process in outcome.unregistered.values().flatten() {
                        prop_assert!(process.pid != 0 && process.pid != OWN);
                        prop_assert!(!clients.contains_key(&process.pid));
                    }
                    for target in &outcome.kill {
                        let cgroup = CGROUPS[target.pid as usize];
                        prop_assert!(cgroup.starts_with("/docker/"), "{target:?}");
                        prop_assert!(!clients.contains_key(&target.pid));
                        killed.insert((target.pid, target.start));
                    }
                    blind.clear();
                }
            }
        }
    }

    #[test]
    fn when_nothing_moves_the_overhead_is_exact(
        held in prop::collection::vec((0..4096 * MIB, 0..4096 * MIB), 0..20),
    ) {
        let world: Vec<_> = (1..=20).map(|pid| (pid, 1, "/docker/a")).collect();
        let mut bench = Bench::new(&world);
        let clients: Vec<_> = held.iter().zip(1..).map(|((_, ledger), pid)| client("a", pid, &[(1, *ledger)])).collect();
        let list: Vec<_> = held.iter().zip(1..).map(|((nvml, _), pid)| (pid, *nvml)).collect();
        bench.step(&clients, vec![device(1, Some(&list))]);
        let outcome = bench.step(&clients, vec![device(1, Some(&list))]);
        let expected: u64 = held.iter().map(|(nvml, ledger)| nvml.saturating_sub(*ledger)).sum();
        prop_assert_eq!(of(&outcome.overhead, "a", 1).unwrap_or(0), expected);
    }
}
