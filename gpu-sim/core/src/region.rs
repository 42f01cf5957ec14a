//! Opening the shared file, or creating it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::clock::now_ns;
use crate::config::{Config, ConfigError};
use crate::hash::device_uuid;
use crate::layout::{LAYOUT_VERSION, MAGIC, Region, Shared};

const SIZE: usize = size_of::<Region>();

/// Why a simulation cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// A variable is not understood.
    Config(ConfigError),
    /// The shared file cannot be opened, created or mapped.
    File(String, io::Error),
    /// As many processes take part as the simulation can hold.
    Full,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::File(path, error) => write!(
                f,
                "gpu-sim: {path}: {error} (remove the file, or name another with GPU_SIM)"
            ),
            Self::Full => write!(f, "gpu-sim: too many processes take part"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<ConfigError> for OpenError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// Mappings of this process, by the file's inode: each file is mapped once, for the life of the
/// process.
static MAPPED: Mutex<Vec<(u64, &'static Region)>> = Mutex::new(Vec::new());

/// Maps the file that `config` names, creating it where there is none, or one of another layout.
pub(crate) fn open(config: &Config) -> Result<&'static Region, OpenError> {
    let mut mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    let describe = |error| OpenError::File(config.path.display().to_string(), error);
    loop {
        let file = open_file(&config.path).map_err(describe)?;
        let _locked = Flock::exclusive(&file).map_err(describe)?;
        // Somebody may have replaced the file between our open and our lock.
        let current = std::fs::metadata(&config.path).map(|meta| meta.ino()).ok();
        let own = file.metadata().map_err(describe)?;
        if current != Some(own.ino()) {
            continue;
        }
        if own.len() == 0 {
            file.set_len(SIZE as u64).map_err(describe)?;
        } else if own.len() != SIZE as u64 {
            std::fs::remove_file(&config.path).map_err(describe)?;
            continue;
        }
        let known = mapped
            .iter()
            .find(|(inode, region)| *inode == own.ino() && is_of(region, &file));
        let region = match known {
            Some((_, region)) => region,
            None => map(&file).map_err(describe)?,
        };
        if region.magic.load(Ordering::Acquire) == MAGIC {
            if region.version.load(Ordering::Acquire) == LAYOUT_VERSION {
                if known.is_none() {
                    mapped.push((own.ino(), region));
                }
                return Ok(region);
            }
            std::fs::remove_file(&config.path).map_err(describe)?;
            continue;
        }
        if own.len() != 0 {
            // Whoever was creating it died on the way.
            std::fs::remove_file(&config.path).map_err(describe)?;
            continue;
        }
        create(region, config);
        // An inode number is used again when its file is gone.
        mapped.retain(|(inode, _)| *inode != own.ino());
        mapped.push((own.ino(), region));
        return Ok(region);
    }
}

/// Whether a mapping is of this very file.
fn is_of(region: &Region, file: &File) -> bool {
    let mut nonce = [0; 8];
    let read = file.read_exact_at(&mut nonce, std::mem::offset_of!(Region, nonce) as u64);
    read.is_ok() && u64::from_ne_bytes(nonce) == region.nonce.load(Ordering::Relaxed)
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
        .open(path)
}

fn map(file: &File) -> io::Result<&'static Region> {
    // SAFETY: a fresh shared mapping of the whole file, which has at least this size and is never
    // shrunk: a file of another size is replaced, not changed.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is page aligned, as large as a Region, and valid for any content.
    Ok(unsafe { &*address.cast::<Region>() })
}

/// Fills a file of zeros. The magic number comes last.
fn create(region: &Region, config: &Config) {
    // SAFETY: the file is locked and not yet recognised by anybody: we are alone with it.
    unsafe {
        region.mutex.init();
        fix_devices(&mut *region.shared.get(), config);
    }
    let nonce = now_ns() ^ (u64::from(std::process::id()) << 40);
    region.nonce.store(nonce, Ordering::Relaxed);
    region.size.store(SIZE as u64, Ordering::Relaxed);
    region.version.store(LAYOUT_VERSION, Ordering::Relaxed);
    region.magic.store(MAGIC, Ordering::Release);
}

/// Writes the devices that `config` asks for.
pub(crate) fn fix_devices(shared: &mut Shared, config: &Config) {
    let devices = config.devices_or_default();
    for (index, (device, spec)) in shared.devices.iter_mut().zip(&devices).enumerate() {
        device.uuid = device_uuid(&config.name, index);
        device.total = spec.total;
        device.parent = spec.parent.map_or(0, |parent| parent as u64 + 1);
    }
    shared.context_bytes = config.context_bytes;
    shared.slice_ns = config.slice_ns;
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_DEVICES")]
    {
        shared.device_count = devices.len() as u32;
    }
}

/// An exclusive lock on a file, for as long as this value lives.
struct Flock<'a>(&'a File);

impl<'a> Flock<'a> {
    fn exclusive(file: &'a File) -> io::Result<Self> {
        loop {
            // SAFETY: the descriptor is open.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
                return Ok(Self(file));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl Drop for Flock<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}
