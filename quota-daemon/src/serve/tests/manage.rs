//! Limits that change while processes run, and what is kept of that.

use super::*;
use crate::api::{Change, Kind};
use crate::model::Origin;
use quota_abi::sync::Ordering;
use quota_abi::wire::Status;

const TWO: &str = "[[container]]\nname = \"a\"\nmemory = \"4GiB\"\ncompute = \"30%\"\n\
                   [[container]]\nname = \"b\"\nmemory = \"8GiB\"\nweight = 1\n";

fn memory(container: &str, memory: &str) -> Change {
    Change {
        container: container.into(),
        memory: Some(memory.into()),
        ..Change::default()
    }
}

fn limit(daemon: &Daemon, container: &str) -> Option<u64> {
    let status = daemon.manager().status();
    let found = status
        .containers
        .into_iter()
        .find(|of| of.name == container);
    found.and_then(|container| container.devices[0].memory_limit_bytes)
}

#[test]
fn a_limit_is_changed_while_a_process_looks_at_it() {
    let daemon = Daemon::start(TWO);
    let attached = attach(&daemon.socket("a"));
    let row = attached.policy.get().row(&GPU.0).unwrap();
    let generation = &attached.policy.get().header.generation;
    let (before, woken) = (
        generation.load(Ordering::Relaxed),
        row.wake.load(Ordering::Relaxed),
    );
    let report = daemon.manager().set(&memory("a", "6GiB")).unwrap();
    assert_eq!(report.devices[0].memory_limit_bytes, Some(6 << 30));
    assert_eq!(row.memory.load(Ordering::Relaxed), 6 << 30);
    assert_eq!(generation.load(Ordering::Relaxed), before + 1);
    assert_ne!(row.wake.load(Ordering::Relaxed), woken);
}

#[test]
fn more_than_there_is_is_promised_to_nobody() {
    let mut daemon = Daemon::start(TWO);
    let refused = daemon.manager().set(&memory("a", "9GiB")).unwrap_err();
    assert_eq!(refused.kind, Kind::Failed);
    assert!(
        refused.text.contains("17 GiB") && refused.text.contains("1 GiB too much"),
        "{refused}"
    );
    assert_eq!(limit(&daemon, "a"), Some(4 << 30));

    *daemon.config.lock() = TWO.replace("8GiB", "13GiB");
    assert!(daemon.manager().reload().is_err());
    assert_eq!(limit(&daemon, "b"), Some(8 << 30));
    daemon.running = None;
    let refused = daemon.try_start().err().unwrap();
    assert!(refused.to_string().contains("oversubscribe"), "{refused}");
    *daemon.config.lock() = format!(
        "{}[daemon]\noversubscribe = true\n",
        TWO.replace("8GiB", "13GiB")
    );
    daemon.restart();
    assert_eq!(limit(&daemon, "b"), Some(13 << 30));
}

#[test]
fn live_changes_and_made_containers_outlive_the_daemon() {
    let mut daemon = Daemon::start(TWO);
    let made = Change {
        create: true,
        ..memory("c", "1GiB")
    };
    assert_eq!(daemon.manager().set(&made).unwrap().origin, Origin::Api);
    daemon.manager().set(&memory("a", "5GiB")).unwrap();
    daemon.restart();
    assert_eq!(
        (limit(&daemon, "a"), limit(&daemon, "c")),
        (Some(5 << 30), Some(1 << 30))
    );
    // The configuration has said nothing else since, and then it does.
    assert_eq!(daemon.manager().reload().unwrap(), Vec::<String>::new());
    assert_eq!(limit(&daemon, "a"), Some(5 << 30));
    *daemon.config.lock() = TWO.replace("4GiB", "3GiB");
    assert_eq!(
        daemon.manager().reload().unwrap(),
        ["container a is changed"]
    );
    assert_eq!(limit(&daemon, "a"), Some(3 << 30));
    daemon.manager().remove("c").unwrap();
    daemon.restart();
    assert_eq!(
        (limit(&daemon, "a"), limit(&daemon, "c")),
        (Some(3 << 30), None)
    );
}

#[test]
fn a_container_that_is_declared_no_longer_goes_with_its_last_process() {
    let daemon = Daemon::start(TWO);
    let attached = attach(&daemon.socket("a"));
    *daemon.config.lock() = String::new();
    let mut changes = daemon.manager().reload().unwrap();
    changes.sort();
    assert_eq!(
        changes,
        [
            "container a goes when its processes have ended",
            "container b is gone"
        ]
    );
    assert_eq!(limit(&daemon, "a"), Some(4 << 30), "it stays limited");
    assert!(!daemon.state().join("containers/b").exists());
    let row = attached.policy.get().row(&GPU.0).unwrap();
    assert_eq!(row.memory.load(Ordering::Relaxed), 4 << 30);
}

#[test]
fn who_has_no_container_is_told_what_there_is_and_the_configured_stay() {
    let daemon = Daemon::start(TWO);
    let manager = daemon.manager();
    assert_eq!(manager.why("x").unwrap_err().kind, Kind::NotFound);
    assert_eq!(
        manager.processes(Some("x")).unwrap_err().kind,
        Kind::NotFound
    );
    assert_eq!(
        manager.set(&memory("x", "1GiB")).unwrap_err().kind,
        Kind::NotFound
    );
    assert_eq!(manager.remove("x").unwrap_err().kind, Kind::NotFound);
    assert_eq!(manager.remove("a").unwrap_err().kind, Kind::Failed);
    let bad = Change {
        create: true,
        ..memory("../x", "1GiB")
    };
    assert_eq!(manager.set(&bad).unwrap_err().kind, Kind::Usage);
}

#[test]
fn the_default_rule_makes_a_container_of_a_cgroup() {
    let daemon = Daemon::start("[default]\nmemory = \"2GiB\"\n");
    let (answer, files) = ask(&daemon.state().join("host.sock"), &question()).unwrap();
    let own = std::fs::read("/proc/self/cgroup").unwrap();
    if quota_abi::cgroups::path_of(&own) == b"/" {
        assert_eq!(answer.status, Status::NoRule);
        return;
    }
    assert_eq!(
        (answer.status, files.len()),
        (Status::Granted, 2),
        "{}",
        answer.text
    );
    let status = daemon.manager().status();
    assert_eq!(status.containers[0].name, answer.container);
    assert_eq!(status.containers[0].origin, Origin::Default);
    let rules = std::fs::read_to_string(daemon.state().join("host.cgroups")).unwrap();
    assert!(rules.contains("/**"), "{rules}");
}

#[test]
fn a_container_of_run_goes_some_time_after_its_last_process() {
    let daemon = Daemon::start(TWO);
    let made = Change {
        create: true,
        transient: true,
        ..memory("r", "1GiB")
    };
    assert_eq!(daemon.manager().set(&made).unwrap().origin, Origin::Run);
    let regions = daemon.state().join("regions/r.policy.1");
    assert!(regions.exists() && daemon.socket("r").exists());
    let core = daemon.running.as_ref().unwrap().core();
    let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
    core.lock().containers.get_mut("r").unwrap().empty_since = long_ago;
    core.nudge();
    wait_until("its end", || limit(&daemon, "r").is_none());
    assert!(!regions.exists() && !daemon.state().join("containers/r").exists());
    assert_eq!(limit(&daemon, "a"), Some(4 << 30));
}
