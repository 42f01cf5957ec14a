//! What the next daemon has to know: containers that no configuration declares, live changes of those that one does, and what
//! contexts were measured to take.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::model::{Origin, Quota, Selector, Spec, Uuid};

use super::core::{Core, Inner};

/// Version of this file.
const VERSION: u32 = 1;
/// Its name.
const NAME: &str = "containers.json";

/// All that is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    version: u32,
    containers: Vec<Entry>,
    /// Bytes of a context by device.
    pub(super) contexts: BTreeMap<Uuid, u64>,
}

/// A container.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    declared: Declared,
    /// What the configuration said when a live change was made.
    base: Option<Declared>,
}

/// [`Spec`] as it is written here.
#[derive(Debug, Serialize, Deserialize)]
struct Declared {
    name: String,
    origin: Origin,
    cgroups: Vec<String>,
    every: Option<Quota>,
    by_index: BTreeMap<u32, Quota>,
    by_uuid: BTreeMap<Uuid, Quota>,
}

impl Declared {
    fn new(spec: &Spec) -> Self {
        let mut declared = Self {
            name: spec.name.clone(),
            origin: spec.origin,
            cgroups: spec.cgroups.clone(),
            every: spec.every,
            by_index: BTreeMap::new(),
            by_uuid: BTreeMap::new(),
        };
        for (selector, quota) in &spec.devices {
            match selector {
                Selector::Index(index) => declared.by_index.insert(*index, *quota),
                Selector::Uuid(uuid) => declared.by_uuid.insert(*uuid, *quota),
            };
        }
        declared
    }

    fn into_spec(self) -> Spec {
        let by_index = self.by_index.into_iter();
        let by_uuid = self.by_uuid.into_iter();
        Spec {
            name: self.name,
            origin: self.origin,
            cgroups: self.cgroups,
            every: self.every,
            devices: by_index
                .map(|(index, quota)| (Selector::Index(index), quota))
                .chain(by_uuid.map(|(uuid, quota)| (Selector::Uuid(uuid), quota)))
                .collect(),
        }
    }
}

impl Kept {
    /// Reads what an earlier daemon has left; nothing where there was none.
    ///
    /// # Errors
    /// It cannot be read, or makes no sense.
    pub(super) fn read(state: &Path) -> io::Result<Self> {
        let bytes = match fs::read(state.join(NAME)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let kept: Self = serde_json::from_slice(&bytes)?;
        if kept.version != VERSION {
            let text = format!("version {} instead of {VERSION}", kept.version);
            return Err(io::Error::other(text));
        }
        Ok(kept)
    }

    /// Puts what cannot be read aside, for a person to look at.
    pub(super) fn put_aside(state: &Path) {
        let path = state.join(NAME);
        let _ = fs::rename(&path, path.with_extension("json.unreadable"));
    }

    /// The containers: each with what the configuration said of it when it was changed.
    pub(super) fn into_specs(self) -> impl Iterator<Item = (Spec, Option<Spec>)> {
        self.containers.into_iter().filter_map(|entry| {
            crate::model::check_name(&entry.declared.name).ok()?;
            let base = entry.base.map(Declared::into_spec);
            Some((entry.declared.into_spec(), base))
        })
    }
}

impl Core {
    /// Writes it, at once or not at all.
    pub(super) fn persist(&self, inner: &Inner) {
        let entry = |container: &super::container::Container| Entry {
            declared: Declared::new(&container.spec),
            base: container.base.as_ref().map(Declared::new),
        };
        let kept = Kept {
            version: VERSION,
            containers: inner.containers.values().map(entry).collect(),
            contexts: inner.contexts.clone(),
        };
        if let Err(error) = write(self.state.path(), &kept) {
            tracing::error!("containers and live changes are not kept: {error}");
        }
    }
}

fn write(state: &Path, kept: &Kept) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = state.join(NAME);
    let fresh = path.with_extension("json.new");
    let bytes = serde_json::to_vec_pretty(kept)?;
    let mut options = fs::File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    io::Write::write_all(&mut options.open(&fresh)?, &bytes)?;
    fs::rename(&fresh, &path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Compute;

    #[test]
    fn what_is_kept_is_read() {
        let spec = Spec {
            name: "a".into(),
            origin: Origin::Api,
            cgroups: vec!["/a/**".into()],
            every: Some(Quota {
                memory_bytes: Some(5),
                compute: Compute::Share {
                    weight: 5,
                    cap_ppm: Some(7),
                },
                priority: -1,
                context_bytes: None,
                observe: true,
            }),
            devices: BTreeMap::from([
                (Selector::Index(3), Quota::default()),
                (Selector::Uuid(Uuid([7; 16])), Quota::default()),
            ]),
        };
        let kept = Kept {
            version: VERSION,
            containers: vec![Entry {
                declared: Declared::new(&spec),
                base: Some(Declared::new(&spec)),
            }],
            contexts: BTreeMap::from([(Uuid([7; 16]), 300 << 20)]),
        };
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &kept).unwrap();
        let read = Kept::read(directory.path()).unwrap();
        assert_eq!(read.contexts, kept.contexts);
        let specs: Vec<_> = read.into_specs().collect();
        assert_eq!(specs, [(spec.clone(), Some(spec))]);
    }

    #[test]
    fn what_makes_no_sense_is_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(NAME), b"{").unwrap();
        assert!(Kept::read(directory.path()).is_err());
        Kept::put_aside(directory.path());
        assert!(Kept::read(directory.path()).is_ok());
    }
}
