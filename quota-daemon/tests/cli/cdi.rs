//! `cdi generate` and `cdi list`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::serving::Daemon;
use crate::support::{daemon, err, out};

/// A configuration of two containers, and a file that stands for the library.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(config: &str) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(place.path("config.toml"), config).unwrap();
        std::fs::write(place.path("libquota_shim.so"), b"").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn generate(&self, more: &[&str]) -> Output {
        self.generate_in(&self.path("state"), more)
    }

    fn generate_in(&self, state: &Path, more: &[&str]) -> Output {
        let mut command = daemon();
        command.args(["cdi", "generate", "--config"]);
        command.arg(self.path("config.toml"));
        command.arg("--state").arg(state);
        command.env("GPU_QUOTA_SHIM", self.path("libquota_shim.so"));
        command.args(more).output().unwrap()
    }

    fn list(&self, more: &[&str]) -> Output {
        let mut command = daemon();
        command.args(["cdi", "list", "--config"]);
        command.arg(self.path("config.toml"));
        command.arg("--dir").arg(self.path("cdi"));
        command.args(more).output().unwrap()
    }
}

const TWO: &str = "[[container]]\nname = \"team-a\"\nmemory = \"4GiB\"\n[[container]]\nname = \"7b\"\nmemory = \"none\"\n";

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", err(output));
    serde_json::from_str(&out(output)).unwrap()
}

#[test]
fn all_configured_containers_are_devices() {
    let place = Place::new(TWO);
    let spec = json(&place.generate(&[]));
    assert_eq!(spec["cdiVersion"], "0.5.0");
    assert_eq!(spec["kind"], "gpu-quota.io/container");
    assert_eq!(spec["devices"][0]["name"], "7b");
    assert_eq!(spec["devices"][1]["name"], "team-a");
    let mount = &spec["devices"][1]["containerEdits"]["mounts"][0];
    let host = place.path("state/containers/team-a");
    assert_eq!(mount["hostPath"], host.to_str().unwrap());
    assert_eq!(mount["containerPath"], "/run/gpu-quota/container");
}

#[test]
fn a_file_is_written_with_what_is_typed_next() {
    let place = Place::new(TWO);
    let folder = place.path("cdi");
    let output = place.generate(&[
        "team-a",
        "--kind",
        "example.com/gpu",
        "--output",
        folder.to_str().unwrap(),
    ]);
    let file = folder.join("example.com-gpu.json");
    assert_eq!(
        out(&output),
        format!(
            "{}: 1 device\n--device example.com/gpu=team-a\n",
            file.display()
        )
    );
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777,
        0o644
    );
    let spec: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(spec["cdiVersion"], "0.3.0");
    let named = place.path("other/x.yaml");
    assert!(
        place
            .generate(&["--output", named.to_str().unwrap()])
            .status
            .success()
    );
    assert!(named.is_file());
}

/// Of two files with one device in a directory runtimes take neither.
#[test]
fn a_device_is_not_written_beside_another_file_that_has_it() {
    let place = Place::new(TWO);
    let folder = place.path("cdi");
    let write = |more: &[&str], to: &Path| {
        place.generate(&[more, &["--output", to.to_str().unwrap()]].concat())
    };
    assert!(write(&["7b"], &folder.join("x.json")).status.success());
    let both = write(&[], &folder);
    assert_eq!(both.status.code(), Some(1));
    let text = err(&both);
    assert!(
        text.contains("x.json has gpu-quota.io/container=7b"),
        "{text}"
    );
    assert!(write(&["team-a"], &folder).status.success());
    assert!(
        write(&["7b"], &folder.join("x.json")).status.success(),
        "its own file"
    );
    assert!(write(&["--kind", "other.io/gpu"], &folder).status.success());
}

#[test]
fn what_cannot_be_is_told() {
    let place = Place::new(TWO);
    let told = |more: &[&str], code: i32, parts: &[&str]| {
        let output = place.generate(more);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{more:?}: {}",
            err(&output)
        );
        for part in parts {
            assert!(err(&output).contains(part), "{more:?}: {}", err(&output));
        }
    };
    told(&["nobody"], 3, &["no container nobody", "7b, team-a"]);
    told(&["team-b"], 3, &["did you mean team-a?"]);
    told(&["--kind", "mine"], 2, &["gpu-quota.io/container"]);
    told(&["--preload", "always"], 2, &["replace, env, none"]);
    let file = place.path("config.toml/cdi");
    let file = file.to_str().unwrap();
    told(&["--output", file], 1, &[file, "--output"]);
    let missing = place.path("none.so");
    told(&["--shim", missing.to_str().unwrap()], 3, &["none.so"]);

    let odd = Place::new(&TWO.replace("7b", "_b"));
    let output = odd.generate(&[]);
    assert_eq!(json(&output)["devices"].as_array().unwrap().len(), 1);
    assert!(err(&output).contains("\"_b\""), "{}", err(&output));
    assert_eq!(odd.generate(&["_b"]).status.code(), Some(2));
    let none = Place::new("").generate(&[]);
    assert_eq!(none.status.code(), Some(3));
    assert!(err(&none).contains("[[container]]"), "{}", err(&none));
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    let place = Place::new(TWO);
    let folder = place.path("cdi");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).unwrap();
    std::fs::set_permissions(place.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    // The binary may lie where that user does not come.
    let binary = place.path("quota-daemon");
    std::fs::copy(env!("CARGO_BIN_EXE_quota-daemon"), &binary).unwrap();
    command
        .arg(&binary)
        .args(["cdi", "generate", "--output"])
        .arg(&folder);
    command.arg("--config").arg(place.path("config.toml"));
    command.arg("--shim").arg(place.path("libquota_shim.so"));
    command.env_clear().stdin(Stdio::null());
    let Ok(output) = command.output() else {
        return println!("skipped: no setpriv");
    };
    if err(&output).starts_with("setpriv:") {
        return println!("skipped: another user needs root");
    }
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let text = err(&output);
    assert!(
        text.contains(folder.to_str().unwrap()) && text.contains("Permission denied"),
        "{text}"
    );
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn a_list_says_what_a_container_would_meet() {
    let place = Place::new(TWO);
    let none = place.list(&[]);
    assert_eq!(none.status.code(), Some(3));
    assert!(err(&none).contains("cdi generate"), "{}", err(&none));

    let folder = place.path("cdi");
    assert!(
        place
            .generate(&["--output", folder.to_str().unwrap()])
            .status
            .success()
    );
    let output = place.list(&["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(report["version"], 1);
    assert_eq!(report["devices"][0]["device"], "gpu-quota.io/container=7b");
    assert_eq!(report["devices"][0]["served"], false);
    let problem = report["devices"][0]["problems"][0].as_str().unwrap();
    assert!(
        problem.contains("state/containers/7b is missing"),
        "{problem}"
    );
}

#[test]
fn a_container_that_is_served_is_a_device_without_a_configuration_that_names_it() {
    let serving = Daemon::start();
    let made = serving
        .command(&["set", "b", "--create", "--memory", "1GiB"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", err(&made));
    let place = Place::new(TWO);
    let folder = place.path("cdi");
    let state = serving.state();
    let output = place.generate_in(&state, &["b", "--output", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{}", err(&output));
    let listed = place.list(&[]);
    assert!(listed.status.success(), "{}{}", out(&listed), err(&listed));
    let text = out(&listed);
    assert!(text.contains("gpu-quota.io/container=b  served"), "{text}");
    assert!(Path::new(&state).join("cdi/ld.so.preload").exists());
}
