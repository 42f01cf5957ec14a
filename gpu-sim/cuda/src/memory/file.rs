//! Memory files: what the bytes of device memory lie in, so that other processes can map them.
//!
//! # Safety
//! Maps over addresses that its callers have reserved, and over no others.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// A place in a memory file.
pub(crate) type Offset = usize;

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

/// A sparse file of twice `len` bytes.
pub(super) fn memory_file(len: usize) -> io::Result<(OwnedFd, (u64, u64))> {
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
    use crate::memory::{Arena, BLOCK};

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
}
