//! The daemon's directory: who may see what of it, and that only one daemon works in it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};

use super::Error;
use super::mounts::{self, Tmpfs};

/// How long a daemon that is just being killed may keep its lock.
const PATIENCE: Duration = Duration::from_secs(1);

/// The directory, which is this daemon's own until it is dropped.
#[derive(Debug)]
pub(super) struct StateDir {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
    regions: OwnedFd,
    view: OwnedFd,
    warnings: Vec<String>,
}

impl StateDir {
    /// Takes the directory, which is made if there is none.
    ///
    /// # Errors
    /// Another daemon has it, or the kernel refuses.
    pub(super) fn take(path: &Path, own_tmpfs: bool) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        directory(path, 0o755)?;
        warnings.extend(writable_by_others(path));
        let lock = lock(&path.join("lock"))?;
        let regions = path.join("regions");
        directory(&path.join("containers"), 0o755)?;
        directory(&path.join("clients"), 0o700)?;
        directory(&regions, 0o700)?;
        if own_tmpfs {
            match mounts::tmpfs(&regions).map_err(|error| failed("examine", &regions, error))? {
                Tmpfs::Found => {}
                Tmpfs::Mounted => tracing::info!(path = %regions.display(), "mounted a tmpfs"),
                Tmpfs::None(why) => warnings.push(format!(
                    "{} is not a tmpfs of its own ({why}): a container that blows up its usage region fills the file system",
                    regions.display()
                )),
            }
        }
        set_mode(&regions, 0o700)?;
        let (view, warning) = view(&regions)?;
        warnings.extend(warning);
        let regions = open_directory(&regions)?;
        Ok(Self {
            path: path.into(),
            _lock: lock,
            regions,
            view,
            warnings,
        })
    }

    /// Where it is.
    #[must_use]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of regions, for writing.
    #[must_use]
    pub(super) fn regions(&self) -> impl AsFd + '_ {
        &self.regions
    }

    /// The same, through which a tenant's descriptors are opened.
    #[must_use]
    pub(super) fn view(&self) -> impl AsFd + '_ {
        &self.view
    }

    /// The directory that is mounted into a container.
    #[must_use]
    pub(super) fn container(&self, name: &str) -> PathBuf {
        self.path.join("containers").join(name)
    }

    /// Where a container's registered processes are noted.
    #[must_use]
    pub(super) fn clients(&self, name: &str) -> PathBuf {
        self.path.join("clients").join(name)
    }

    /// What a person should know of it.
    #[must_use]
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

fn view(regions: &Path) -> Result<(OwnedFd, Option<String>), Error> {
    match mounts::read_only_view(regions) {
        Ok(view) => Ok((view, None)),
        Err(why) => Ok((
            open_directory(regions)?,
            Some(format!(
                "policies are handed over without a read-only mount ({why}): root of a container could change its own limits, or end the daemon. \
                 Start the daemon with CAP_SYS_ADMIN on Linux 5.12 or newer"
            )),
        )),
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(|error| failed("open", path, error))
}

/// Makes a directory with this mode, whatever the umask; one that is there gets the mode as well.
///
/// # Errors
/// The kernel refuses.
pub(super) fn directory(path: &Path, mode: u32) -> Result<(), Error> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path);
    made.map_err(|error| failed("create", path, error))?;
    set_mode(path, mode)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    let metadata = fs::symlink_metadata(path).map_err(|error| failed("examine", path, error))?;
    if !metadata.is_dir() {
        let error = io::Error::from(io::ErrorKind::NotADirectory);
        return Err(failed("use", path, error));
    }
    if metadata.mode() & 0o7777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| failed("set the mode of", path, error))
}

/// Whoever can write in a directory above ours can put another in our place.
fn writable_by_others(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let loose = path.ancestors().skip(1).find(|above| {
        fs::metadata(above).is_ok_and(|metadata| {
            let mode = metadata.mode();
            mode & 0o022 != 0 && mode & 0o1000 == 0
        })
    })?;
    Some(format!(
        "others can write in {}, and so replace the daemon's directory",
        loose.display()
    ))
}

fn lock(path: &Path) -> Result<File, Error> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(|error| failed("open", path, error))?;
    let start = Instant::now();
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(failed("lock", path, error));
        }
        if start.elapsed() > PATIENCE {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            return Err(Error::Locked {
                path: path.into(),
                pid: pid.trim().parse().ok(),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(|error| failed("write", path, error))?;
    Ok(file)
}

/// An error that names step and path.
pub(super) fn failed(step: &'static str, path: &Path, error: impl Into<io::Error>) -> Error {
    Error::Path {
        step,
        path: path.into(),
        error: error.into(),
    }
}
