//! What this process has allocated on its devices: one file for each family.

pub(crate) mod array;
pub(crate) mod deferred;
pub(crate) mod external;
pub(crate) mod graph;
pub(crate) mod ipc;
mod limits;
pub(crate) mod linear;
pub(crate) mod pool;
mod shared;
pub(crate) mod view;
pub(crate) mod vmm;
pub(crate) mod waited;

use core::num::NonZeroU64;

pub(crate) use self::limits::Limit;
use crate::context::{self, Context};
use crate::device::{Device, Reservation};
use crate::process::{self, Process};
use crate::report;
use crate::table::{NoMemory, Table};

/// The driver hands out memory in steps of this many bytes.
const STEP: u64 = 512;

/// How often a record may replace another although contexts begin to end all the time.
const TRIES: u32 = 16;

/// All records of a process.
pub(crate) struct Memory {
    /// Linear, pitched, managed and stream-ordered memory, by address.
    addresses: Table<Record>,
    /// Arrays and mipmapped arrays, by handle.
    arrays: Table<Record>,
    /// Plain memory that is freed, and that its stream has not got to.
    pub(crate) deferred: deferred::Deferred,
    pools: pool::Pools,
    graphs: graph::Graphs,
    ipc: ipc::Shared,
    physical: vmm::Physical,
    externals: external::Externals,
    array_sizes: array::Told,
    limits: Table<limits::Kept>,
}

/// One allocation: what is charged, and for whom. Two plain words, which is what makes keeping it cheap.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Record {
    /// Bytes charged.
    bytes: u64,
    /// Owner's number (48 bits), device's number (14), whether the owner is a pool (1), and 1: an optional record fits into two
    /// registers as well.
    owner: NonZeroU64,
}

/// The bits of a device's number.
const DEVICE: u64 = 0x3fff;

/// What an allocation goes with.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Owner {
    /// The context of this id: destroyed with it.
    Context(u32),
    /// The pool of this handle, an address of user space: charged by the pool.
    Pool(u64),
}

impl Record {
    fn new(bytes: u64, device: &Device, owner: Owner) -> Self {
        let (number, pooled) = match owner {
            Owner::Context(id) => (id.into(), 0),
            Owner::Pool(handle) => (handle, 1),
        };
        let device = u64::from(number_of(device)) & DEVICE;
        Self {
            bytes,
            owner: NonZeroU64::MIN | number << 16 | device << 2 | pooled << 1,
        }
    }

    fn device(self) -> usize {
        usize::try_from(self.owner.get() >> 2 & DEVICE).unwrap_or(usize::MAX)
    }

    fn owner(self) -> Owner {
        let number = self.owner.get() >> 16;
        if self.owner.get() & 2 != 0 {
            Owner::Pool(number)
        } else {
            Owner::Context(u32::try_from(number).unwrap_or(0))
        }
    }
}

impl Memory {
    pub(crate) const fn new() -> Self {
        Self {
            addresses: Table::new(),
            arrays: Table::new(),
            deferred: deferred::Deferred::new(),
            pools: pool::Pools::new(),
            graphs: graph::Graphs::new(),
            ipc: ipc::Shared::new(),
            physical: vmm::Physical::new(),
            externals: external::Externals::new(),
            array_sizes: array::Told::new(),
            limits: Table::new(),
        }
    }
}

/// Admits `bytes`, after taking what the dead and our own pools' slack have left. `None` is a refusal, and counted as one.
pub(crate) fn reserve<'a>(
    process: &Process,
    device: &'a Device,
    bytes: u64,
) -> Option<Reservation<'a>> {
    reserve_quickly(process, device, bytes)
}

/// The same for where nanoseconds count.
#[inline(always)]
fn reserve_quickly<'a>(
    process: &Process,
    device: &'a Device,
    bytes: u64,
) -> Option<Reservation<'a>> {
    if let Some(reservation) = device.reserve(bytes) {
        return Some(reservation);
    }
    reserve_again(process, device, bytes)
}

#[cold]
fn reserve_again<'a>(process: &Process, device: &'a Device, bytes: u64) -> Option<Reservation<'a>> {
    let mut admitted = None;
    make_room(process, device, &mut || {
        admitted = device.reserve(bytes);
        admitted.is_some()
    });
    if admitted.is_some() {
        return admitted;
    }
    device.denied(bytes);
    None
}

/// Takes what the dead have left and streams have freed, and gives back what the driver holds without need: for pools, then
/// for graphs. Until `enough` says so; it is asked after each that gave something, and in the end in any case: another process
/// or thread may have given it meanwhile.
fn make_room(process: &Process, device: &Device, enough: &mut dyn FnMut() -> bool) {
    let memory = &process.memory;
    let sources: [&dyn Fn() -> bool; 4] = [
        &|| memory.deferred.settle(process),
        &process::reap,
        &|| memory.pools.trim(device),
        &|| memory.graphs.trim(device),
    ];
    for gives_room in sources {
        if gives_room() && enough() {
            return;
        }
    }
    enough();
}

/// Gives back the linear, managed and array memory of a context that is gone, what it had imported from other APIs, and what
/// its limits took. Physical memory, mappings and pools live until their own end.
pub(crate) fn drop_context(process: &Process, context: u32) {
    let memory = &process.memory;
    memory.addresses.sweep(
        |_, record| record.owner() == Owner::Context(context),
        |address, record| freed(process, address, record),
    );
    memory.arrays.sweep(
        |_, record| record.owner() == Owner::Context(context),
        |_, record| give_back(process, record),
    );
    ipc::drop_context(process, context);
    memory.deferred.context_gone(process, context);
    memory.pools.context_gone(process, |pool| {
        memory.addresses.sweep(
            |_, record| record.owner() == Owner::Pool(pool),
            |address, record| freed(process, address, record),
        );
    });
    for device in process.devices.iter() {
        memory.graphs.settle(device);
    }
    vmm::tiles::context_gone(process, context);
    external::context_gone(process, context);
    limits::context_gone(process, context);
}

/// Keeps a record of memory that goes with a context, unless that has gone meanwhile on another thread, and the memory
/// with it.
#[inline(always)]
fn remember_in(
    process: &Process,
    table: &Table<Record>,
    key: u64,
    record: Record,
    context: &Context<'_>,
) {
    let key = if table.put_new(key, record) {
        key
    } else {
        remember(process, table, key, record)
    };
    if context.is_gone(process) {
        forget_again(process, table, key, record);
    }
}

#[cold]
fn forget_again(process: &Process, table: &Table<Record>, key: u64, record: Record) {
    if let Some(record) = table.remove_if(key, |other| *other == record) {
        give_back(process, record);
    }
}

/// Asks the driver what it holds for pools and graphs now: it gives back and takes without being told.
pub(crate) fn refresh(process: &Process, device: &Device) {
    process.memory.deferred.settle(process);
    process.memory.pools.refresh(device);
    process.memory.graphs.settle(device);
}

/// Keeps a record, and says under which key: its own, if nothing is there.
#[inline(never)]
fn remember(process: &Process, table: &Table<Record>, key: u64, record: Record) -> u64 {
    match table.insert_if(key, record, || false) {
        Ok(None) => key,
        Ok(Some(_)) => remember_over(process, table, key, record),
        Err(NoMemory) => not_remembered(key),
    }
}

/// The same where a record is there. That one has been freed where we did not see it; but only as long as the new one's
/// context lives: when that is gone, the driver may have given the address to somebody else, whose record it is.
#[cold]
fn remember_over(process: &Process, table: &Table<Record>, key: u64, record: Record) -> u64 {
    for _ in 0..TRIES {
        let begun = process.contexts.begun();
        if !stays(process, record) {
            break;
        }
        // SYNC POINT with `Contexts::goes`: what is put in behind this lock is of who got the address later.
        match table.insert_if(key, record, || process.contexts.begun() == begun) {
            Ok(Some(None)) => {}
            Ok(Some(Some(stale))) => {
                give_back(process, stale);
                return key;
            }
            Ok(None) => return key,
            Err(NoMemory) => return not_remembered(key),
        }
    }
    // Kept beside it, charged until the context is gone or stays after all and frees it.
    let mut beside = beside(key);
    let kept = beside.find(|key| matches!(table.insert_if(*key, record, || false), Ok(None)));
    kept.unwrap_or_else(|| not_remembered(key))
}

fn stays(process: &Process, record: Record) -> bool {
    match record.owner() {
        Owner::Context(id) => context::stays(process, id),
        Owner::Pool(_) => true,
    }
}

/// Keys for what has the same address: none that the driver gives.
fn beside(key: u64) -> impl Iterator<Item = u64> {
    (1..16_u64).map(move |other| key | other << 60)
}

/// Takes the record that was kept beside another, which is gone meanwhile.
#[cold]
fn take_beside(table: &Table<Record>, key: u64) -> Option<Record> {
    beside(key).find_map(|key| table.remove(key))
}

/// Stays charged until the process ends: the quota holds, and the kernel is out of memory.
#[cold]
fn not_remembered(key: u64) -> u64 {
    report::debug(format_args!("no memory to remember an allocation"));
    key
}

/// Keeps the record of memory that the driver has not freed after all; but not if it says so because the context is gone,
/// and the memory with it.
#[cold]
fn put_back(process: &Process, table: &Table<Record>, key: u64, record: Record) {
    let key = remember(process, table, key, record);
    if let Owner::Context(id) = record.owner()
        && context::has_ended(process, id)
        && let Some(record) = table.remove_if(key, |other| *other == record)
    {
        give_back(process, record);
    }
}

/// Memory at an address is gone: what others of the group hold of it passes to them before it is given back here.
#[inline]
fn freed(process: &Process, address: u64, record: Record) {
    let Some(device) = process.devices.by_number(record.device()) else {
        return;
    };
    ipc::freed(process, device, address);
    give_back_on(process, device, record);
}

/// Gives back what a record was charged.
fn give_back(process: &Process, record: Record) {
    if let Some(device) = process.devices.by_number(record.device()) {
        give_back_on(process, device, record);
    }
}

#[inline]
fn give_back_on(process: &Process, device: &Device, record: Record) {
    match record.owner() {
        Owner::Context(_) => device.refund(record.bytes),
        Owner::Pool(pool) => process.memory.pools.freed(device, pool, record.bytes),
    }
}

/// Bytes that the driver takes for a request.
#[inline]
pub(crate) fn rounded(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(STEP).unwrap_or(u64::MAX)
}

#[inline]
pub(crate) fn number_of(device: &Device) -> u16 {
    u16::try_from(device.number).unwrap_or(u16::MAX)
}
