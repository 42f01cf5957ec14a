//! Whose a file is that stands where a device of ours has its place: two daemons on a host may have been given the same kind.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use quota_abi::wire::CONTAINER_SOCKET;
use rustix::fs::{FlockOperation, flock};

use super::Kind;
use super::spec::Spec;

/// Whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Of a daemon with this directory.
    Us,
    /// Not ours to touch, and why.
    Other(String),
    /// There is none, it says nothing, or the daemon that wrote it is gone.
    Nobody,
}

impl Owner {
    pub(super) fn of(path: &Path, kind: &Kind, state: &Path) -> Self {
        let Some(spec) = read(path) else {
            return Self::Nobody;
        };
        if spec.kind != *kind {
            return Self::Other(format!("of the kind {}", spec.kind));
        }
        match writer(&spec) {
            Some(writer) if same(&writer, state) => Self::Us,
            Some(writer) if lives(&writer) => {
                Self::Other(format!("of the daemon at {}", writer.display()))
            }
            _ => Self::Nobody,
        }
    }
}

fn read(path: &Path) -> Option<Spec> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The directory of the daemon whose socket is mounted: that is DIRECTORY/containers/NAME.
fn writer(spec: &Spec) -> Option<PathBuf> {
    let socket = Path::new(CONTAINER_SOCKET).parent()?;
    let mounts = spec
        .devices
        .iter()
        .flat_map(|device| &device.container_edits.mounts);
    let mount = mounts
        .into_iter()
        .find(|mount| Path::new(&mount.container_path) == socket)?;
    Some(Path::new(&mount.host_path).parent()?.parent()?.into())
}

/// `/var/run` is `/run` on most hosts, and a daemon's own lock would keep it from its own files.
fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
    one == other || real(one) == real(other)
}

/// A daemon keeps its directory locked as long as it lives.
fn lives(state: &Path) -> bool {
    let Ok(lock) = File::open(state.join("lock")) else {
        return false;
    };
    flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
}

#[cfg(test)]
mod tests {
    use super::super::edits::{Common, Preload};
    use super::*;

    fn file(folder: &Path, kind: &Kind, state: &Path) -> PathBuf {
        let common = Common {
            state,
            library: Path::new("/x.so"),
            preload: Preload::Replace,
        };
        let path = folder.join("a.json");
        let spec = Spec::new(kind, vec![common.device("a").unwrap()]);
        fs::write(&path, spec.text()).unwrap();
        path
    }

    #[test]
    fn the_file_of_a_daemon_that_lives_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
        let kind = Kind::default();
        let of = |path: &Path| Owner::of(path, &kind, &ours);
        assert_eq!(of(&folder.path().join("none.json")), Owner::Nobody);
        assert_eq!(of(&file(folder.path(), &kind, &ours)), Owner::Us);
        let path = file(folder.path(), &kind, &theirs);
        assert_eq!(of(&path), Owner::Nobody, "no such daemon");
        fs::create_dir(&theirs).unwrap();
        let lock = File::create(theirs.join("lock")).unwrap();
        assert_eq!(of(&path), Owner::Nobody, "it has ended");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let other = format!("of the daemon at {}", theirs.display());
        assert_eq!(of(&path), Owner::Other(other));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        assert_eq!(Owner::of(&path, &kind, &link), Owner::Us, "by another path");
        drop(lock);
        assert_eq!(of(&path), Owner::Nobody);
        let longer: Kind = "gpu-quota.io/container_x".parse().unwrap();
        let path = file(folder.path(), &longer, &ours);
        assert_eq!(of(&path), Owner::Other(format!("of the kind {longer}")));
    }
}
