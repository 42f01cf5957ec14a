//! What can be set on a context: limits and cache preferences. What was set is what is read back. Stack, heap and printf
//! buffer take memory of the device beyond what a context starts with: the stack for each thread that fits on the
//! device at a time.

use std::ffi::c_int;

use cuda_headers::driver::{
    CUexecAffinityParam, CUexecAffinityType, CUfunc_cache, CUlimit, CUresult, CUsharedconfig,
};

use super::Context;
use crate::entry::{answer, entry, out, out_optional};
use crate::{device, memory, state};

/// The settings of a context.
pub(crate) struct Settings {
    limits: [usize; LIMITS],
    /// Bytes of the device that each limit takes.
    taken: [usize; LIMITS],
    cache: CUfunc_cache,
    shared: CUsharedconfig,
}

/// Limits that can be read: those of compute devices.
const LIMITS: usize = 7;

/// Stack bytes per thread, printf buffer, device heap, nesting depth, pending device launches, L2
/// fetch granularity, persisting L2 bytes: what drivers start with.
const DEFAULT_LIMITS: [usize; LIMITS] = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0];

/// The least urgent and the most urgent stream priority.
pub(crate) const PRIORITIES: (c_int, c_int) = (0, -5);

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: DEFAULT_LIMITS,
            taken: [0; LIMITS],
            cache: CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE,
            shared: CUsharedconfig::CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE,
        }
    }
}

fn limit(limit: CUlimit) -> Result<usize, CUresult> {
    match limit.0 as usize {
        index if index < LIMITS => Ok(index),
        index if index < CUlimit::CU_LIMIT_MAX.0 as usize => {
            Err(CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT)
        }
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

/// Threads of a multiprocessor.
const THREADS: usize = 2048;

fn set(context: &Context, index: usize, value: usize) -> Result<(), CUresult> {
    let unit = match index {
        0 => device::get(context.device)?.card.multiprocessors as usize * THREADS,
        1 | 2 => 1,
        _ => 0,
    };
    let beyond = value.saturating_sub(DEFAULT_LIMITS[index]);
    let bytes = beyond
        .checked_mul(unit)
        .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
    let bytes = memory::rounded(bytes, memory::GRAIN)?;
    let mut settings = context.settings();
    let before = settings.taken[index];
    if bytes > before {
        memory::charge_reserve(context.core_device, bytes - before)?;
    } else {
        memory::refund_reserve(context.core_device, before - bytes);
    }
    settings.taken[index] = bytes;
    settings.limits[index] = value;
    Ok(())
}

/// A context ends, or one of its handles: its settings are those of a new one.
pub(super) fn reset(context: &Context) {
    let gone = std::mem::take(&mut *context.settings());
    memory::refund_reserve(context.core_device, gone.taken.iter().sum());
}

entry! {
    fn cuCtxGetLimit(pvalue: *mut usize, limit: CUlimit), null { answer(out(pvalue, 1024)) } {
        let context = state::current()?;
        let index = self::limit(limit)?;
        out(pvalue, context.settings().limits[index])
    }

    fn cuCtxSetLimit(limit: CUlimit, value: usize) {
        let context = state::current()?;
        set(context, self::limit(limit)?, value)
    }

    fn cuCtxGetCacheConfig(pconfig: *mut CUfunc_cache) {
        out(pconfig, state::current()?.settings().cache)
    }

    fn cuCtxSetCacheConfig(config: CUfunc_cache) {
        let context = state::current()?;
        if config.0 > CUfunc_cache::CU_FUNC_CACHE_PREFER_EQUAL.0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        context.settings().cache = config;
        Ok(())
    }

    fn cuCtxGetSharedMemConfig(pConfig: *mut CUsharedconfig) {
        out(pConfig, state::current()?.settings().shared)
    }

    fn cuCtxSetSharedMemConfig(config: CUsharedconfig) {
        let context = state::current()?;
        if config.0 > CUsharedconfig::CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE.0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        context.settings().shared = config;
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        state::current().map(|_| ())
    }

    fn cuCtxGetStreamPriorityRange(leastPriority: *mut c_int, greatestPriority: *mut c_int),
    null {
        out_optional(leastPriority, PRIORITIES.0);
        out_optional(greatestPriority, PRIORITIES.1);
        CUresult::CUDA_SUCCESS
    } {
        state::current()?;
        out_optional(leastPriority, PRIORITIES.0);
        out_optional(greatestPriority, PRIORITIES.1);
        Ok(())
    }

    /// Only MPS clients have one.
    fn cuCtxGetExecAffinity(pExecAffinity: *mut CUexecAffinityParam, type_: CUexecAffinityType) {
        state::current()?;
        if pExecAffinity.is_null() || type_ != CUexecAffinityType::CU_EXEC_AFFINITY_TYPE_SM_COUNT {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        Err(CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY)
    }
}
