//! The devices that a container runtime finds in its directories, and what a container would meet.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quota_abi::wire::{Purpose, SOCKET_NAME, Status};
use serde::Serialize;

use super::kind::Kind;
use super::spec::{Device, Spec};
use super::write;
use crate::attach;

/// A device, as a runtime finds it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Found {
    /// As it is named behind `--device`.
    pub(super) device: String,
    pub(super) container: String,
    pub(super) file: PathBuf,
    /// Whether a daemon answers at its socket.
    pub(super) served: bool,
    /// Why a container would not start with it, or not run. Empty: nothing is wrong.
    pub(super) problems: Vec<String>,
}

/// The devices of this kind, by name: of several the one in the directory that counts most.
pub(super) fn look(kind: &Kind, directories: &[PathBuf]) -> Vec<Found> {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let mut twice: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for directory in directories {
        let mut here: BTreeMap<String, Found> = BTreeMap::new();
        for file in files(directory) {
            let text = fs::read_to_string(&file).unwrap_or_default();
            let Ok(spec) = serde_json::from_str::<Spec>(&text) else {
                continue;
            };
            if spec.kind != *kind {
                continue;
            }
            for device in &spec.devices {
                match here.get_mut(&device.name) {
                    // No runtime takes either then, nor one of a directory that counts more.
                    Some(other) => {
                        let text = format!(
                            "{} and {} both have it: remove one of them",
                            other.file.display(),
                            file.display()
                        );
                        twice.entry(device.name.clone()).or_default().push(text);
                    }
                    None => {
                        here.insert(device.name.clone(), examine(kind, device, &file));
                    }
                }
            }
        }
        found.extend(here);
    }
    for (name, texts) in twice {
        if let Some(device) = found.get_mut(&name) {
            device.problems.extend(texts);
        }
    }
    found.into_values().collect()
}

/// Of this kind by their name or what they say, and nothing that can be read.
pub(super) fn unread(kind: &Kind, directory: &Path) -> Vec<PathBuf> {
    let mut files = files(directory);
    files.retain(|file| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let ours = name == kind.file().as_str()
            || kind.container_of(&name).is_some()
            || text.contains(&kind.to_string());
        ours && serde_json::from_str::<serde_json::Value>(&text).is_err()
    });
    files
}

/// Which other file of a directory has one of these devices.
pub(super) fn other_with<'a>(
    kind: &Kind,
    file: &Path,
    devices: &'a [Device],
) -> Option<(PathBuf, &'a str)> {
    let others = files(write::folder(file))
        .into_iter()
        .filter(|other| other.file_name() != file.file_name());
    others.into_iter().find_map(|other| {
        let text = fs::read_to_string(&other).ok()?;
        let spec: Spec = serde_json::from_str(&text).ok()?;
        let has = |name: &str| spec.kind == *kind && spec.devices.iter().any(|of| of.name == name);
        let device = devices.iter().find(|device| has(&device.name))?;
        Some((other, device.name.as_str()))
    })
}

/// What a runtime reads of a directory, in the order of names.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json" || extension == "yaml")
    });
    files.sort();
    files
}

fn examine(kind: &Kind, device: &Device, file: &Path) -> Found {
    let mut problems = Vec::new();
    let mut missing: Vec<&str> = Vec::new();
    for mount in &device.container_edits.mounts {
        let host = mount.host_path.as_str();
        if !Path::new(host).exists() && !missing.contains(&host) {
            missing.push(host);
        }
    }
    if let Some((first, others)) = missing.split_first() {
        let more = match others.len() {
            0 => String::new(),
            number => format!(", and {number} more"),
        };
        problems.push(format!(
            "{first} is missing{more}: a container will not start"
        ));
    }
    let socket = device
        .container_edits
        .mounts
        .iter()
        .map(|mount| Path::new(&mount.host_path).join(SOCKET_NAME))
        .find(|socket| socket.exists());
    let answered =
        socket.map(|socket| attach::ask(&socket, Purpose::View).map_err(|silent| (socket, silent)));
    let served = match answered {
        Some(Ok(answered)) => answered.answer.status == Status::Granted,
        Some(Err((socket, silent))) => {
            problems.push(format!("{}: {silent}", socket.display()));
            false
        }
        None => false,
    };
    if !served && problems.is_empty() {
        problems.push("no daemon serves it: its programs will be refused".into());
    }
    Found {
        device: kind.device(&device.name),
        container: device.name.clone(),
        file: file.into(),
        served,
        problems,
    }
}

#[cfg(test)]
mod tests {
    use super::super::edits::{Common, Preload};
    use super::*;

    fn file(directory: &Path, file: &str, state: &Path, names: &[&str]) {
        let common = Common {
            state,
            library: Path::new("/proc/self/exe"),
            preload: Preload::None,
        };
        let devices = names.iter().map(|name| common.device(name).unwrap());
        let spec = Spec::new(&Kind::default(), devices.collect());
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join(file), spec.text()).unwrap();
    }

    #[test]
    fn the_last_directory_counts_and_what_is_twice_in_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let [low, high, state] = ["low", "high", "state"].map(|name| folder.path().join(name));
        file(&low, "one.json", &state, &["a", "b"]);
        file(&high, "two.json", &state, &["b", "c"]);
        file(&high, "three.json", &state, &["c"]);
        fs::write(
            high.join("other.json"),
            r#"{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[]}"#,
        )
        .unwrap();
        fs::write(high.join("broken.json"), "{").unwrap();
        fs::create_dir_all(state.join("containers/b")).unwrap();
        let found = look(
            &Kind::default(),
            &[low.clone(), high.clone(), folder.path().join("none")],
        );
        let files: Vec<_> = found
            .iter()
            .map(|found| (found.container.as_str(), found.file.clone()))
            .collect();
        assert_eq!(
            files,
            [
                ("a", low.join("one.json")),
                ("b", high.join("two.json")),
                ("c", high.join("three.json"))
            ]
        );
        assert!(
            found[0].problems[0].contains("containers/a is missing"),
            "{found:?}"
        );
        assert_eq!(
            found[1].problems,
            ["no daemon serves it: its programs will be refused"]
        );
        assert!(
            found[2]
                .problems
                .iter()
                .any(|problem| problem.contains("three.json and")),
            "{found:?}"
        );
        assert!(found.iter().all(|found| !found.served));
    }

    /// As the library does with which runtimes read them.
    #[test]
    fn what_is_twice_in_one_directory_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let [low, high, state] = ["low", "high", "state"].map(|name| folder.path().join(name));
        file(&low, "one.json", &state, &["a"]);
        file(&low, "two.json", &state, &["a"]);
        file(&high, "three.json", &state, &["a"]);
        let found = look(&Kind::default(), &[low.clone(), high.clone()]);
        assert_eq!(found[0].file, high.join("three.json"));
        let told = found[0].problems.join("; ");
        assert!(told.contains("one.json and"), "{told}");

        let broken = low.join(Kind::default().file());
        fs::write(&broken, "{").unwrap();
        fs::write(low.join("nvidia.yaml"), "kind: nvidia.com/gpu").unwrap();
        assert_eq!(unread(&Kind::default(), &low), [broken]);
    }
}
