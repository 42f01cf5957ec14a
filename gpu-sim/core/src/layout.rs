//! What lies in the shared file. Every type here is valid for every bit pattern, and all zeros
//! means "nothing there".

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::account::Account;
use crate::mutex::{AliveLock, RobustMutex};
use crate::objects::{MAX_OBJECTS, Object};
use crate::slices::{DeviceTime, Door};

/// Most devices that one simulation can have.
pub const MAX_DEVICES: usize = 16;
/// Most processes that can take part at one time.
pub const MAX_PROCESSES: usize = 512;
pub(crate) const MAX_TENANTS: usize = 128;
pub(crate) const LABEL_BYTES: usize = 64;

/// Increase with every change of a type below: a file of another layout is replaced.
pub(crate) const LAYOUT_VERSION: u32 = 5;
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"gpusim\0\0");

/// The file.
#[repr(C)]
pub(crate) struct Region {
    /// Written last, when the file is ready.
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) size: AtomicU64,
    /// Tells this file from an earlier one whose inode number it got.
    pub(crate) nonce: AtomicU64,
    pub(crate) mutex: RobustMutex,
    /// Guarded by `mutex`.
    pub(crate) shared: UnsafeCell<Shared>,
    /// Who lives. Claimed under `mutex`, read by anybody.
    pub(crate) alive: [AliveLock; MAX_PROCESSES],
    /// Where a process says how much work it has, without `mutex`.
    pub(crate) doors: [[Door; MAX_PROCESSES]; MAX_DEVICES],
}

// SAFETY: everything outside `shared` is atomic or a mutex, and `shared` is guarded by `mutex`.
unsafe impl Sync for Region {}

/// What the mutex guards.
#[repr(C)]
pub(crate) struct Shared {
    pub(crate) device_count: u32,
    /// One more than the highest process slot that was ever used.
    pub(crate) slots_used: u32,
    pub(crate) context_bytes: u64,
    pub(crate) slice_ns: u64,
    /// Distinguishes the successive owners of a process slot.
    pub(crate) next_generation: u64,
    pub(crate) devices: [Device; MAX_DEVICES],
    pub(crate) tenants: [Tenant; MAX_TENANTS],
    pub(crate) processes: [Process; MAX_PROCESSES],
    pub(crate) objects: [Object; MAX_OBJECTS],
}

#[repr(C)]
pub(crate) struct Device {
    pub(crate) uuid: [u8; 16],
    pub(crate) total: u64,
    /// For a MIG instance, one more than the place of its whole GPU; else zero.
    pub(crate) parent: u64,
    /// The sum over all processes; recomputed when an owner of the mutex has died.
    pub(crate) account: Account,
    /// Busy time of processes that are gone.
    pub(crate) retired_busy_ns: u64,
    pub(crate) time: DeviceTime,
}

#[repr(C)]
pub(crate) struct Tenant {
    pub(crate) label: [u8; LABEL_BYTES],
    /// Zero: this entry is free.
    pub(crate) used: u32,
    pub(crate) accounts: [Account; MAX_DEVICES],
    pub(crate) retired_busy_ns: [u64; MAX_DEVICES],
}

#[repr(C)]
pub(crate) struct Process {
    /// Zero: this slot is free. Written last when a process registers.
    pub(crate) generation: u64,
    pub(crate) pid: u32,
    pub(crate) tenant: u32,
    /// What the process holds; the truth from which the sums follow.
    pub(crate) accounts: [Account; MAX_DEVICES],
    /// Contexts alive on each device.
    pub(crate) contexts: [u32; MAX_DEVICES],
}
