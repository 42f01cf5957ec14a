//! Multicast objects: a team of devices, and memory of each that is bound to it and stays while it is. They have handles
//! like memory but none of their own. What a write to one reaches is not simulated.

use std::ffi::c_ulonglong;
use std::sync::{Arc, Mutex, PoisonError};

use cuda_headers::driver::{
    CUdevice, CUdeviceptr, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmulticastGranularity_flags, CUmulticastObjectProp, CUresult,
};

use super::physical::{self, Physical, Place, Source, get};
use super::{INVALID, lock};
use crate::device;
use crate::entry::{entry, input, out};
use crate::memory::BLOCK;

/// What is particular to a multicast object.
pub(super) struct Multicast {
    /// As many as were announced, once all have been added.
    count: usize,
    team: Mutex<Team>,
}

#[derive(Default)]
struct Team {
    devices: Vec<usize>,
    bound: Vec<Bound>,
}

struct Bound {
    device: usize,
    offset: usize,
    size: usize,
    /// Kept.
    _memory: Arc<Physical>,
}

impl Multicast {
    fn team<T>(&self, with: impl FnOnce(&mut Team) -> T) -> T {
        with(&mut self.team.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn object(handle: CUmemGenericAllocationHandle) -> Result<Arc<Physical>, CUresult> {
    get(handle).and_then(|object| match object.source {
        Source::Multicast(_) => Ok(object),
        _ => Err(INVALID),
    })
}

fn multicast(object: &Physical) -> Result<&Multicast, CUresult> {
    match &object.source {
        Source::Multicast(multicast) => Ok(multicast),
        _ => Err(INVALID),
    }
}

fn bind(
    handle: CUmemGenericAllocationHandle,
    named: Option<CUdevice>,
    offset: usize,
    (memory, inside): (Arc<Physical>, usize),
    size: usize,
) -> Result<(), CUresult> {
    let object = object(handle)?;
    let whole = [offset, inside, size]
        .iter()
        .all(|number| number.is_multiple_of(BLOCK));
    let fits = |start: usize, all: usize| start.checked_add(size).is_some_and(|end| end <= all);
    if size == 0 || !whole || !fits(inside, memory.size) || !fits(offset, object.size) {
        return Err(INVALID);
    }
    let own = memory.core().ok_or(INVALID)?;
    let device = named.map_or(Ok(own), device::core_index)?;
    let multicast = multicast(&object)?;
    multicast.team(|team| {
        // Documented: waits until all devices have been added. Nobody else can add them here.
        if team.devices.len() < multicast.count {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        }
        let overlaps = |bound: &Bound| {
            bound.device == device
                && bound.offset < offset + size
                && offset < bound.offset + bound.size
        };
        if !team.devices.contains(&own) || team.bound.iter().any(overlaps) {
            return Err(INVALID);
        }
        team.bound.push(Bound {
            device,
            offset,
            size,
            _memory: memory,
        });
        Ok(())
    })
}

/// The memory that is mapped at an address, and how far inside it that is.
fn mapped(address: CUdeviceptr) -> Result<(Arc<Physical>, usize), CUresult> {
    let address = usize::try_from(address).map_err(|_| INVALID)?;
    let vmm = lock();
    let (base, mapping) = vmm.mappings.range(..=address).next_back().ok_or(INVALID)?;
    let inside = address - base;
    if inside >= mapping.len {
        return Err(INVALID);
    }
    Ok((Arc::clone(&mapping.physical), inside))
}

fn none(flags: c_ulonglong) -> Result<(), CUresult> {
    if flags == 0 { Ok(()) } else { Err(INVALID) }
}

entry! {
    fn cuMulticastCreate(
        mcHandle: *mut CUmemGenericAllocationHandle,
        prop: *const CUmulticastObjectProp,
    ) {
        let prop = input(prop)?;
        if !device::multicast() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let size = prop.size;
        let devices = 1..=device::all().len();
        let count = prop.numDevices as usize;
        if mcHandle.is_null() || prop.flags != 0 || size == 0 || !size.is_multiple_of(BLOCK)
            || !devices.contains(&count) {
            return Err(INVALID);
        }
        if prop.handleTypes & !u64::from(CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE.0) != 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let source = Source::Multicast(Multicast { count, team: Mutex::default() });
        // Numbers and a pointer, for which zero is a value.
        let blank: CUmemAllocationProp = std::mem::zeroed();
        out(mcHandle, physical::add(Physical::new(size, Place::Host, source, blank)))
    }

    fn cuMulticastAddDevice(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice) {
        let core = device::core_index(dev)?;
        if device::get(dev)?.mig {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let object = object(mcHandle)?;
        let multicast = multicast(&object)?;
        multicast.team(|team| {
            if team.devices.len() == multicast.count || team.devices.contains(&core) {
                return Err(INVALID);
            }
            team.devices.push(core);
            Ok(())
        })
    }

    fn cuMulticastBindMem(
        mcHandle: CUmemGenericAllocationHandle,
        mcOffset: usize,
        memHandle: CUmemGenericAllocationHandle,
        memOffset: usize,
        size: usize,
        flags: c_ulonglong,
    ) {
        none(flags)?;
        bind(mcHandle, None, mcOffset, (get(memHandle)?, memOffset), size)
    }

    fn cuMulticastBindMem_v2(
        mcHandle: CUmemGenericAllocationHandle,
        dev: CUdevice,
        mcOffset: usize,
        memHandle: CUmemGenericAllocationHandle,
        memOffset: usize,
        size: usize,
        flags: c_ulonglong,
    ) {
        none(flags)?;
        bind(mcHandle, Some(dev), mcOffset, (get(memHandle)?, memOffset), size)
    }

    fn cuMulticastBindAddr(
        mcHandle: CUmemGenericAllocationHandle,
        mcOffset: usize,
        memptr: CUdeviceptr,
        size: usize,
        flags: c_ulonglong,
    ) {
        none(flags)?;
        bind(mcHandle, None, mcOffset, mapped(memptr)?, size)
    }

    fn cuMulticastBindAddr_v2(
        mcHandle: CUmemGenericAllocationHandle,
        dev: CUdevice,
        mcOffset: usize,
        memptr: CUdeviceptr,
        size: usize,
        flags: c_ulonglong,
    ) {
        none(flags)?;
        bind(mcHandle, Some(dev), mcOffset, mapped(memptr)?, size)
    }

    /// As it was bound.
    fn cuMulticastUnbind(
        mcHandle: CUmemGenericAllocationHandle,
        dev: CUdevice,
        mcOffset: usize,
        size: usize,
    ) {
        let core = device::core_index(dev)?;
        let object = object(mcHandle)?;
        let gone = multicast(&object)?.team(|team| {
            let is_it = |bound: &Bound| {
                (bound.device, bound.offset, bound.size) == (core, mcOffset, size)
            };
            let found = team.bound.iter().position(is_it);
            found.map(|found| team.bound.swap_remove(found))
        });
        gone.map(drop).ok_or(INVALID)
    }

    fn cuMulticastGetGranularity(
        granularity: *mut usize,
        prop: *const CUmulticastObjectProp,
        option: CUmulticastGranularity_flags,
    ) {
        input(prop)?;
        if option.0 > 1 {
            return Err(INVALID);
        }
        out(granularity, BLOCK)
    }
}
