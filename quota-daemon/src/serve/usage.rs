//! What the daemon writes into a usage region, by `pwrite`, and only while no registered process of the container lives.

use std::cmp::Ordering;
use std::fmt;
use std::io;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;

use quota_abi::bucket::Bucket;
use quota_abi::layout::{DeviceRow, ExportRow, Header, MAGIC, Region, SLOTS, SlotRow, VERSION};
use quota_abi::region::snapshot::Snapshot;
use rustix::fs::{FallocateFlags, fallocate, fstat, ftruncate};
use rustix::io::pwrite;

use super::files::USAGE_BYTES;

/// No bucket has more to spend, ns: what a second earns.
const MOST_CREDIT: i64 = 1_000_000_000;
/// Nor more debt: what a minute earns.
const MOST_DEBT: i64 = 60_000_000_000;

/// Sizes a fresh file and writes its header; any other is left as it is.
///
/// # Errors
/// The kernel refuses; a full tmpfs among other things.
pub(super) fn prepare(file: BorrowedFd<'_>) -> io::Result<()> {
    if fstat(file)?.st_size != 0 {
        return Ok(());
    }
    fallocate(file, FallocateFlags::empty(), 0, USAGE_BYTES)?;
    write_header(file)
}

fn write_header(file: BorrowedFd<'_>) -> io::Result<()> {
    write(file, offset_of!(Header, magic), &MAGIC.to_le_bytes())?;
    write(file, offset_of!(Header, size), &USAGE_BYTES.to_le_bytes())?;
    write(file, offset_of!(Header, version), &VERSION.to_le_bytes())
}

/// Clears what belongs to processes: slots, memory, exports. GPU time and counters stay.
///
/// # Errors
/// The file is not a region in full, or the kernel refuses.
pub(super) fn clear(file: BorrowedFd<'_>) -> io::Result<()> {
    let size = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
    if size != USAGE_BYTES {
        return Err(io::Error::other("its size has changed"));
    }
    let mut copy = Snapshot::new().ok_or(io::ErrorKind::OutOfMemory)?;
    let read = copy.read_head(file);
    if let Err(cause) = read {
        return Err(io::Error::other(format!("{cause:?}")));
    }
    mend_buckets(file, &copy)?;
    // Slots, memory and exports lie side by side.
    const _: () = assert!(
        offset_of!(Region, slots) + SLOTS * size_of::<SlotRow>() == offset_of!(Region, memory)
            && offset_of!(Region, memory) < offset_of!(Region, exports)
    );
    let begin = offset_of!(Region, slots);
    let end = offset_of!(Region, refusals);
    let zeroes = [0; 16384];
    let mut at = begin;
    while at < end {
        let length = zeroes.len().min(end - at);
        write(file, at, zeroes.get(..length).unwrap_or_default())?;
        at += length;
    }
    write(file, offset_of!(Header, high_water), &[0; 8])?;
    // A hole that somebody has made is filled, so that nobody ends by SIGBUS on a full tmpfs.
    fallocate(file, FallocateFlags::empty(), 0, USAGE_BYTES)?;
    Ok(())
}

/// A process that has gone can have left credit or debt without end, or a time that never comes.
fn mend_buckets(file: BorrowedFd<'_>, region: &Region) -> io::Result<()> {
    let now = super::status::monotonic();
    for (index, bucket) in region.buckets.iter().enumerate() {
        let possible = -MOST_DEBT..=MOST_CREDIT;
        let at = offset_of!(Region, buckets) + index * size_of::<Bucket>();
        if !possible.contains(&bucket.level()) || bucket.refilled_at() > now {
            // Level and stamp, its first two words.
            write(file, at, &[0; 16])?;
        }
    }
    Ok(())
}

/// How large a region's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// As it should be.
    Right,
    /// It was longer, and has been cut back, which hurts nobody: it takes room that others need.
    Grown(u64),
    /// It is shorter: who maps it would end by SIGBUS.
    Cut(u64),
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("its usage region has the right size"),
            Self::Grown(to) => write!(f, "a process has extended the usage region to {to} bytes"),
            Self::Cut(to) => write!(
                f,
                "a process has cut the usage region to {to} of {USAGE_BYTES} bytes"
            ),
        }
    }
}

/// Compares the size of the file with that of a region.
pub(super) fn check_size(file: BorrowedFd<'_>) -> Size {
    let size = fstat(file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
    match size.cmp(&USAGE_BYTES) {
        Ordering::Equal => Size::Right,
        Ordering::Less => Size::Cut(size),
        Ordering::Greater => {
            if let Err(error) = ftruncate(file, USAGE_BYTES) {
                tracing::warn!("a usage region of {size} bytes is not cut back: {error}");
            }
            Size::Grown(size)
        }
    }
}

fn write(file: BorrowedFd<'_>, at: usize, mut bytes: &[u8]) -> io::Result<()> {
    let mut at = u64::try_from(at).map_err(io::Error::other)?;
    while !bytes.is_empty() {
        let done = pwrite(file, bytes, at)?;
        bytes = bytes.get(done..).unwrap_or_default();
        at += done as u64;
    }
    Ok(())
}

const _: () = {
    assert!(size_of::<DeviceRow>() == 128);
    assert!(size_of::<ExportRow>() == 128);
};
