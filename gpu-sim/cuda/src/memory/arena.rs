//! The bytes behind device memory: one sparse memory file per process, mapped at the addresses
//! that the program gets. Nothing is committed until it is touched, freed memory is unmapped and
//! its bytes are given back, and another process can map any part of the file (IPC).
//!
//! # Safety
//! The one place that maps and unmaps device memory. Only addresses inside the range reserved
//! here are ever replaced by `MAP_FIXED`.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// What the driver allocates in.
pub(crate) const BLOCK: usize = 2 << 20;
/// Address space to start with; halved until the process may have it.
const WANTED: usize = 1 << 40;
const SMALLEST: usize = 1 << 33;

/// Free parts of a range, by their start.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    free: BTreeMap<usize, usize>,
}

impl Ranges {
    /// One free range.
    pub(crate) fn new(start: usize, len: usize) -> Self {
        Self {
            free: BTreeMap::from([(start, len)]),
        }
    }

    /// The lowest free place for `len` bytes at a multiple of `align`.
    pub(crate) fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let fits = |(start, free): (&usize, &usize)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(len)? <= start.checked_add(*free)?).then_some((*start, *free, at))
        };
        let (start, free, at) = self.free.iter().find_map(fits)?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        let end = start + free;
        if at + len < end {
            self.free.insert(at + len, end - at - len);
        }
        Some(at)
    }

    /// Takes exactly this range, if all of it is free.
    pub(crate) fn take_at(&mut self, at: usize, len: usize) -> bool {
        let Some((&start, &free)) = self.free.range(..=at).next_back() else {
            return false;
        };
        let end = start + free;
        if at + len > end {
            return false;
        }
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        if at + len < end {
            self.free.insert(at + len, end - at - len);
        }
        true
    }

    /// Returns what [`Ranges::take`] gave; neighbours grow together.
    pub(crate) fn put(&mut self, mut start: usize, mut len: usize) {
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            (start, len) = (before, len + size);
        }
        if let Some(size) = self.free.remove(&(start + len)) {
            len += size;
        }
        self.free.insert(start, len);
    }
}

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

/// A piece of memory that has no address of its own (VMM).
pub(crate) type Offset = usize;

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

/// Maps `len` bytes of a memory file at `start`.
pub(crate) fn map_fixed(start: usize, len: usize, file: i32, offset: Offset) -> io::Result<()> {
    let offset = i64::try_from(offset).map_err(io::Error::other)?;
    // SAFETY: the range is reserved by this library (the callers' contract), so no mapping of
    // anybody else is replaced.
    let mapped = unsafe {
        libc::mmap(
            start as *mut libc::c_void,
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED,
            file,
            offset,
        )
    };
    if mapped == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Less than this is zeroed by writing.
const WORTH_PUNCHING: usize = 1 << 20;
const PAGE: usize = 4096;

/// Zeroes memory. Large parts of it are given back instead of written, so that a program which
/// clears a whole device does not commit as much memory of the host.
///
/// # Safety
/// `len` bytes from `start` on are valid for writes.
pub(crate) unsafe fn zero(start: usize, len: usize) {
    let (first, end) = (start.next_multiple_of(PAGE), (start + len) / PAGE * PAGE);
    let target = ptr::with_exposed_provenance_mut::<u8>(start);
    if len >= WORTH_PUNCHING {
        // SAFETY: whole pages inside the caller's range, which read as zero afterwards. Memory that
        // is no shared file refuses, and is written below.
        let punched = unsafe {
            let pages = ptr::with_exposed_provenance_mut::<libc::c_void>(first);
            libc::madvise(pages, end - first, libc::MADV_REMOVE)
        };
        if punched == 0 {
            // SAFETY: what is left of the range at both ends.
            unsafe {
                target.write_bytes(0, first - start);
                target.add(end - start).write_bytes(0, start + len - end);
            }
            return;
        }
    }
    // SAFETY: the caller's range.
    unsafe { target.write_bytes(0, len) };
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

/// A sparse file of twice `len` bytes.
fn memory_file(len: usize) -> io::Result<(OwnedFd, (u64, u64))> {
    // The system call itself: glibc has a function for it only since 2.27, and the portable build
    // is linked against 2.17.
    // SAFETY: a NUL-terminated name and known flags.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_memfd_create,
            c"gpu-sim".as_ptr(),
            libc::MFD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: just opened, owned by nobody else.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let size = i64::try_from(2 * len).map_err(io::Error::other)?;
    // SAFETY: plain system call on our descriptor.
    if unsafe { libc::ftruncate(fd, size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let identity = identity(fd)?;
    Ok((file, identity))
}

/// A descriptor of its own for the same file: neither position nor lifetime is shared.
pub(crate) fn reopen(file: &impl AsRawFd) -> io::Result<OwnedFd> {
    std::fs::File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map(OwnedFd::from)
}

/// Device and inode of an open file.
pub(crate) fn identity(fd: i32) -> io::Result<(u64, u64)> {
    // SAFETY: an all-zero stat is a valid one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: writes the struct that it is given.
    if unsafe { libc::fstat(fd, &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_together_again() {
        let mut ranges = Ranges::new(100, 100);
        let (a, b, c) = (ranges.take(10, 1), ranges.take(10, 50), ranges.take(90, 1));
        assert_eq!((a, b, c), (Some(100), Some(150), None));
        ranges.put(150, 10);
        ranges.put(100, 10);
        assert!(!ranges.take_at(190, 20) && ranges.take_at(120, 20));
        ranges.put(120, 20);
        assert_eq!(ranges.take(100, 1), Some(100));
    }

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
    fn zeroing_spares_what_lies_around() {
        let mut arena = Arena::new().unwrap();
        let at = arena.reserve(2 * BLOCK, 1).unwrap();
        arena.commit(at, 2 * BLOCK).unwrap();
        // SAFETY: four committed megabytes lie there.
        let bytes = unsafe {
            let start = ptr::with_exposed_provenance_mut::<u8>(at);
            start.write_bytes(7, 2 * BLOCK);
            zero(at + 100, BLOCK + 4000);
            zero(at + 2 * BLOCK - 10, 5);
            std::slice::from_raw_parts(start, 2 * BLOCK)
        };
        let zeroes = |range: std::ops::Range<usize>| bytes[range].iter().all(|byte| *byte == 0);
        let sevens = |range: std::ops::Range<usize>| bytes[range].iter().all(|byte| *byte == 7);
        assert!(sevens(0..100) && zeroes(100..BLOCK + 4100));
        assert!(sevens(BLOCK + 4100..2 * BLOCK - 10) && zeroes(2 * BLOCK - 10..2 * BLOCK - 5));
        assert!(sevens(2 * BLOCK - 5..2 * BLOCK));
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
