//! Tenants that do what they can: each test runs one program of `programs/hostile_*.c` in a container of its own, beside a
//! container that works, and looks at what came of it. `docs/threat-model.md` has the table.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use quota_tests::{
    Client, Daemon, Finished, GIB, Load, MIB, Running, Sim, Work, full, is_root, program,
};

const CONTEXT: u64 = 300 * MIB;
const LIMIT: u64 = 2 * GIB;
/// What the daemon may have logged: a line a question would be a way to fill a disk.
const LOG: usize = 256 << 10;
/// What the daemon may have grown by when everything is over. Its allocator keeps some of what it had.
const GROWTH: u64 = 8 * MIB;

const CONFIG: &str = r#"
[daemon]
context = "300MiB"

[[container]]
name = "honest"
memory = "2GiB"
compute = "40%"

[[container]]
name = "hostile"
memory = "1GiB"
compute = "20%"
"#;

/// A daemon, an honest container that works, and what the daemon had before anything happened.
struct Scene<'a> {
    sim: &'a Sim,
    daemon: Daemon<'a>,
    load: Load,
    pid: u32,
    resident: u64,
    descriptors: usize,
}

impl<'a> Scene<'a> {
    fn new(sim: &'a Sim) -> Self {
        Self::of(sim, Daemon::start(sim, CONFIG))
    }

    fn of(sim: &'a Sim, daemon: Daemon<'a>) -> Self {
        sim.allow("honest", "2GiB");
        let work = Work {
            seed: 1,
            kernel_ns: 200_000,
            most_mib: 1000,
        };
        let load = Load::start(daemon.client("honest", "load"), work);
        // Whatever is made at the first process of a container and at the first question has been made.
        let _ = daemon.client("hostile", "hold").arg("1").run().ok();
        let _ = daemon.why("honest");
        daemon.wait("its end to be seen", |daemon| {
            daemon.container("hostile").processes == 0
        });
        load.goes_on(20);
        Self {
            sim,
            pid: daemon.pid(),
            resident: daemon.resident(),
            descriptors: daemon.descriptors(),
            daemon,
            load,
        }
    }

    /// The hostile program, of which it is known that it has begun.
    #[track_caller]
    fn beside(&self, name: &str, arguments: &[&str]) -> Running {
        let mut hostile = self.daemon.client("hostile", name).args(arguments).spawn();
        hostile.line("begun");
        hostile
    }

    /// The honest container gets what it is promised, and the daemon answers.
    #[track_caller]
    fn holds(&self) {
        let begin = Instant::now();
        let status = self.daemon.status();
        let answered = begin.elapsed();
        let share = status.share("honest");
        assert_eq!(share.memory_limit_bytes, Some(LIMIT));
        assert_eq!(share.own_percent, Some(40.0));
        assert_eq!(status.container("honest").damage, None);
        assert_eq!(status.share("hostile").memory_limit_bytes, Some(GIB));

        self.load.goes_on(20);
        // A new process is let in, and gets what is left, and no more.
        let begin = Instant::now();
        let mut next = self.daemon.client("honest", "hold").arg("100").spawn();
        assert_eq!(next.line("result"), "result=0");
        let let_in = begin.elapsed();
        let more = self.daemon.client("honest", "hold").arg("1400").run().ok();
        assert_eq!(more.number("result"), 2);
        // Nor later than the library would wait for a daemon that is away.
        assert!(let_in < Duration::from_secs(5), "let in after {let_in:?}");

        self.load.hold_still();
        self.daemon.wait("the third to be gone", |daemon| {
            daemon.container("honest").processes == 2
        });
        let held = self.load.progress().held + 100 * MIB + 2 * CONTEXT;
        assert_eq!(self.daemon.share("honest").memory_used_bytes, held);
        let account = self.sim.account();
        let tenants = account.devices[0].tenants.iter();
        let tenant = tenants
            .clone()
            .find(|tenant| tenant.label == "honest")
            .unwrap();
        assert_eq!(tenant.requested, held - 2 * CONTEXT);
        self.load.go_on();
        println!("status after {answered:?}, a new process after {let_in:?}");
    }

    /// The daemon is the same, and no larger than before.
    #[track_caller]
    fn end(self) {
        assert!(self.daemon.alive(), "{}", self.daemon.log());
        assert_eq!(self.daemon.pid(), self.pid);
        let Self { daemon, load, .. } = self;
        assert_eq!(load.end().ok().stderr, "");
        daemon.wait("all ends to be seen", |daemon| {
            daemon.container("honest").processes == 0 && daemon.container("hostile").processes == 0
        });
        daemon.wait("descriptors to be closed", |daemon| {
            daemon.descriptors() <= self.descriptors
        });
        let grown = daemon.resident().saturating_sub(self.resident);
        println!("the daemon has grown by {} KiB", grown / 1024);
        assert!(grown < GROWTH, "by {grown} bytes");
        let log = daemon.log();
        assert!(!log.contains("panicked"), "{log}");
        assert!(
            log.len() < LOG,
            "{} bytes of log: {}",
            log.len(),
            &log[..2000]
        );
        // What it held beyond its ledger is gone when NVML says so.
        daemon.wait("NVML to tell", |daemon| {
            daemon.share("hostile").memory_overhead_bytes == 0
        });
        // And whoever was hostile may behave from now on.
        let _ = daemon.client("hostile", "hold").arg("600").run().ok();
    }
}

/// One program against the scene: while it is at it, and after it has ended.
#[track_caller]
fn withstands(name: &str, arguments: &[&str]) -> Finished {
    let sim = Sim::new();
    let scene = Scene::new(&sim);
    let mut hostile = scene.beside(name, arguments);
    scene.holds();
    if full() {
        std::thread::sleep(Duration::from_secs(10));
        scene.holds();
    }
    hostile.go_on();
    let finished = hostile.finish();
    scene.holds();
    scene.end();
    finished
}

/// The same with damage that no honest process can have done: `status` says so.
#[track_caller]
fn is_told(name: &str, arguments: &[&str]) {
    let sim = Sim::new();
    let scene = Scene::new(&sim);
    let mut hostile = scene.beside(name, arguments);
    scene.holds();
    let damage = scene.daemon.container("hostile").damage;
    println!("damage: {damage:?}");
    assert!(damage.is_some());
    hostile.go_on();
    let _ = hostile.finish();
    scene.holds();
    scene.end();
}

#[test]
fn random_words_in_its_usage() {
    withstands("hostile_usage", &["random"]);
}

#[test]
fn all_ones_in_its_usage() {
    is_told("hostile_usage", &["ones"]);
}

#[test]
fn owners_that_are_made_up() {
    withstands("hostile_usage", &["owners"]);
}

#[test]
fn sizes_beyond_everything() {
    is_told("hostile_usage", &["sizes"]);
}

#[test]
fn usage_that_is_truncated() {
    is_told("hostile_usage", &["truncate"]);
}

#[test]
fn usage_with_holes() {
    withstands("hostile_usage", &["punch"]);
}

#[test]
fn usage_that_is_leased_and_locked() {
    let finished = withstands("hostile_usage", &["lease"]);
    println!("{}", finished.stdout);
}

#[test]
fn usage_that_nobody_may_open() {
    let finished = withstands("hostile_usage", &["mode"]);
    println!("{}", finished.stdout);
}

/// It may fill up its own file, and not what the others' files, and those of containers to come, are made of.
#[test]
fn usage_that_grows() {
    let sim = Sim::new();
    if !is_root() {
        return println!("skipped: a file system of the daemon's own needs root");
    }
    let scene = Scene::of(&sim, Daemon::mounting(&sim, CONFIG));
    let mut hostile = scene.beside("hostile_usage", &["grow"]);
    scene.holds();
    let change = serde_json::json!({"request": "set", "container": "late", "create": true, "memory": "1GiB"});
    scene.daemon.ask::<serde_json::Value>(&change).unwrap();
    let late = scene.daemon.client("late", "hold").arg("100").run().ok();
    assert_eq!(late.number("result"), 0);
    let change = serde_json::json!({"request": "remove", "container": "late"});
    scene.daemon.wait("it to be gone", |daemon| {
        daemon.container("late").processes == 0
    });
    scene.daemon.ask::<serde_json::Value>(&change).unwrap();
    let grown: u64 = hostile.line("grown=")["grown=".len()..].parse().unwrap();
    println!("the file grew to {grown} bytes");
    assert!(grown <= 256 * MIB, "{grown} bytes of the host's memory");
    hostile.go_on();
    let _ = hostile.finish();
    scene.holds();
    scene.end();
}

/// It says that it holds nothing. Its own processes believe it; NVML does not.
#[test]
fn usage_that_is_denied() {
    let sim = Sim::new();
    let scene = Scene::new(&sim);
    let mut hostile = scene.beside("hostile_usage", &["release"]);
    println!("{}", hostile.line("got="));
    scene.daemon.wait("NVML to tell", |daemon| {
        let share = daemon.share("hostile");
        share.memory_used_bytes + share.memory_overhead_bytes >= GIB
    });
    println!("{:?}", scene.daemon.share("hostile"));
    scene.holds();
    hostile.go_on();
    let _ = hostile.finish();
    scene.end();
}

#[test]
fn connections_that_never_ask() {
    withstands("hostile_socket", &["silent"]);
}

#[test]
fn connections_that_ask_half() {
    withstands("hostile_socket", &["half"]);
}

#[test]
fn ten_thousand_connections() {
    withstands("hostile_socket", &["flood"]);
}

#[test]
fn answers_that_nobody_takes() {
    withstands("hostile_socket", &["deaf"]);
}

#[test]
fn messages_that_are_no_questions() {
    withstands("hostile_socket", &["malformed"]);
}

#[test]
fn descriptors_beside_questions() {
    withstands("hostile_socket", &["descriptors"]);
}

#[test]
fn views_without_end() {
    withstands("hostile_socket", &["views"]);
}

/// The pid in a question is compared with what the kernel says: the other process is neither registered nor ended by it.
#[test]
fn in_the_name_of_another_process() {
    let sim = Sim::new();
    let scene = Scene::new(&sim);
    let other = scene.load.pid().to_string();
    let hostile = scene
        .daemon
        .client("hostile", "hostile_socket")
        .args(["pid", &other])
        .run()
        .ok();
    println!("{}", hostile.stdout);
    assert_ne!(hostile.value("status"), "0", "granted");
    let pids = |name| {
        scene
            .daemon
            .processes(name)
            .iter()
            .map(|one| one.pid)
            .collect::<Vec<_>>()
    };
    assert_eq!(pids("honest"), [scene.load.pid()]);
    assert_eq!(pids("hostile"), [0; 0]);
    scene.holds();
    scene.end();
}

#[test]
fn the_bell_without_a_pause() {
    let sim = Sim::new();
    let scene = Scene::new(&sim);
    let mut hostile = scene.beside("hostile_bell", &[]);
    let (cpu, begin) = (scene.daemon.cpu(), Instant::now());
    std::thread::sleep(Duration::from_secs(if full() { 10 } else { 1 }));
    let percent = (scene.daemon.cpu() - cpu).as_secs_f64() * 100.0 / begin.elapsed().as_secs_f64();
    println!("{percent:.1} % of a core");
    assert!(percent < 30.0, "{percent}");
    scene.holds();
    hostile.go_on();
    println!("{}", hostile.finish().ok().stdout);
    scene.end();
}

#[test]
fn children_that_attach_and_are_killed() {
    withstands("hostile_forks", &["loop"]);
}

/// As many as there are slots, and some more.
#[test]
fn more_processes_than_there_are_slots() {
    let finished = withstands("hostile_forks", &["crowd"]).ok();
    let granted = finished.number("granted");
    println!("{granted} of 600");
    assert!((500..=512).contains(&granted), "{granted}");
}

/// `name=errno` of each try that the program printed.
fn tries(text: &str) -> Vec<(&str, i32)> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines
        .filter_map(|(name, code)| Some((name, code.parse().ok()?)))
        .collect()
}

/// The descriptor that a tenant has of its policy cannot be written, nor opened again for it, by root neither.
#[test]
fn the_policy_by_its_descriptor() {
    if !is_root() {
        return println!("skipped: a file system of the daemon's own needs root");
    }
    let sim = Sim::new();
    let scene = Scene::of(&sim, Daemon::mounting(&sim, CONFIG));
    let mut hostile = scene
        .daemon
        .client("hostile", "hostile_policy")
        .arg("write")
        .spawn();
    hostile.line("tried");
    scene.holds();
    hostile.go_on();
    let finished = hostile.finish().ok();
    println!("{}", finished.stdout);
    let tries = tries(&finished.stdout);
    assert!(tries.len() >= 19, "{tries:?}");
    for (name, code) in tries {
        assert_ne!(code, 0, "{name} succeeded");
    }
    scene.end();
}

/// Nor by its name, where the container sees that at all.
#[test]
fn the_policy_by_its_name() {
    if !is_root() {
        return println!("skipped: another user needs root");
    }
    let sim = Sim::new();
    let scene = Scene::new(&sim);
    let policy = scene.daemon.state().join("regions/honest.policy.1");
    assert!(policy.exists());
    let hostile = nobody(&scene, "hostile_policy")
        .arg("path")
        .arg(&policy)
        .run()
        .ok();
    println!("{}", hostile.stdout);
    let tries = tries(&hostile.stdout);
    assert!(tries.len() >= 5, "{tries:?}");
    for (name, code) in tries {
        assert_ne!(code, 0, "{name} succeeded");
    }
    scene.holds();
    scene.end();
}

/// A program of the hostile container as the user `nobody`, without the library.
fn nobody(scene: &Scene<'_>, name: &str) -> Client {
    let setpriv = scene
        .daemon
        .command_in("hostile", Path::new("/usr/bin/setpriv"))
        .bare();
    setpriv
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program(name))
}

/// It maps pages of its own over the library's mapping: harms itself alone, and shows by NVML.
#[test]
fn pages_over_its_policy() {
    let sim = Sim::new();
    let scene = Scene::new(&sim);
    let mut hostile = scene
        .daemon
        .client("hostile", "hostile_policy")
        .args(["over", "3000"])
        .spawn();
    println!("{}", hostile.line("got="));
    hostile.line("tried");
    let begin = Instant::now();
    scene.daemon.wait("status to show it", |daemon| {
        let share = daemon.share("hostile");
        share.memory_used_bytes + share.memory_overhead_bytes > 3000 * MIB
    });
    println!(
        "shown after {:?}: {:?}",
        begin.elapsed(),
        scene.daemon.share("hostile")
    );
    // Its honest siblings pay for it.
    let sibling = scene.daemon.client("hostile", "hold").arg("1").run();
    assert!(
        !sibling.success(),
        "not even a context is left: {sibling:?}"
    );
    scene.holds();
    hostile.go_on();
    let _ = hostile.finish().ok();
    scene.end();
}

/// A process without the library is limited by nobody, and is seen.
#[test]
fn without_the_library() {
    let sim = Sim::new();
    let scene = Scene::new(&sim);
    let begin = Instant::now();
    let mut hostile = scene
        .daemon
        .client("hostile", "hold")
        .bare()
        .arg("3000")
        .spawn();
    assert_eq!(hostile.line("result"), "result=0");
    let pid = hostile.pid();
    let mut seen = None;
    scene.daemon.wait("status to show it", |daemon| {
        let devices = daemon.status().devices;
        seen = devices[0]
            .unregistered
            .iter()
            .find(|one| one.pid == pid)
            .cloned();
        seen.is_some()
    });
    let seen = seen.unwrap();
    println!("seen after {:?}: {seen:?}", begin.elapsed());
    assert_eq!(seen.bytes, Some(3000 * MIB + CONTEXT));
    let metrics: serde_json::Value = scene
        .daemon
        .ask(&serde_json::json!({"request": "metrics"}))
        .unwrap();
    assert!(metrics.to_string().contains("unregistered"), "{metrics}");
    assert!(
        scene.daemon.log().contains(&pid.to_string()),
        "{}",
        scene.daemon.log()
    );
    scene.holds();
    hostile.go_on();
    let _ = hostile.finish().ok();
    scene.daemon.wait("its end to be seen", |daemon| {
        daemon.status().devices[0].unregistered.is_empty()
    });
    scene.end();
}
