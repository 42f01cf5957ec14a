//! Mapping a policy: for writing by the daemon, for reading by a container's processes.
//!
//! # Safety
//! A policy is words of atomics for which every bit pattern is valid. Its file belongs to the daemon: a tenant has a descriptor
//! that can neither write nor truncate it, so that its pages stay. A reference is formed only after size, magic and version
//! have been checked.

use core::ops::Deref;
use core::ptr::NonNull;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{MAGIC, Policy, VERSION};
use crate::sync::Ordering;

/// Bytes of a policy.
const BYTES: usize = size_of::<Policy>();

/// A mapped policy; never unmapped.
#[derive(Copy, Clone, Debug)]
pub struct Read(NonNull<Policy>);

/// The daemon's own mapping; unmapped when dropped.
#[derive(Debug)]
pub struct Write(NonNull<Policy>);

// SAFETY: atomics only.
unsafe impl Send for Read {}
// SAFETY: as above.
unsafe impl Sync for Read {}
// SAFETY: as above.
unsafe impl Send for Write {}
// SAFETY: as above.
unsafe impl Sync for Write {}

/// Why a policy cannot be used.
#[derive(Debug)]
pub enum Error {
    /// The kernel refused this step.
    System(&'static str, std::io::Error),
    /// It has another size.
    Size(u64),
    /// It is not a policy.
    Magic,
    /// It is a policy of another version.
    Version(u64),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::System(step, error) => write!(f, "cannot {step} the policy: {error}"),
            Self::Size(bytes) => write!(f, "the policy has {bytes} bytes instead of {BYTES}"),
            Self::Magic => f.write_str("what was handed over is not a policy"),
            Self::Version(version) => {
                write!(f, "the policy has version {version} instead of {VERSION}")
            }
        }
    }
}

impl std::error::Error for Error {}

impl Read {
    /// Maps a policy that the daemon has handed over.
    ///
    /// # Errors
    /// Whatever is not a policy of this version.
    pub fn from_file(file: BorrowedFd<'_>) -> Result<Self, Error> {
        let size = size_of_file(file)?;
        // A newer daemon may have more to say behind what this version knows.
        if size < BYTES as u64 {
            return Err(Error::Size(size));
        }
        let mapped = Self(map(file, libc::PROT_READ)?);
        let header = &mapped.get().header;
        if header.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(Error::Magic);
        }
        match header.version.load(Ordering::Acquire) {
            VERSION => Ok(mapped),
            other => Err(Error::Version(other)),
        }
    }

    /// The policy, for as long as the process lives.
    #[must_use]
    pub fn get(self) -> &'static Policy {
        // SAFETY: checked when it was mapped, never unmapped.
        unsafe { self.0.as_ref() }
    }
}

impl Write {
    /// Maps the daemon's own file, which becomes a policy if it is empty.
    ///
    /// # Errors
    /// What the kernel refuses, and whatever is neither empty nor a policy of this version.
    pub fn from_file(file: BorrowedFd<'_>) -> Result<Self, Error> {
        let size = size_of_file(file)?;
        if size != 0 && size != BYTES as u64 {
            return Err(Error::Size(size));
        }
        let length = libc::off_t::try_from(BYTES).unwrap_or(0);
        // SAFETY: an open descriptor. A full tmpfs is an error here, and not a SIGBUS later.
        let refused = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
        if refused != 0 {
            let refused = std::io::Error::from_raw_os_error(refused);
            return Err(Error::System("allocate", refused));
        }
        let mapped = Self(map(file, libc::PROT_READ | libc::PROT_WRITE)?);
        let header = &mapped.header;
        if header.version.load(Ordering::Acquire) == 0 {
            header.magic.store(MAGIC, Ordering::Relaxed);
            header.size.store(BYTES as u64, Ordering::Relaxed);
            header.version.store(VERSION, Ordering::Release);
        }
        if header.magic.load(Ordering::Relaxed) != MAGIC {
            return Err(Error::Magic);
        }
        match header.version.load(Ordering::Acquire) {
            VERSION => Ok(mapped),
            other => Err(Error::Version(other)),
        }
    }
}

impl Deref for Write {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        // SAFETY: checked when it was mapped; unmapped only by `drop`.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        // SAFETY: our own mapping, whose last user this is.
        unsafe { libc::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

fn map(file: BorrowedFd<'_>, protection: i32) -> Result<NonNull<Policy>, Error> {
    // SAFETY: a new mapping of an open file at an address of the kernel's choice.
    let pages = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            BYTES,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if pages == libc::MAP_FAILED {
        return Err(Error::System("map", std::io::Error::last_os_error()));
    }
    NonNull::new(pages.cast()).ok_or(Error::Magic)
}

fn size_of_file(file: BorrowedFd<'_>) -> Result<u64, Error> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: an open descriptor and room for the answer.
    if unsafe { libc::fstat(file.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(Error::System("examine", std::io::Error::last_os_error()));
    }
    // SAFETY: filled by the call.
    let stat = unsafe { stat.assume_init() };
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(Error::Magic);
    }
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}
