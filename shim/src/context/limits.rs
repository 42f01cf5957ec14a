//! `cuCtxSetLimit`: the stack, the heap and the printf buffer of device code are device memory of the context.
//!
//! Estimated: what a limit says beyond its value when it was first changed, on top of the context's constant. The heap and
//! the buffer count as they are, the stack once for each thread that fits on the device at a time. Not counted where
//! contexts are not (`GPU_QUOTA_CONTEXT=0`).

use cuda_headers::driver::{CUdevice_attribute, CUlimit, CUresult};

use super::Context;
use crate::device::Device;
use crate::driver::{call, relaxed};
use crate::guard::Aside;
use crate::memory::{self, Limit};
use crate::process;

/// `cuCtxSetLimit`.
pub(crate) fn set(
    limit: CUlimit,
    value: usize,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let context = super::current(process)?;
    let device = context.device;
    if device.context_charge() == 0 {
        return Err(Aside::NotLimited);
    }
    let unit = unit(device, limit).ok_or(Aside::NotDeviceMemory)?;
    let before = get(limit).ok_or(Aside::DriverDecides)?;
    let Limit { charged, first } = process.memory.limit(key(&context, limit), before);
    let beyond = |value: usize| {
        let bytes = wide(value).saturating_sub(wide(first)).saturating_mul(unit);
        memory::rounded(bytes)
    };
    let more = beyond(value).saturating_sub(charged);
    let Some(reservation) = memory::reserve(process, device, more) else {
        return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    };
    let answer = call();
    if answer != CUresult::CUDA_SUCCESS {
        return Ok(answer);
    }
    reservation.keep();
    let mut held = charged + more;
    // The driver may have made more or less of it.
    let truth = beyond(get(limit).unwrap_or(value));
    if truth > held {
        let Some(rest) = memory::reserve(process, device, truth - held) else {
            // SAFETY: a limit that the driver has had before.
            let _ = relaxed(|| unsafe { call!(cuCtxSetLimit(limit, before)) });
            device.refund(more);
            return Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        };
        rest.keep();
        held = truth;
    }
    device.refund(held - truth);
    let limits = Limit {
        charged: truth,
        first,
    };
    process
        .memory
        .set_limit(key(&context, limit), limits, &context);
    Ok(answer)
}

/// Bytes of device memory for each byte of a limit; `None` for limits that take none, or next to none.
fn unit(device: &Device, limit: CUlimit) -> Option<u64> {
    match limit {
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE | CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => Some(1),
        CUlimit::CU_LIMIT_STACK_SIZE => {
            let of = |attribute| attribute_of(device, attribute);
            let threads =
                of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
            let processors = of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            Some(threads.saturating_mul(processors))
        }
        _ => None,
    }
}

fn attribute_of(device: &Device, attribute: CUdevice_attribute) -> Option<u64> {
    let mut value = 0;
    // SAFETY: a live out-pointer.
    let answer = relaxed(|| unsafe {
        call!(cuDeviceGetAttribute(
            &raw mut value,
            attribute,
            device.handle()
        ))
    });
    (answer == CUresult::CUDA_SUCCESS).then(|| u64::try_from(value).unwrap_or(0))
}

fn get(limit: CUlimit) -> Option<usize> {
    let mut value = 0;
    // SAFETY: a live out-pointer.
    let answer = relaxed(|| unsafe { call!(cuCtxGetLimit(&raw mut value, limit)) });
    (answer == CUresult::CUDA_SUCCESS).then_some(value)
}

fn key(context: &Context<'_>, limit: CUlimit) -> u64 {
    u64::from(context.id) << 8 | u64::from(limit.0 & 0xff)
}

fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
