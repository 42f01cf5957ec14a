//! The bytes behind device memory: one sparse memory file per process, mapped at the addresses
//! that the program gets. Nothing is committed until it is touched, freed memory is unmapped and
//! its bytes are given back, and another process can map any part of the file (IPC).
//!
//! # Safety
//! The one place that maps and unmaps device memory. Only addresses inside the range reserved
//! here are ever replaced by `MAP_FIXED`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use crate::memory::file::{Offset, identity, map_fixed, memory_file};
use crate::memory::ranges::Ranges;

/// What the driver allocates in.
pub(crate) const BLOCK: usize = 2 << 20;
/// Address space to start with; halved until the process may have it.
const WANTED: usize = 1 << 40;
const SMALLEST: usize = 1 << 33;

/// Reserved addresses and the file behind them.
#[derive(Debug)]
pub(crate) struct Arena {
    base: usize,
    len: usize,
    file: OwnedFd,
    /// Tells whether the descriptor is still ours: programs close what they did not open.
    identity: (u64, u64),
    addresses: Ranges,
    /// The file beyond the part that belongs to the addresses: physical memory without one.
    physical: Ranges,
}

impl Arena {
    pub(crate) fn new() -> io::Result<Self> {
        let (raw, mapped) = reserve()?;
        let base = raw.next_multiple_of(BLOCK);
        let len = (mapped - (base - raw)) / BLOCK * BLOCK;
        let (file, identity) = memory_file(len)?;
        Ok(Self {
            base,
            len,
            file,
            identity,
            addresses: Ranges::new(base, len),
            physical: Ranges::new(len, len),
        })
    }

    /// Reserves `len` bytes (a multiple of [`BLOCK`]) of addresses without memory.
    pub(crate) fn reserve(&mut self, len: usize, align: usize) -> Option<usize> {
        self.addresses.take(len, align.max(BLOCK))
    }

    /// Gives reserved addresses back; nothing is mapped there any more.
    pub(crate) fn unreserve(&mut self, start: usize, len: usize) {
        self.addresses.put(start, len);
    }

    /// Puts memory behind reserved addresses.
    pub(crate) fn commit(&mut self, start: usize, len: usize) -> io::Result<()> {
        self.map(start, len, start - self.base)
    }

    /// Takes the memory away again and gives its bytes back; the addresses stay reserved.
    pub(crate) fn decommit(&mut self, start: usize, len: usize) {
        self.unmap(start, len);
        self.punch(start - self.base, len);
    }

    /// Memory without an address.
    pub(crate) fn take_physical(&mut self, len: usize) -> Option<Offset> {
        self.physical.take(len, BLOCK)
    }

    /// Gives it back.
    pub(crate) fn put_physical(&mut self, offset: Offset, len: usize) {
        self.punch(offset, len);
        self.physical.put(offset, len);
    }

    /// Maps part of the file at reserved addresses.
    pub(crate) fn map(&mut self, start: usize, len: usize, offset: Offset) -> io::Result<()> {
        self.renew_file()?;
        map_fixed(start, len, self.file.as_raw_fd(), offset)
    }

    /// Leaves reserved addresses without memory: touching them is a fault.
    pub(crate) fn unmap(&self, start: usize, len: usize) {
        // SAFETY: the range lies in what `reserve` mapped, and no live allocation is in it: the
        // callers keep the table of them. Failing (out of map entries) leaves the old mapping.
        unsafe {
            libc::mmap(
                start as *mut libc::c_void,
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            );
        }
    }

    /// Where committed memory lies in the file.
    pub(crate) fn offset(&self, address: usize) -> Offset {
        address - self.base
    }

    /// The file, for other processes to map.
    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    fn punch(&self, offset: Offset, len: usize) {
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
            return;
        };
        // SAFETY: plain system call on a descriptor that is ours, or fails.
        unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset,
                len,
            );
        }
    }

    /// A program may have closed every descriptor (`closefrom`): what is mapped stays, what comes
    /// next lies in a new file.
    fn renew_file(&mut self) -> io::Result<()> {
        if identity(self.file.as_raw_fd()).is_ok_and(|now| now == self.identity) {
            return Ok(());
        }
        let (file, identity) = memory_file(self.len)?;
        let old = std::mem::replace(&mut self.file, file);
        self.identity = identity;
        // Whoever owns that number now must not lose it.
        std::mem::forget(old);
        Ok(())
    }
}

fn reserve() -> io::Result<(usize, usize)> {
    let mut len = WANTED;
    loop {
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapped != libc::MAP_FAILED {
            return Ok((mapped as usize, len));
        }
        if len <= SMALLEST {
            return Err(io::Error::last_os_error());
        }
        len /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_and_goes_with_its_bytes() {
        let mut arena = Arena::new().unwrap();
        let at = arena.reserve(BLOCK, 1).unwrap();
        arena.commit(at, BLOCK).unwrap();
        let word = at as *mut u64;
        // SAFETY: two committed megabytes lie there.
        unsafe { word.write_volatile(7) };
        arena.decommit(at, BLOCK);
        arena.commit(at, BLOCK).unwrap();
        // SAFETY: as above.
        let byte = unsafe { word.read_volatile() };
        assert_eq!(byte, 0, "the bytes were given back");
        arena.decommit(at, BLOCK);
        arena.unreserve(at, BLOCK);
        assert_eq!(
            arena.reserve(BLOCK, 1),
            Some(at),
            "addresses are used again"
        );
    }

    #[test]
    fn physical_memory_can_be_mapped_twice() {
        let mut arena = Arena::new().unwrap();
        let (a, b) = (
            arena.reserve(BLOCK, 1).unwrap(),
            arena.reserve(BLOCK, 1).unwrap(),
        );
        let memory = arena.take_physical(BLOCK).unwrap();
        arena.map(a, BLOCK, memory).unwrap();
        arena.map(b, BLOCK, memory).unwrap();
        // SAFETY: both ranges are mapped.
        unsafe {
            (a as *mut u32).write_volatile(5);
            assert_eq!((b as *const u32).read_volatile(), 5);
        }
    }

    #[test]
    fn a_closed_file_is_replaced() {
        let mut arena = Arena::new().unwrap();
        // SAFETY: what a program that closes all descriptors does.
        unsafe { libc::close(arena.file.as_raw_fd()) };
        let at = arena.reserve(BLOCK, 1).unwrap();
        arena.commit(at, BLOCK).unwrap();
        // SAFETY: committed just above.
        unsafe { (at as *mut u32).write_volatile(1) };
    }
}
