//! Containers that are offered as devices: there is a file as long as there is the container.

use std::collections::BTreeSet;
use std::fs;

use super::*;
use crate::api::Change;
use crate::cdi::spec::Spec;

const ONE: &str = "[[container]]\nname = \"a\"\nmemory = \"4GiB\"\n";

/// A daemon with a library to give, and the directory that it publishes in.
struct Publishing {
    daemon: Daemon,
    folder: TempDir,
}

impl Publishing {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libquota_shim.so"), b"").unwrap();
        let config = Self::config(&folder, ONE);
        Self {
            daemon: Daemon::start(&config),
            folder,
        }
    }

    fn config(folder: &TempDir, containers: &str) -> String {
        let folder = folder.path().display();
        format!(
            "[cdi]\npublish = \"{folder}/cdi\"\nlibrary = \"{folder}/libquota_shim.so\"\n{containers}"
        )
    }

    fn there(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.folder.path().join("cdi")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names
        .iter()
        .map(|name| format!("gpu-quota.io-container_{name}.json"))
        .collect()
}

fn made(name: &str, transient: bool) -> Change {
    Change {
        container: name.into(),
        create: true,
        transient,
        memory: Some("1GiB".into()),
        ..Change::default()
    }
}

#[test]
fn a_device_comes_and_goes_with_its_container() {
    let mut publishing = Publishing::start();
    assert_eq!(publishing.there(), set(&["a"]));
    let manager = publishing.daemon.manager();
    let report = manager.set(&made("by-set", false)).unwrap();
    assert_eq!(
        report.device.as_deref(),
        Some("gpu-quota.io/container=by-set")
    );
    manager.set(&made("by-run", true)).unwrap();
    // It can have none, and is served all the same.
    let odd = manager.set(&made("_odd", false)).unwrap();
    assert_eq!(odd.device, None);
    assert_eq!(publishing.there(), set(&["a", "by-run", "by-set"]));
    manager.remove("by-run").unwrap();
    assert_eq!(publishing.there(), set(&["a", "by-set"]));

    let file = publishing
        .folder
        .path()
        .join("cdi/gpu-quota.io-container_by-set.json");
    let spec: Spec = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(spec.devices[0].name, "by-set");
    for mount in &spec.devices[0].container_edits.mounts {
        assert!(Path::new(&mount.host_path).exists(), "{mount:?}");
    }
    let socket = &spec.devices[0].container_edits.mounts[0];
    let directory = publishing.daemon.socket("by-set");
    assert_eq!(Path::new(&socket.host_path), directory.parent().unwrap());

    // A container of the configuration goes with a reload.
    let both = Publishing::config(
        &publishing.folder,
        &format!("{ONE}{}", ONE.replace("\"a\"", "\"b\"")),
    );
    *publishing.daemon.config.lock() = both;
    manager.reload().unwrap();
    assert_eq!(publishing.there(), set(&["a", "b", "by-set"]));

    // What is left of containers that are gone goes with the next daemon; what is not ours stays.
    let folder = publishing.folder.path().join("cdi");
    fs::write(folder.join("gpu-quota.io-container_gone.json"), b"{}").unwrap();
    fs::write(folder.join("gpu-quota.io-container.json"), b"{}").unwrap();
    // What one was writing that was killed, too.
    let cut = format!(".gpu-quota.io-container_a.json.{}.new", u32::MAX);
    fs::write(folder.join(cut), b"{").unwrap();
    drop(manager);
    publishing.daemon.restart();
    let mut expected = set(&["a", "b", "by-set"]);
    expected.insert("gpu-quota.io-container.json".into());
    assert_eq!(publishing.there(), expected);
}

#[test]
fn without_a_library_containers_are_served_and_status_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let config = Publishing::config(&folder, ONE);
    let daemon = Daemon::start(&config);
    let warnings = daemon.manager().status().daemon.warnings;
    let told = warnings
        .iter()
        .find(|warning| warning.contains("no devices are published"));
    assert!(told.unwrap().contains("there is no"), "{warnings:?}");
    assert!(daemon.socket("a").exists());
}

#[test]
fn what_containers_have_mounted_is_there_whether_or_not_devices_are_published() {
    let mut daemon = Daemon::start(ONE);
    let inode = |name: &str| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(daemon.state().join("cdi").join(name))
            .unwrap()
            .ino()
    };
    let before = ["ld.so.preload", "libquota_empty32.so"].map(inode);
    let state = daemon.state();
    daemon.restart();
    let after = ["ld.so.preload", "libquota_empty32.so"].map(|name| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(state.join("cdi").join(name)).unwrap().ino()
    });
    assert_eq!(before, after, "running containers have them mounted");
}

/// A directory that cannot be written is told of, and tried again.
#[test]
fn a_device_that_could_not_be_written_comes_when_it_can() {
    let publishing = Publishing::start();
    let folder = publishing.folder.path().join("cdi");
    let manager = publishing.daemon.manager();
    let device = |name: &str| {
        let status = manager.status();
        let found = status.containers.iter().find(|of| of.name == name);
        found.unwrap().device.clone()
    };
    // In the place of its file stands what cannot be replaced.
    let path = folder.join("gpu-quota.io-container_b.json");
    fs::create_dir(&path).unwrap();
    assert_eq!(manager.set(&made("b", false)).unwrap().device, None);
    assert_eq!(device("b"), None);
    let warnings = manager.status().daemon.warnings;
    let told = |text: &&String| text.starts_with("container b has no device in");
    assert_eq!(warnings.iter().filter(told).count(), 1, "{warnings:?}");
    fs::remove_dir(&path).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while device("b").is_none() {
        assert!(Instant::now() < end, "never tried again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(path.is_file() && manager.status().daemon.warnings.is_empty());

    // One that somebody has removed comes with a reload.
    fs::remove_file(&path).unwrap();
    manager.reload().unwrap();
    assert!(path.is_file());
}

/// Neither takes away what the other one publishes.
#[test]
fn two_daemons_of_one_kind_leave_each_others_devices() {
    let publishing = Publishing::start();
    let read = || {
        let file = publishing
            .folder
            .path()
            .join("cdi/gpu-quota.io-container_a.json");
        fs::read_to_string(file).unwrap()
    };
    let before = read();
    let config = Publishing::config(&publishing.folder, &ONE.replace("\"a\"", "\"c\""));
    let both = format!("{config}{ONE}");
    let second = Daemon::start(&both);
    let warnings = second.manager().status().daemon.warnings;
    let told = |text: &&String| {
        text.contains("container a has no device in") && text.contains("another kind in [cdi]")
    };
    assert_eq!(warnings.iter().filter(told).count(), 1, "{warnings:?}");
    assert_eq!(publishing.there(), set(&["a", "c"]));
    second.manager().set(&made("by-set", true)).unwrap();
    second.manager().remove("by-set").unwrap();
    assert_eq!(read(), before);
}
