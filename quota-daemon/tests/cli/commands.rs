//! The commands that ask a daemon, against a control socket with a small manager behind it.

use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use quota_daemon::api::{Change, Kind, Manager, Refused};
use quota_daemon::control::Server;
use quota_daemon::report::{Container, Daemon, Process, Status, VERSION, Why};
use quota_daemon::{config, model, report};

use crate::support::{daemon, err, out};

/// Declarations, and nothing that runs.
#[derive(Default)]
struct Small(Mutex<Vec<model::Spec>>);

impl Small {
    fn container(spec: &model::Spec) -> Container {
        let quota = spec.every.unwrap_or_default();
        let share = report::Share {
            uuid: model::Uuid([7; 16]),
            memory_limit_bytes: quota.memory_bytes,
            memory_used_bytes: 0,
            memory_overhead_bytes: 0,
            memory_dead_bytes: 0,
            memory_peak_bytes: 0,
            refusals: 0,
            compute: quota.compute,
            observe: quota.observe,
            priority: quota.priority,
            own_percent: None,
            now_percent: None,
            got_percent: None,
            active: false,
            gpu_time_ns: 0,
            waited_ns: 0,
            waits: 0,
            launches: 0,
            forced: 0,
            measured_ns: 0,
            estimated_ns: 0,
        };
        Container {
            name: spec.name.clone(),
            origin: spec.origin,
            socket: String::new(),
            device: None,
            processes: 0,
            damage: None,
            devices: vec![share],
        }
    }

    fn find(&self, name: &str) -> Result<(), Refused> {
        let known = self.0.lock().unwrap().iter().any(|spec| spec.name == name);
        known.then_some(()).ok_or_else(|| Refused {
            kind: Kind::NotFound,
            text: format!("there is no container {name:?}"),
        })
    }
}

impl Manager for Small {
    fn status(&self) -> Status {
        Status {
            version: VERSION,
            daemon: Daemon {
                pid: 1,
                version: "0".into(),
                started_at: 0,
                state: "/x".into(),
                warnings: Vec::new(),
            },
            devices: Vec::new(),
            containers: self.0.lock().unwrap().iter().map(Self::container).collect(),
        }
    }

    fn processes(&self, container: Option<&str>) -> Result<Vec<Process>, Refused> {
        container.map_or(Ok(()), |name| self.find(name))?;
        Ok(Vec::new())
    }

    fn why(&self, container: &str) -> Result<Why, Refused> {
        self.find(container)?;
        Ok(Why {
            version: VERSION,
            container: container.into(),
            refusals: Vec::new(),
            waits: Vec::new(),
        })
    }

    fn set(&self, change: &Change) -> Result<Container, Refused> {
        let mut specs = self.0.lock().unwrap();
        let known = specs.iter_mut().find(|spec| spec.name == change.container);
        if let Some(spec) = known {
            config::apply(change, spec, &[], None)?;
            return Ok(Self::container(spec));
        }
        let mut spec = model::Spec {
            name: change.container.clone(),
            origin: model::Origin::Api,
            cgroups: Vec::new(),
            every: None,
            devices: Default::default(),
        };
        config::apply(change, &mut spec, &[], None)?;
        specs.push(spec.clone());
        Ok(Self::container(&spec))
    }

    fn remove(&self, container: &str) -> Result<(), Refused> {
        self.find(container)?;
        let mut specs = self.0.lock().unwrap();
        specs.retain(|spec| spec.name != container);
        Ok(())
    }

    fn reload(&self) -> Result<Vec<String>, Refused> {
        Err(Refused {
            kind: Kind::Failed,
            text: "c.toml:1:1: nonsense".into(),
        })
    }
}

/// A daemon that does not enforce anything.
struct Place {
    folder: tempfile::TempDir,
    _server: Server,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control.sock");
        let metrics = Arc::new(|status: &Status| format!("up {}\n", status.daemon.pid));
        let server = Server::start(&socket, None, Arc::new(Small::default()), metrics).unwrap();
        Self {
            folder,
            _server: server,
        }
    }

    fn ask(&self, words: &[&str]) -> Output {
        ask(self.folder.path(), words)
    }
}

fn ask(state: &Path, words: &[&str]) -> Output {
    daemon()
        .args(words)
        .arg("--state")
        .arg(state)
        .output()
        .unwrap()
}

const COMMANDS: [&[&str]; 8] = [
    &["status"],
    &["status", "--json"],
    &["ps"],
    &["why", "a"],
    &["set", "a", "--memory", "1g"],
    &["remove", "a"],
    &["reload"],
    &["metrics"],
];

#[test]
fn an_absent_daemon_is_4_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control.sock");
    for words in COMMANDS {
        let output = ask(folder.path(), words);
        assert_eq!(output.status.code(), Some(4), "{words:?}");
        let said = err(&output);
        assert!(said.contains(socket.to_str().unwrap()), "{said}");
        assert!(said.contains("quota-daemon serve"), "{said}");
        assert!(out(&output).is_empty());
    }
    // The variable names the place as well.
    let mut command = daemon();
    command.arg("status").env("GPU_QUOTA_STATE", folder.path());
    let output = command.output().unwrap();
    assert!(err(&output).contains(socket.to_str().unwrap()));
}

#[test]
fn a_container_is_made_changed_shown_and_removed() {
    let place = Place::new();
    let made = place.ask(&[
        "set", "a", "--create", "--memory", "4GiB", "--weight", "5", "--json",
    ]);
    assert!(made.status.success(), "{}", err(&made));
    let json: serde_json::Value = serde_json::from_str(&out(&made)).unwrap();
    assert_eq!(json["devices"][0]["memory_limit_bytes"], 4_u64 << 30);
    assert_eq!(json["devices"][0]["weight"], 5);

    let changed = place.ask(&[
        "set",
        "a",
        "--memory",
        "2GiB",
        "--priority",
        "-3",
        "--observe",
    ]);
    let text = out(&changed);
    let row = text.lines().nth(1).unwrap();
    for part in ["2 GiB", "weight 5", "by set, observed only, priority -3"] {
        assert!(row.contains(part), "{text}");
    }
    let json = out(&place.ask(&["status", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["containers"][0]["devices"][0]["priority"], -3);
    let table = out(&place.ask(&["status"]));
    assert!(
        table.contains("CONTAINER") && !table.contains('\x1b'),
        "{table}"
    );

    assert!(out(&place.ask(&["why", "a"])).contains("no refusals of memory"));
    assert_eq!(out(&place.ask(&["ps", "a", "--json"])), "[]\n");
    assert!(place.ask(&["remove", "a"]).status.success());
    let gone = place.ask(&["why", "a"]);
    assert_eq!(gone.status.code(), Some(3));
    assert!(err(&gone).contains("no container \"a\""), "{}", err(&gone));
}

#[test]
fn what_is_refused_ends_with_the_code_of_its_kind() {
    let place = Place::new();
    for (words, code, told) in [
        (&["set", "a"][..], 2, "nothing to change"),
        (&["set", "a", "--create"], 2, "say the memory of a"),
        (
            &["set", "a", "--create", "--memory", "much"],
            2,
            "memory \"much\" is not a positive number",
        ),
        (
            &["set", "a", "--compute", "30%", "--weight", "5"],
            2,
            "cannot be used with",
        ),
        (
            &["set", "a/b", "--memory", "1g"],
            2,
            "\"a/b\" may have letters",
        ),
        (&["ps", "nobody"], 3, "no container \"nobody\""),
        (&["remove", "nobody"], 3, "no container \"nobody\""),
        (&["reload"], 1, "c.toml:1:1: nonsense"),
    ] {
        let output = place.ask(words);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}",
            err(&output)
        );
        assert!(err(&output).contains(told), "{}", err(&output));
    }
}

#[test]
fn metrics_are_printed_as_they_are() {
    assert_eq!(out(&Place::new().ask(&["metrics"])), "up 1\n");
}

#[test]
fn a_configuration_is_examined_without_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    let check = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let mut command = daemon();
        command.arg("check-config").arg(&file).args(more);
        command.output().unwrap()
    };
    let good = check("[[container]]\nname = \"a\"\nmemory = \"4GiB\"\n", &[]);
    assert!(good.status.success());
    assert!(
        out(&good).contains("a          all   4 GiB  free"),
        "{}",
        out(&good)
    );

    let wrong = "[[container]]\nname = \"a\"\nmemori = \"4GiB\"\n";
    let bad = check(wrong, &[]);
    assert_eq!(bad.status.code(), Some(1));
    let place = format!("{}:3:1: ", file.display());
    assert!(err(&bad).contains(&place), "{}", err(&bad));
    assert!(err(&bad).contains("did you mean memory?"));
    let json: serde_json::Value = serde_json::from_str(&out(&check(wrong, &["--json"]))).unwrap();
    assert_eq!(
        (&json["ok"], &json["problems"][1]["line"]),
        (&false.into(), &3.into())
    );
    let mut command = daemon();
    command.args(["check-config", "/nonexistent/c.toml"]);
    let missing = command.output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(err(&missing).contains("/nonexistent/c.toml: No such file"));
}

#[test]
fn there_is_a_page_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = daemon();
    command.args(["man", "--dir"]).arg(folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    for name in [
        "",
        "-run",
        "-set",
        "-why",
        "-status",
        "-check-config",
        "-cdi",
        "-cdi-generate",
        "-cdi-list",
        "-man",
    ] {
        let page = folder.path().join(format!("quota-daemon{name}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(".TH"), "{}", page.display());
    }
    assert!(!folder.path().join("quota-daemon-probe.1").exists());
    let page = out(&daemon().args(["man", "set"]).output().unwrap());
    assert!(
        page.contains("quota\\-daemon\\-set") && page.contains("\\-\\-weight"),
        "{page}"
    );
    let page = out(&daemon().args(["man", "cdi", "list"]).output().unwrap());
    assert!(page.contains("quota\\-daemon\\-cdi\\-list"), "{page}");
    let none = daemon().args(["man", "nothing"]).output().unwrap();
    assert_eq!(none.status.code(), Some(3));
}
