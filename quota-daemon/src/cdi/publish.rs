//! The devices of a running daemon: a file for each container that it serves, there as long as the container is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::edits::{Common, trouble_with};
use super::generate::has_device;
use super::kind::check_device;
use super::spec::Spec;
use super::{Kind, Preload, keep, write};
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
            return Ok(None);
        };
        let without =
            |wrong: String| format!("no devices are published in {}: {wrong}", folder.display());
        write::directory(folder).map_err(|error| without(error.to_string()))?;
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
        }))
    }

    /// The device of a container, as it is named behind `--device`.
    #[must_use]
    pub fn device(&self, container: &model::Spec) -> Option<String> {
        let has = has_device(container.origin) && check_device(&container.name).is_ok();
        has.then(|| self.kind.device(&container.name))
    }

    /// Writes the file of a container.
    pub fn publish(&self, container: &model::Spec) {
        if !has_device(container.origin) {
            return;
        }
        let name = container.name.as_str();
        let common = Common {
            state: &self.state,
            library: &self.library,
            preload: self.preload,
        };
        let written = common
            .device(name)
            .map_err(io::Error::other)
            .and_then(|device| {
                let spec = Spec::new(&self.kind, vec![device]);
                write::atomically(&self.path(name), spec.text().as_bytes())
            });
        match written {
            Ok(()) => tracing::debug!(
                container = name,
                device = self.kind.device(name),
                "published"
            ),
            Err(error) => tracing::error!(
                container = name,
                "it has no device in {}: {error}",
                self.folder.display()
            ),
        }
    }

    /// Removes the file of a container.
    pub fn withdraw(&self, container: &str) {
        let path = self.path(container);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(container, "{} is still there: {error}", path.display());
            }
            _ => {}
        }
    }

    /// Removes the files that an earlier daemon has left of containers that are no more.
    pub fn sweep(&self, known: impl Fn(&str) -> bool) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let file = entry.file_name();
            let name = file.to_str().and_then(|file| self.kind.container_of(file));
            if let Some(name) = name.filter(|name| check_name(name).is_ok() && !known(name)) {
                self.withdraw(name);
            }
        }
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
