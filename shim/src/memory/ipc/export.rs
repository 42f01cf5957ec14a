//! What this process hands out to others: it stays charged here, and a row in the region tells the group's other processes so.

use cuda_headers::driver::{CUdeviceptr, CUipcMemHandle, CUmemPoolPtrExportData, CUresult};
use quota_abi::exports::Row;

use super::ask;
use crate::device::Device;
use crate::guard::Aside;
use crate::process::{self, Process};

/// Names that one allocation may have been given in front of others; the driver is not known to give more than one.
const NAMES: u64 = 4;

/// A row of this process.
#[derive(Copy, Clone)]
pub(super) struct Exported {
    key: u64,
    row: Row,
}

/// `cuIpcGetMemHandle`.
pub(crate) fn get_handle(
    handle: *mut CUipcMemHandle,
    address: CUdeviceptr,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if handle.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        let bytes = unsafe { handle.read() }.reserved.map(ask::unsigned);
        publish(process, address, ask::key(bytes));
    }
    Ok(answer)
}

/// `cuMemPoolExportPointer`.
pub(crate) fn get_pointer(
    data: *mut CUmemPoolPtrExportData,
    address: CUdeviceptr,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if data.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS {
        // SAFETY: the driver has just written it for its caller.
        let bytes = unsafe { data.read() }.reserved;
        publish(process, address, ask::key(bytes));
    }
    Ok(answer)
}

/// Makes a row for an allocation of this process, once for each of its names. Addresses of allocations are far enough apart for
/// the names to stand behind one another.
fn publish(process: &Process, address: CUdeviceptr, key: u64) {
    let Some(record) = process.memory.addresses.get(address) else {
        return;
    };
    let Some(device) = process.devices.by_number(record.device()) else {
        return;
    };
    let exports = &process.memory.ipc.exports;
    for place in address..address.saturating_add(NAMES) {
        match exports.get(place) {
            Some(known) if known.key == key => return,
            Some(_) => {}
            None => {
                if let Some(row) = device.publish(key, record.bytes) {
                    let _ = exports.insert(place, Exported { key, row });
                }
                return;
            }
        }
    }
}

/// An allocation of this process is gone. Processes that still hold it are charged for it from here on.
#[inline]
pub(in crate::memory) fn freed(process: &Process, device: &Device, address: CUdeviceptr) {
    if !process.memory.ipc.exports.is_empty() {
        withdraw(process, device, address);
    }
}

#[cold]
fn withdraw(process: &Process, device: &Device, address: CUdeviceptr) {
    let exports = &process.memory.ipc.exports;
    for place in address..address.saturating_add(NAMES) {
        let Some(exported) = exports.remove(place) else {
            return;
        };
        device.withdraw(exported.row);
    }
}
