//! Process lists: the group's own processes, by the pids that this one sees, with what the ledger says they hold.
//!
//! NVML's lists are of the whole device, and its pids may be the host's. So the list of computing processes is made from
//! the group's slots; of graphics, MPS and session lists, which only NVML knows, the group's processes are kept.

use core::ffi::c_uint;

use cuda_headers::nvml::{
    nvmlAccountingStats_t, nvmlAccountingStats_v2_t, nvmlDevice_t, nvmlEncoderSessionInfo_t,
    nvmlFBCSessionInfo_t, nvmlProcessDetail_v1_t, nvmlProcessDetailList_t, nvmlProcessInfo_v1_t,
    nvmlProcessInfo_v2_t, nvmlReturn_t,
};

use super::viewer::{Member, Members, Viewer};
use crate::guard::Aside;

/// `NVML_PROCESS_MODE_COMPUTE` and `NVML_PROCESS_MODE_ALL`: all that a group's processes do here is computing.
const COMPUTING: [c_uint; 2] = [0, 3];

/// A record of a process in a list of NVML's.
pub(crate) trait Record: Copy {
    fn pid(&self) -> u32;
    /// Shows what the ledger says the process holds.
    fn show(&mut self, held: u64);
}

/// A record that can be made of what is known here.
pub(crate) trait Made: Record {
    fn of(member: &Member) -> Self;
}

/// `nvmlDeviceGetComputeRunningProcesses`, in two calls: how many there are, then all of them.
///
/// NVML is asked for the number alone, so that nothing of others comes into the caller's buffer.
pub(crate) fn computing<R: Made>(
    device: nvmlDevice_t,
    count: *mut c_uint,
    infos: *mut R,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if count.is_null() {
        return Err(Aside::DriverDecides);
    }
    let viewer = Viewer::get()?;
    // SAFETY: not NULL, so the caller's own word, before and after NVML wrote it.
    let (room, answer) = unsafe {
        let room = count.replace(0);
        (room, call())
    };
    if !matches!(
        answer,
        nvmlReturn_t::NVML_SUCCESS | nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE
    ) {
        // SAFETY: as above.
        unsafe { count.write(room) };
        return Ok(answer);
    }
    let members = viewer.members(device);
    let holding = || members.iter().flat_map(Members::holding);
    let there = c_uint::try_from(holding().count()).unwrap_or(c_uint::MAX);
    // SAFETY: as above.
    unsafe { count.write(there) };
    if there > room {
        return Ok(nvmlReturn_t::NVML_ERROR_INSUFFICIENT_SIZE);
    }
    if infos.is_null() && there > 0 {
        return Ok(nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT);
    }
    for (place, member) in holding().enumerate() {
        // SAFETY: there is room for all of them, says the caller.
        unsafe { infos.add(place).write(R::of(member)) };
    }
    Ok(nvmlReturn_t::NVML_SUCCESS)
}

/// A list that only NVML can make: what is not the group's is taken out of the caller's buffer. The number that is told
/// where there is no room yet stays NVML's: room for more than will come.
pub(crate) fn kept<R: Record>(
    device: nvmlDevice_t,
    count: *mut c_uint,
    records: *mut R,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if count.is_null() || records.is_null() {
        return Err(Aside::DriverDecides);
    }
    let viewer = Viewer::get()?;
    let answer = call();
    if answer == nvmlReturn_t::NVML_SUCCESS {
        // SAFETY: NVML has just filled so many records of the caller's.
        unsafe { keep_own(viewer.members(device).as_ref(), count, records) };
    }
    Ok(answer)
}

/// Keeps the records of the group's processes, and wipes the rest.
///
/// # Safety
/// `records` holds `*count` records.
pub(super) unsafe fn keep_own<R: Record>(
    members: Option<&Members>,
    count: *mut c_uint,
    records: *mut R,
) {
    // SAFETY: the caller's promise; `own` is never ahead of `place`.
    unsafe {
        let there = count.read() as usize;
        let mut own = 0;
        for place in 0..there {
            let mut record = records.add(place).read();
            if let Some(held) = members.and_then(|members| members.held(record.pid())) {
                record.show(held);
                records.add(own).write(record);
                own += 1;
            }
        }
        records.add(own).write_bytes(0, there - own);
        count.write(c_uint::try_from(own).unwrap_or(0));
    }
}

/// `nvmlDeviceGetRunningProcessDetailList`, by its mode.
pub(crate) fn details(
    device: nvmlDevice_t,
    list: *mut nvmlProcessDetailList_t,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if list.is_null() {
        return Err(Aside::DriverDecides);
    }
    // SAFETY: not NULL, so the caller's own list.
    let (mode, count, array) = unsafe {
        (
            (*list).mode,
            &raw mut (*list).numProcArrayEntries,
            (*list).procArray,
        )
    };
    if COMPUTING.contains(&mode) {
        computing::<nvmlProcessDetail_v1_t>(device, count, array, call)
    } else {
        kept::<nvmlProcessDetail_v1_t>(device, count, array, call)
    }
}

/// `nvmlDeviceGetAccountingPids`: of the processes that it remembers, the group's that live.
pub(crate) fn accounted(
    device: nvmlDevice_t,
    count: *mut c_uint,
    pids: *mut c_uint,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    kept(device, count, pids.cast::<Pid>(), call)
}

/// `nvmlDeviceGetAccountingStats`: NVML's own, of the group's processes alone.
pub(crate) fn statistics(
    device: nvmlDevice_t,
    pid: c_uint,
    stats: *mut nvmlAccountingStats_t,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if stats.is_null() {
        return Err(Aside::DriverDecides);
    }
    if is_own(Viewer::get()?, device, pid) {
        return Ok(call());
    }
    not_found(stats, call)
}

/// The second version, which is told the pid in its record.
pub(crate) fn statistics_v2(
    device: nvmlDevice_t,
    stats: *mut nvmlAccountingStats_v2_t,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    if stats.is_null() {
        return Err(Aside::DriverDecides);
    }
    // SAFETY: not NULL, so the caller's own record.
    let pid = unsafe { (*stats).pid };
    if is_own(Viewer::get()?, device, pid) {
        return Ok(call());
    }
    not_found(stats, call)
}

fn is_own(viewer: &Viewer, device: nvmlDevice_t, pid: c_uint) -> bool {
    let members = viewer.members(device);
    members.is_some_and(|members| members.held(pid).is_some())
}

/// A process that is not the group's is one that NVML does not remember; other errors stay NVML's.
fn not_found<R: Copy>(
    record: *mut R,
    call: &impl Fn() -> nvmlReturn_t,
) -> Result<nvmlReturn_t, Aside> {
    // SAFETY: not NULL, so the caller's own record, as it was before NVML wrote it.
    unsafe {
        let before = record.read();
        let answer = call();
        record.write(before);
        Ok(match answer {
            nvmlReturn_t::NVML_SUCCESS => nvmlReturn_t::NVML_ERROR_NOT_FOUND,
            error => error,
        })
    }
}

/// A pid alone.
#[repr(transparent)]
#[derive(Copy, Clone)]
struct Pid(c_uint);

impl Record for Pid {
    fn pid(&self) -> u32 {
        self.0
    }

    fn show(&mut self, _held: u64) {}
}

/// Records with a pid and memory.
macro_rules! records {
    ($($record:ty)*) => { $(
        impl Record for $record {
            fn pid(&self) -> u32 {
                self.pid
            }

            fn show(&mut self, held: u64) {
                self.usedGpuMemory = held;
            }
        }
    )* };
}
records! { nvmlProcessInfo_v1_t nvmlProcessInfo_v2_t nvmlProcessDetail_v1_t }

/// Records with a pid and nothing that the ledger knows.
macro_rules! sessions {
    ($($record:ty)*) => { $(
        impl Record for $record {
            fn pid(&self) -> u32 {
                self.pid
            }

            fn show(&mut self, _held: u64) {}
        }
    )* };
}
sessions! { nvmlEncoderSessionInfo_t nvmlFBCSessionInfo_t }

impl Made for nvmlProcessInfo_v1_t {
    fn of(member: &Member) -> Self {
        Self {
            pid: member.pid,
            usedGpuMemory: member.held,
        }
    }
}

impl Made for nvmlProcessInfo_v2_t {
    fn of(member: &Member) -> Self {
        Self {
            pid: member.pid,
            usedGpuMemory: member.held,
            gpuInstanceId: member.instance.0,
            computeInstanceId: member.instance.1,
        }
    }
}

impl Made for nvmlProcessDetail_v1_t {
    fn of(member: &Member) -> Self {
        Self {
            pid: member.pid,
            usedGpuMemory: member.held,
            gpuInstanceId: member.instance.0,
            computeInstanceId: member.instance.1,
            usedGpuCcProtectedMemory: 0,
        }
    }
}
