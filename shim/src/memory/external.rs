//! Memory of other APIs (`cuImportExternalMemory`): charged to the importer by the size that it states, because what Vulkan
//! and its kin allocate is counted nowhere; not again if it is what somebody of the group exported from CUDA. Whether it
//! lies on the device or on the host is not told: it is charged to the device of the current context.
//!
//! Held until the object is destroyed and everything mapped from it is freed, or their context goes.

use cuda_headers::driver::{CUDA_EXTERNAL_MEMORY_HANDLE_DESC, CUexternalMemory, CUresult};
use quota_abi::exports::Row;

use super::array::Handle;
use super::{number_of, reserve, rounded};
use crate::context;
use crate::device::Device;
use crate::guard::Aside;
use crate::numbers::Numbers;
use crate::process::{self, Process};
use crate::table::Table;

/// The external memory of this process.
pub(super) struct Externals {
    objects: Table<Object>,
    /// Numbers of objects, by their handle.
    handles: Table<u64>,
    /// The same by address of a mapped buffer, or handle of a mapped array.
    mapped: Table<u64>,
    next: Numbers,
}

#[derive(Copy, Clone)]
struct Object {
    bytes: u64,
    /// Where somebody else of the group is charged.
    row: Option<Row>,
    device: u16,
    context: u32,
    /// The handle and what is mapped.
    references: u32,
}

impl Externals {
    pub(super) const fn new() -> Self {
        Self {
            objects: Table::new(),
            handles: Table::new(),
            mapped: Table::new(),
            next: Numbers::new(),
        }
    }

    /// A reference less; the last one gives the memory back.
    fn drop_one(&self, process: &Process, number: u64) {
        let left = self.objects.with(number, |object| {
            object.references = object.references.saturating_sub(1);
            object.references
        });
        if left == Some(0)
            && let Some(object) = self.objects.remove(number)
        {
            give_back(process, &object);
        }
    }
}

fn give_back(process: &Process, object: &Object) {
    if let Some(device) = process.devices.by_number(object.device.into()) {
        match object.row {
            Some(row) => device.let_go(row),
            None => device.refund(object.bytes),
        }
    }
}

fn key(handle: CUexternalMemory) -> u64 {
    u64::try_from(handle.0.addr()).unwrap_or(0)
}

/// `cuImportExternalMemory`.
pub(crate) fn import(
    handle: *mut CUexternalMemory,
    description: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if handle.is_null() || description.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let context = context::current(process)?;
    let device = context.device;
    // SAFETY: not null, and the driver is about to read it.
    let bytes = rounded(unsafe { (*description).size });
    let row = device.hold(bytes);
    let answer = if row.is_some() {
        call()
    } else {
        charged(process, device, bytes, call)
    };
    if answer != CUresult::CUDA_SUCCESS {
        if let Some(row) = row {
            device.let_go(row);
        }
        return Ok(answer);
    }
    let externals = &process.memory.externals;
    let number = externals.next.next();
    let object = Object {
        bytes,
        row,
        device: number_of(device),
        context: context.id,
        references: 1,
    };
    let _ = externals.objects.insert(number, object);
    // SAFETY: the driver has just written it for its caller.
    let _ = externals
        .handles
        .insert(key(unsafe { handle.read() }), number);
    Ok(answer)
}

fn charged(
    process: &Process,
    device: &Device,
    bytes: u64,
    call: &impl Fn() -> CUresult,
) -> CUresult {
    let Some(reservation) = reserve(process, device, bytes) else {
        return CUresult::CUDA_ERROR_OUT_OF_MEMORY;
    };
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        reservation.keep();
    }
    answer
}

/// `cuDestroyExternalMemory`: what is mapped from it is to be freed by itself.
pub(crate) fn destroy(
    handle: CUexternalMemory,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let externals = &process.memory.externals;
    let number = externals
        .handles
        .remove(key(handle))
        .ok_or(Aside::Unknown)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        externals.drop_one(process, number);
    } else {
        let _ = externals.handles.insert(key(handle), number);
    }
    Ok(answer)
}

/// What `cuExternalMemoryGetMapped...` writes: a buffer's address, or a mipmapped array.
pub(crate) trait Mapped: Copy {
    fn mapped(self) -> u64;
}

impl Mapped for u64 {
    fn mapped(self) -> u64 {
        self
    }
}

impl Mapped for cuda_headers::driver::CUmipmappedArray {
    fn mapped(self) -> u64 {
        self.key()
    }
}

/// `cuExternalMemoryGetMappedBuffer` and `cuExternalMemoryGetMappedMipmappedArray`.
pub(crate) fn map(
    target: *mut impl Mapped,
    handle: CUexternalMemory,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if target.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let externals = &process.memory.externals;
    let number = externals.handles.get(key(handle)).ok_or(Aside::Unknown)?;
    externals
        .objects
        .with(number, |object| object.references += 1);
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        let key = unsafe { target.read() }.mapped();
        if let Ok(Some(again)) = externals.mapped.insert(key, number) {
            // Overlapping buffers may be given the same address.
            externals.drop_one(process, again);
        }
    } else {
        externals.drop_one(process, number);
    }
    Ok(answer)
}

/// `cuMemFree` of a mapped buffer, or `cuMipmappedArrayDestroy` of a mapped array.
#[cold]
pub(super) fn free(
    process: &Process,
    key: u64,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let externals = &process.memory.externals;
    if externals.mapped.is_empty() {
        return Err(Aside::Unknown);
    }
    let number = externals.mapped.remove(key).ok_or(Aside::Unknown)?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        externals.drop_one(process, number);
    } else {
        let _ = externals.mapped.insert(key, number);
    }
    Ok(answer)
}

/// A context is gone, and what was imported in it.
pub(super) fn context_gone(process: &Process, context: u32) {
    let externals = &process.memory.externals;
    externals.objects.sweep(
        |_, object| object.context == context,
        |number, object| {
            externals
                .handles
                .sweep(|_, other| *other == number, |_, _| {});
            externals
                .mapped
                .sweep(|_, other| *other == number, |_, _| {});
            give_back(process, &object);
        },
    );
}
