//! The bytes of a usage region. `docs/shared-memory.md` draws the same map for readers in other languages.
//!
//! All zero is a valid state of everything below the header: a fresh file needs no initialisation besides the header,
//! whose words are constants, so that any process may write them and none is the creator that others must wait for.

use core::mem::{offset_of, size_of};

use crate::bucket::Bucket;
use crate::sync::AtomicU64;

/// Version of this layout, and part of the file's name: two versions never meet in one file.
pub const VERSION: u64 = 3;
/// First word of every region: `GPUQUOTA` as bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GPUQUOTA");
/// Devices that one region can hold.
pub const DEVICES: usize = 32;
/// Processes that one region can hold.
pub const SLOTS: usize = 512;
/// Pieces of memory that processes of one region can export to each other.
pub const EXPORTS: usize = 1024;
/// Events of one kind that a region remembers.
pub const EVENTS: usize = 32;

/// The head of a region. `version` is stored last: whoever reads it sees the rest.
#[repr(C, align(128))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// Size of the whole region in bytes.
    pub size: AtomicU64,
    /// [`VERSION`], or 0 while nobody has written the header.
    pub version: AtomicU64,
    /// One more than the highest slot ever claimed: sums read no further.
    pub high_water: AtomicU64,
    /// Refusals ever noted in [`Region::refusals`].
    pub refusals: AtomicU64,
    /// Waits ever noted in [`Region::waits`].
    pub waits: AtomicU64,
}

/// One device, known by its UUID.
#[repr(C, align(128))]
pub struct DeviceRow {
    /// The UUID's first 8 bytes as a big-endian number, scrambled so that 0 means free.
    pub key: AtomicU64,
    /// The UUID's last 8 bytes likewise.
    pub rest: AtomicU64,
    /// Requests for memory that were refused.
    pub denials: AtomicU64,
    /// Up to when, `CLOCK_MONOTONIC` ns, a process was seen to have had work on the device; in the lowest ten bits its slot plus 1.
    pub covered: AtomicU64,
}

/// One process. `owner` is the lock: see [`crate::slots`].
#[repr(C, align(64))]
pub struct SlotRow {
    /// Who holds the slot: pid, hashed pid namespace, start time, state, in one word.
    pub owner: AtomicU64,
    /// Inode of the owner's pid namespace; 0 while the owner has not written it.
    pub namespace: AtomicU64,
    /// Where the kernel has put the owner's program, see [`crate::life::Identity`]; 0 if unknown.
    pub image: AtomicU64,
    /// Two bits for each device. By its row: the owner may have work in flight there, or waits to launch some. By its row and
    /// [`DEVICES`]: it may have work in flight.
    pub busy: AtomicU64,
}

/// A request that was refused, or a launch that waited; see [`crate::events`].
#[repr(C, align(64))]
pub struct EventRow {
    /// Its number, counted from 1; stored last. 0 while it is being written.
    pub number: AtomicU64,
    /// When, `CLOCK_MONOTONIC` ns.
    pub at: AtomicU64,
    /// Pid of the process in its own pid namespace (bits 0 to 31), row of the device (32 to 39), slot (40 to 55).
    pub who: AtomicU64,
    /// Refusal: bytes asked for. Wait: what the launch was charged, GPU ns.
    pub asked: AtomicU64,
    /// Refusal: bytes that the process held. Wait: the level of the bucket when it came, signed GPU ns.
    pub own: AtomicU64,
    /// Refusal: bytes that all held together. Wait: how long it waited, ns.
    pub all: AtomicU64,
    /// Refusal: the limit in bytes, less overhead. Wait: the rate in ppm.
    pub limit: AtomicU64,
    /// Not used.
    pub spare: AtomicU64,
}

/// Memory that one process exports and others import; see [`crate::exports`].
#[repr(C, align(128))]
pub struct ExportRow {
    /// Who is charged: slot plus 1 (16 bits, 0 is free), written in full (1), handed on (1), generation (upper 32 bits).
    pub owner: AtomicU64,
    /// By what importers find it.
    pub key: AtomicU64,
    /// Bytes charged.
    pub bytes: AtomicU64,
    /// The device's index.
    pub device: AtomicU64,
    /// One bit for each slot that has imported it.
    pub holders: [AtomicU64; SLOTS / 64],
}

/// A usage region.
#[repr(C)]
pub struct Region {
    /// Magic, size, version, high-water mark.
    pub header: Header,
    /// Device table; the index of a row is the device's index everywhere below.
    pub devices: [DeviceRow; DEVICES],
    /// GPU time, one bucket for each device.
    pub buckets: [Bucket; DEVICES],
    /// The processes.
    pub slots: [SlotRow; SLOTS],
    /// Memory held and asked for, by device and slot: see [`crate::ledger::Word`]. Contiguous by slot, so that a sum is a short
    /// scan.
    pub memory: [[AtomicU64; SLOTS]; DEVICES],
    /// Memory shared between processes.
    pub exports: [ExportRow; EXPORTS],
    /// The last requests for memory that were refused, in a ring.
    pub refusals: [EventRow; EVENTS],
    /// The last launches that waited, in a ring.
    pub waits: [EventRow; EVENTS],
}

const _: () = {
    assert!(size_of::<Header>() == 128);
    assert!(size_of::<DeviceRow>() == 128);
    assert!(size_of::<Bucket>() == 128);
    assert!(size_of::<SlotRow>() == 64);
    assert!(offset_of!(Header, magic) == 0);
    assert!(offset_of!(Header, size) == 8);
    assert!(offset_of!(Header, version) == 16);
    assert!(offset_of!(Header, high_water) == 24);
    assert!(offset_of!(Header, refusals) == 32);
    assert!(offset_of!(Header, waits) == 40);
    assert!(offset_of!(DeviceRow, rest) == 8);
    assert!(offset_of!(DeviceRow, denials) == 16);
    assert!(offset_of!(DeviceRow, covered) == 24);
    assert!(offset_of!(SlotRow, namespace) == 8);
    assert!(offset_of!(SlotRow, image) == 16);
    assert!(offset_of!(SlotRow, busy) == 24);
    assert!(size_of::<EventRow>() == 64);
    assert!(offset_of!(EventRow, at) == 8);
    assert!(offset_of!(EventRow, who) == 16);
    assert!(offset_of!(EventRow, asked) == 24);
    assert!(offset_of!(EventRow, own) == 32);
    assert!(offset_of!(EventRow, all) == 40);
    assert!(offset_of!(EventRow, limit) == 48);
    assert!(offset_of!(Region, devices) == 0x80);
    assert!(offset_of!(Region, buckets) == 0x1080);
    assert!(offset_of!(Region, slots) == 0x2080);
    assert!(offset_of!(Region, memory) == 0xa080);
    assert!(size_of::<ExportRow>() == 128);
    assert!(offset_of!(ExportRow, key) == 8);
    assert!(offset_of!(ExportRow, bytes) == 16);
    assert!(offset_of!(ExportRow, device) == 24);
    assert!(offset_of!(ExportRow, holders) == 32);
    assert!(offset_of!(Region, exports) == 0x2a080);
    assert!(offset_of!(Region, refusals) == 0x4a080);
    assert!(offset_of!(Region, waits) == 0x4a880);
    assert!(size_of::<Region>() == 0x4b080);
};
