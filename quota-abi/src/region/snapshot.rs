//! A private copy of a usage region: how the daemon reads what a tenant can write.
//!
//! The tenant may truncate the file or change it at any moment. `pread` answers both with fewer or with other bytes, where a
//! mapping would answer with SIGBUS, or with something else at the second look than at the first.

use core::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{Cause, Mapped};
use crate::layout::{MAGIC, Region, VERSION};
use crate::map;
use crate::sync::Ordering;

/// Memory for copies. Read again and again into the same pages.
pub struct Snapshot {
    copy: Mapped,
}

impl Snapshot {
    /// Memory for a copy; `None` without any.
    #[must_use]
    pub fn new() -> Option<Self> {
        let copy = map::anonymous(size_of::<Region>() + 4096)?;
        Some(Self {
            copy: Mapped(copy.cast()),
        })
    }

    /// Copies the region of a file.
    ///
    /// # Errors
    /// What the kernel refuses, and whatever is not a region of this version in full. The copy is then of no use.
    pub fn read(&mut self, file: BorrowedFd<'_>) -> Result<&Region, Cause> {
        self.read_first(file, size_of::<Region>())
    }

    /// Copies what lies before the ledger: devices, GPU time, processes. What follows stays as it was; so a copy that is
    /// read this way is for nothing else.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn read_head(&mut self, file: BorrowedFd<'_>) -> Result<&Region, Cause> {
        self.read_first(file, core::mem::offset_of!(Region, memory))
    }

    fn read_first(&mut self, file: BorrowedFd<'_>, expected: usize) -> Result<&Region, Cause> {
        let mut done = 0;
        while done < expected {
            let offset = libc::off_t::try_from(done).unwrap_or(0);
            // SAFETY: the rest of our own mapping, which nobody refers to while we hold it mutably.
            let read = unsafe {
                libc::pread(
                    file.as_raw_fd(),
                    self.copy.0.as_ptr().cast::<u8>().add(done).cast(),
                    expected - done,
                    offset,
                )
            };
            match usize::try_from(read) {
                Ok(0) => return Err(Cause::Size(done as u64)),
                Ok(more) => done += more,
                Err(_) => {
                    let error = std::io::Error::last_os_error();
                    if error.kind() != std::io::ErrorKind::Interrupted {
                        return Err(Cause::System("read", error));
                    }
                }
            }
        }
        check(&self.copy)?;
        Ok(&self.copy)
    }

    /// The last copy.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.copy
    }
}

impl Deref for Snapshot {
    type Target = Region;

    fn deref(&self) -> &Region {
        &self.copy
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // SAFETY: our own mapping; a reference to it cannot outlive us.
        unsafe { map::release(self.copy.0.cast(), size_of::<Region>() + 4096) };
    }
}

fn check(region: &Region) -> Result<(), Cause> {
    if region.header.magic.load(Ordering::Relaxed) != MAGIC {
        return Err(Cause::Magic);
    }
    match region.header.version.load(Ordering::Relaxed) {
        VERSION => {}
        other => return Err(Cause::Version(other)),
    }
    match region.header.size.load(Ordering::Relaxed) {
        size if size == size_of::<Region>() as u64 => Ok(()),
        other => Err(Cause::Size(other)),
    }
}
