//! The daemon is killed, replaced, told to read its configuration again and asked to end, while its containers work. They
//! stay within their limits, lose nothing and wait for nothing that does not come; the next daemon knows what the last one knew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use quota_tests::{Daemon, Load, MIB, Running, Sim, Work, artefacts, full};

const CONTEXT: u64 = 300 * MIB;
const KERNEL_NS: u64 = 200_000;

const CONFIG: &str = r#"
[daemon]
context = "300MiB"

[[container]]
name = "a"
memory = "2GiB"
compute = "30%"

[[container]]
name = "b"
memory = "3GiB"
weight = 2
"#;

/// Decides when the daemon dies; printed, and the same again with `DAEMON_DEATH_SEED`.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = std::env::var("DAEMON_DEATH_SEED").ok();
        let seed = seed.map_or_else(
            || u64::from(std::process::id()),
            |seed| seed.parse().unwrap(),
        );
        println!("DAEMON_DEATH_SEED={seed}");
        Self(seed * 2 + 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pause(&mut self, most_us: u64) {
        std::thread::sleep(Duration::from_micros(self.below(most_us)));
    }
}

fn loads(daemon: &Daemon<'_>) -> Vec<(&'static str, Load)> {
    let start = |(name, seed)| {
        let work = Work {
            seed,
            kernel_ns: KERNEL_NS,
            most_mib: 1200,
        };
        (name, Load::start(daemon.client(name, "load"), work))
    };
    [("a", 1), ("a", 2), ("b", 3), ("b", 4)].map(start).into()
}

/// Usage to the byte, and no launch lost, while everybody is held still.
#[track_caller]
fn exact(daemon: &Daemon<'_>, sim: &Sim, loads: &[(&str, Load)]) {
    for (_, load) in loads {
        load.hold_still();
    }
    let status = daemon.status();
    for name in ["a", "b"] {
        let own = loads.iter().filter(|(of, _)| *of == name);
        let held: u64 = own.map(|(_, load)| load.progress().held + CONTEXT).sum();
        assert_eq!(
            status.share(name).memory_used_bytes,
            held,
            "{name}: {status:?}"
        );
        assert_eq!(status.container(name).damage, None);
    }
    let account = sim.account();
    for (name, load) in loads {
        let processes = &account.devices[0].processes;
        let process = processes
            .iter()
            .find(|process| process.pid == load.pid())
            .unwrap();
        assert_eq!(process.requested, load.progress().held);
        // One kernel after the other in one stream: each launch that succeeded ran, once.
        assert_eq!(
            process.busy_ns,
            load.progress().launches * KERNEL_NS,
            "{name}"
        );
    }
    for (_, load) in loads {
        load.go_on();
    }
}

/// A process of `a` that comes and is killed, again and again, while the daemon is here or away.
struct Comer<'a, 'sim> {
    daemon: &'a Daemon<'sim>,
    client: Option<Running>,
    came: u32,
}

impl Comer<'_, '_> {
    fn come(&mut self) {
        self.client = Some(self.daemon.client("a", "waits").spawn());
    }

    /// It is let in, now or when the daemon is back.
    #[track_caller]
    fn is_in(&mut self) {
        if let Some(mut client) = self.client.take() {
            assert_eq!(client.line("init="), "init=0");
            self.came += 1;
        }
    }
}

#[test]
fn killed_at_any_moment_and_nobody_notices() {
    let rounds = if full() { 200 } else { 8 };
    let sim = Sim::new();
    sim.allow("a", "2GiB");
    sim.allow("b", "3GiB");
    let daemon = Daemon::start(&sim, CONFIG);
    let loads = loads(&daemon);
    let mut comer = Comer {
        daemon: &daemon,
        client: None,
        came: 0,
    };
    let mut dice = Dice::new();
    let begin = Instant::now();
    let mut adopted = Duration::ZERO;
    for round in 0..rounds {
        if dice.below(2) == 0 {
            comer.come();
        }
        dice.pause(150_000);
        daemon.kill9();
        if dice.below(3) == 0 {
            comer.come();
            dice.pause(1_000_000);
            for (_, load) in &loads {
                // Without a daemon everybody goes on.
                load.goes_on(3);
            }
        }
        // Killed again before it is ready, now and then.
        for _ in 0..dice.below(3) {
            daemon.launch();
            dice.pause(30_000);
            daemon.kill9();
        }
        let start = Instant::now();
        daemon.restart();
        let mut ready = Duration::ZERO;
        daemon.wait("everybody to be adopted", |daemon| {
            let counts = ["a", "b"].map(|name| daemon.container(name).processes);
            ready = start.elapsed();
            counts[0] >= 2 && counts[1] == 2
        });
        adopted = adopted.max(ready);
        comer.is_in();
        daemon.wait("the comer to be gone", |daemon| {
            daemon.container("a").processes == 2
        });
        exact(&daemon, &sim, &loads);
        for (_, load) in &loads {
            load.goes_on(10);
        }
        println!("round {round}: adopted after {ready:?}");
    }
    let longest = loads
        .iter()
        .map(|(_, load)| load.progress().longest)
        .max()
        .unwrap();
    println!(
        "{rounds} kills in {:?}; {} processes came meanwhile; adopted after {adopted:?} at most; longest launch {longest:?}",
        begin.elapsed(),
        comer.came
    );

    // A live change still works.
    daemon.set("a", "memory", "600MiB").unwrap();
    let refused = |load: &Load| load.progress().refusals;
    let before: Vec<u64> = loads.iter().map(|(_, load)| refused(load)).collect();
    daemon.wait("the lower limit to be felt", |_| {
        refused(&loads[0].1) > before[0] && refused(&loads[1].1) > before[1]
    });
    let limit = daemon.share("a").memory_limit_bytes;
    assert_eq!(limit, Some(600 * MIB));
    daemon.kill9();
    daemon.restart();
    assert_eq!(
        daemon.share("a").memory_limit_bytes,
        limit,
        "a live change outlives the daemon"
    );
    for (_, load) in loads {
        assert_eq!(load.end().ok().stderr, "");
    }
}

/// Without a daemon the limits hold: memory, and GPU time at its own rate at least.
#[test]
fn it_never_comes_back_and_the_limits_hold() {
    let sim = Sim::new();
    sim.allow("a", "2GiB");
    sim.allow("b", "3GiB");
    let daemon = Daemon::start(&sim, CONFIG);
    let loads = loads(&daemon);
    daemon.kill9();
    let busy = || {
        let account = sim.account();
        let tenants = account.devices[0].tenants.iter();
        let own = tenants.clone().find(|tenant| tenant.label == "a").unwrap();
        (own.busy_ns, account.clock_ns)
    };
    // What was lent has ended by then.
    std::thread::sleep(Duration::from_millis(300));
    let before = busy();
    std::thread::sleep(Duration::from_secs(if full() { 10 } else { 2 }));
    let after = busy();
    let percent = (after.0 - before.0) as f64 * 100.0 / (after.1 - before.1) as f64;
    println!("a ran {percent:.1} % of the time, of 30 %");
    let most = if full() { 33.0 } else { 45.0 };
    assert!(percent < most, "{percent}");
    for (_, load) in &loads {
        load.goes_on(10);
        assert!(load.progress().held <= 2048 * MIB);
    }
    for (_, load) in loads {
        assert_eq!(load.end().ok().stderr, "");
    }
}

/// Told to end it ends well, and leaves its containers as a killed one does.
#[test]
fn asked_to_end_it_ends_and_everybody_goes_on() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, CONFIG);
    let loads = loads(&daemon);
    let before = daemon.pid();
    assert_eq!(daemon.terminate(), Some(0), "{}", daemon.log());
    for (_, load) in &loads {
        load.goes_on(10);
    }
    daemon.restart();
    assert_ne!(daemon.pid(), before);
    exact(&daemon, &sim, &loads);
    for (_, load) in loads {
        assert_eq!(load.end().ok().stderr, "");
    }
}

/// A second one on the same directory says who is there, and harms nobody.
#[test]
fn a_second_daemon_leaves_the_first_alone() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, CONFIG);
    let load = Load::start(
        daemon.client("a", "load"),
        Work {
            seed: 1,
            kernel_ns: KERNEL_NS,
            most_mib: 100,
        },
    );
    let config = daemon.config();
    let second = daemon.type_in(&["serve", "--no-mount", "--config", config.to_str().unwrap()]);
    let complaint = String::from_utf8_lossy(&second.stderr);
    println!("{complaint}");
    assert!(!second.status.success());
    assert!(
        complaint.contains(daemon.state().to_str().unwrap()),
        "{complaint}"
    );
    load.goes_on(10);
    assert_eq!(daemon.container("a").processes, 1);
    assert_eq!(load.end().ok().stderr, "");
}

/// The configuration is read again under load: limits follow, what is wrong changes nothing, and a container that was taken
/// out stays limited while its processes live.
#[test]
fn the_configuration_is_read_again_under_load() {
    let sim = Sim::new();
    let daemon = Daemon::start(&sim, CONFIG);
    let loads = loads(&daemon);
    let request = serde_json::json!({"request": "reload"});

    daemon.configure(
        &CONFIG
            .replace("2GiB", "1GiB")
            .replace("weight = 2", "weight = 5"),
    );
    let said: Vec<String> = daemon.ask(&request).unwrap();
    println!("{said:?}");
    assert_eq!(daemon.share("a").memory_limit_bytes, Some(1024 * MIB));

    daemon.configure(&CONFIG.replace("compute", "computer"));
    let refused = daemon.ask::<Vec<String>>(&request).unwrap_err();
    println!("{refused}");
    assert!(refused.contains("computer"), "{refused}");
    assert_eq!(daemon.share("a").memory_limit_bytes, Some(1024 * MIB));

    // By the signal as well.
    daemon.configure(&CONFIG.replace("2GiB", "1536MiB"));
    daemon.signal(libc::SIGHUP);
    daemon.wait("the signal to be heard", |daemon| {
        daemon.share("a").memory_limit_bytes == Some(1536 * MIB)
    });

    for (_, load) in &loads {
        load.goes_on(10);
    }
    exact(&daemon, &sim, &loads);
    for (_, load) in loads {
        assert_eq!(load.end().ok().stderr, "");
    }
}

/// Another version takes over: the same program with another number in it.
#[test]
fn another_version_takes_over() {
    let sim = Sim::new();
    sim.allow("a", "2GiB");
    sim.allow("b", "3GiB");
    let mut daemon = Daemon::start(&sim, CONFIG);
    let version = daemon.status().daemon.version;
    let mut other = version.clone();
    other.replace_range(other.len() - 1.., "9");
    assert_ne!(version, other);

    let mut bytes = std::fs::read(&artefacts().daemon).unwrap();
    let places: Vec<usize> = (0..bytes.len() - version.len())
        .filter(|at| bytes[*at..].starts_with(version.as_bytes()))
        .collect();
    for at in places {
        bytes[at..at + version.len()].copy_from_slice(other.as_bytes());
    }
    let folder = tempfile::tempdir().unwrap();
    let newer = folder.path().join("quota-daemon");
    std::fs::write(&newer, bytes).unwrap();
    std::fs::set_permissions(&newer, std::fs::Permissions::from_mode(0o755)).unwrap();

    let loads = loads(&daemon);
    for executable in [newer.as_path(), artefacts().daemon.as_path()] {
        daemon.upgrade(executable);
        daemon.terminate();
        daemon.restart();
        exact(&daemon, &sim, &loads);
        // An optimised build may have the number in its instructions, where it is not found.
        println!("{} now", daemon.status().daemon.version);
        let about = std::fs::read_link(format!("/proc/{}/exe", daemon.pid())).unwrap();
        assert_eq!(about, executable.canonicalize().unwrap());
    }
    daemon.set("b", "memory", "1GiB").unwrap();
    for (_, load) in &loads {
        load.goes_on(10);
    }
    for (_, load) in loads {
        assert_eq!(load.end().ok().stderr, "");
    }
}
