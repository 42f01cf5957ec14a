//! A private copy of a usage region: how the daemon reads what a tenant can write.
//!
//! The tenant may truncate the file or change it at any moment. `pread` answers both with fewer or with other bytes, where a
//! mapping would answer with SIGBUS, or with something else at the second look than at the first.

use core::mem::offset_of;
use core::ops::{Deref, Range};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{Cause, Mapped};
use crate::layout::{DEVICES, MAGIC, Region, SLOTS, VERSION};
use crate::sync::Ordering;
use crate::{devices, map};

/// Where the ledgers begin, and bytes of each.
const MEMORY: usize = offset_of!(Region, memory);
const LEDGER: usize = SLOTS * size_of::<u64>();

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
        self.read_first(file, MEMORY)
    }

    /// Copies what there is to tell: all but exports, and the ledgers of rows that no device has. What is left out stays as it was.
    ///
    /// # Errors
    /// As [`Snapshot::read`].
    pub fn read_told(&mut self, file: BorrowedFd<'_>) -> Result<&Region, Cause> {
        self.read_head(file)?;
        for (index, ledger) in (0..DEVICES).zip((MEMORY..).step_by(LEDGER)) {
            let row = self.copy.devices.get(index);
            if row.is_some_and(|row| devices::uuid_of(row).is_some()) {
                self.read_part(file, ledger..ledger + LEDGER)?;
            }
        }
        self.read_part(file, offset_of!(Region, refusals)..size_of::<Region>())?;
        Ok(&self.copy)
    }

    fn read_first(&mut self, file: BorrowedFd<'_>, bytes: usize) -> Result<&Region, Cause> {
        self.read_part(file, 0..bytes)?;
        check(&self.copy)?;
        Ok(&self.copy)
    }

    fn read_part(&mut self, file: BorrowedFd<'_>, part: Range<usize>) -> Result<(), Cause> {
        debug_assert!(part.end <= size_of::<Region>());
        let mut at = part.start;
        while at < part.end {
            let offset = libc::off_t::try_from(at).unwrap_or(0);
            // SAFETY: a part of our own mapping, which nobody refers to while we hold it mutably.
            let read = unsafe {
                libc::pread(
                    file.as_raw_fd(),
                    self.copy.0.as_ptr().cast::<u8>().add(at).cast(),
                    part.end - at,
                    offset,
                )
            };
            match usize::try_from(read) {
                Ok(0) => return Err(Cause::Size(at as u64)),
                Ok(more) => at += more,
                Err(_) => {
                    let error = std::io::Error::last_os_error();
                    if error.kind() != std::io::ErrorKind::Interrupted {
                        return Err(Cause::System("read", error));
                    }
                }
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    use super::*;

    fn file() -> OwnedFd {
        // SAFETY: a literal name; the descriptor is ours alone.
        unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"region".as_ptr(), libc::MFD_CLOEXEC)) }
    }

    #[test]
    fn what_is_told_is_read_of_devices_that_are_there() {
        let file = file();
        let region = Mapped::from_file(file.as_fd(), c"region").unwrap();
        let uuid = [9; 16];
        assert_eq!(devices::index_of(&region, &[7; 16]), Some(0));
        assert_eq!(devices::index_of(&region, &uuid), Some(1));
        for device in [1, 2] {
            region.memory[device][SLOTS - 1].store(5 << 32, Ordering::Relaxed);
        }
        region.waits[31].number.store(3, Ordering::Relaxed);
        let mut copy = Snapshot::new().unwrap();
        let told = copy.read_told(file.as_fd()).unwrap();
        assert_eq!(devices::find(told, &uuid), Some(1));
        let held = |device| devices::ledger(told, device).unwrap().held_by(SLOTS - 1);
        assert_eq!((held(1), held(2)), (5 * crate::ledger::UNIT, 0));
        assert_eq!(told.waits[31].number.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_file_that_ends_early_is_no_region() {
        let file = file();
        Mapped::from_file(file.as_fd(), c"region").unwrap();
        // SAFETY: an open descriptor.
        let cut = unsafe { libc::ftruncate(file.as_raw_fd(), 0x4b07f) };
        assert_eq!(cut, 0);
        let mut copy = Snapshot::new().unwrap();
        assert!(copy.read_head(file.as_fd()).is_ok());
        assert!(matches!(
            copy.read_told(file.as_fd()),
            Err(Cause::Size(0x4b07f))
        ));
        assert!(matches!(copy.read(file.as_fd()), Err(Cause::Size(0x4b07f))));
    }
}
