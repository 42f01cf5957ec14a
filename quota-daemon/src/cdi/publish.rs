//! The devices of a running daemon: a file for each container that it serves, there as long as the container is.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::edits::{Common, trouble_with};
use super::generate::has_device;
use super::kind::check_device;
use super::owner::Owner;
use super::spec::Spec;
use super::{DIRECTORIES, Kind, Preload, keep, write};
use crate::config::{CdiSettings, Config};
use crate::model::{self, check_name};
use crate::shim;

/// Keeps the files.
#[derive(Debug)]
pub struct Publisher {
    folder: PathBuf,
    kind: Kind,
    state: PathBuf,
    library: PathBuf,
    preload: Preload,
    /// Whose file could not be written, and why.
    missing: Mutex<BTreeMap<String, String>>,
}

impl Publisher {
    /// Makes ready what the devices of any container need, and what publishes them if the configuration says so.
    ///
    /// # Errors
    /// What is missing, for a person. Containers are served all the same.
    pub fn new(config: &Config) -> Result<Option<Self>, String> {
        let state = std::path::absolute(&config.daemon.state);
        let state = state.map_err(|error| error.to_string())?;
        keep::put(&state).map_err(|error| {
            let path = keep::preload(&state);
            format!(
                "what containers have mounted, {} and beside it, cannot be written: {error}",
                path.display()
            )
        })?;
        let CdiSettings {
            publish: Some(folder),
            kind,
            preload,
            library,
        } = &config.cdi
        else {
            forget(&config.cdi.kind, &state);
            return Ok(None);
        };
        let without =
            |wrong: String| format!("no devices are published in {}: {wrong}", folder.display());
        write::directory(folder).map_err(|error| without(said(&error)))?;
        let library = shim::find(library.as_deref()).map_err(|stop| without(stop.to_string()))?;
        if let Some(trouble) = trouble_with(&library) {
            tracing::warn!("{trouble}");
        }
        Ok(Some(Self {
            folder: folder.clone(),
            kind: kind.clone(),
            state,
            library,
            preload: *preload,
            missing: Mutex::default(),
        }))
    }

    /// The device of a container, as it is named behind `--device`.
    #[must_use]
    pub fn device(&self, container: &model::Spec) -> Option<String> {
        let name = container.name.as_str();
        let has = has_device(container.origin)
            && check_device(name).is_ok()
            && !self.missing.lock().contains_key(name);
        has.then(|| self.kind.device(name))
    }

    /// Writes the file of a container.
    pub fn publish(&self, container: &model::Spec) {
        if !has_device(container.origin) {
            return;
        }
        let name = container.name.as_str();
        if let Err(wrong) = check_device(name) {
            return tracing::warn!(container = name, "{wrong}");
        }
        match self.write(name) {
            Ok(()) => {
                self.missing.lock().remove(name);
                tracing::debug!(
                    container = name,
                    device = self.kind.device(name),
                    "published"
                );
            }
            Err(error) => {
                let why = said(&error);
                let before = self.missing.lock().insert(name.into(), why.clone());
                if before.as_ref() != Some(&why) {
                    tracing::error!(
                        container = name,
                        "it has no device in {}: {why}",
                        self.folder.display()
                    );
                }
            }
        }
    }

    fn write(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        if let Owner::Other(who) = self.owner(&path) {
            return Err(io::Error::other(format!(
                "{} is {who}: give one of the two another kind in [cdi]",
                path.display()
            )));
        }
        let common = Common {
            state: &self.state,
            library: &self.library,
            preload: self.preload,
        };
        let device = common.device(name).map_err(io::Error::other)?;
        write::directory(&self.folder)?;
        let spec = Spec::new(&self.kind, vec![device]);
        write::atomically(&path, spec.text().as_bytes())
    }

    /// Whether a file could not be written that is to be tried again.
    #[must_use]
    pub fn misses(&self) -> bool {
        !self.missing.lock().is_empty()
    }

    /// What `status` warns of.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let missing = self.missing.lock();
        let say = |(name, why): (&String, &String)| {
            format!(
                "container {name} has no device in {}: {why}",
                self.folder.display()
            )
        };
        missing.iter().map(say).collect()
    }

    /// Removes the file of a container.
    pub fn withdraw(&self, container: &str) {
        self.missing.lock().remove(container);
        let path = self.path(container);
        if let Owner::Other(_) = self.owner(&path) {
            return;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(container, "{} is still there: {error}", path.display());
            }
            _ => {}
        }
    }

    /// Removes the files that an earlier daemon has left of containers that are no more, and what it was just writing.
    pub fn sweep(&self, known: impl Fn(&str) -> bool) {
        for name in published(&self.folder, &self.kind) {
            if !known(&name) {
                self.withdraw(&name);
            }
        }
        write::leftovers(&self.folder, &self.kind.prefix());
    }

    fn owner(&self, path: &Path) -> Owner {
        Owner::of(path, &self.kind, &self.state)
    }

    fn path(&self, container: &str) -> PathBuf {
        self.folder.join(self.kind.file_of(container))
    }

    /// Where they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// An error, with its mend where it is a unit's own view of the file system that may not be written.
fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => format!(
            "{error}; where the daemon is a unit of systemd, make the directory, name it in ReadWritePaths= (systemctl edit gpu-quota), and restart it"
        ),
        _ => error.to_string(),
    }
}

/// The containers of this kind that have a file of their own in a directory.
fn published(folder: &Path, kind: &Kind) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let file = entry.file_name();
        let name = kind.container_of(file.to_str()?)?;
        check_name(name).is_ok().then(|| name.to_owned())
    });
    names.collect()
}

/// Removes what a daemon of this directory has published when it was told to.
fn forget(kind: &Kind, state: &Path) {
    if let Some(folder) = DIRECTORIES.last().map(Path::new) {
        for name in published(folder, kind) {
            let path = folder.join(kind.file_of(&name));
            if Owner::of(&path, kind, state) == Owner::Us {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_file_system_is_told_with_its_mend() {
        let told = |code| said(&io::Error::from_raw_os_error(code));
        assert!(told(30).contains("ReadWritePaths="), "EROFS: {}", told(30));
        assert!(
            !told(28).contains("ReadWritePaths="),
            "ENOSPC: {}",
            told(28)
        );
    }
}
