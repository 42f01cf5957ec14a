//! The exported names: their addresses, how often each was called, and the stubs of those that
//! nothing here implements.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_headers::driver::CUresult;
use cuda_headers::symbols::SYMBOLS;

include!(concat!(env!("OUT_DIR"), "/symbols.rs"));

unsafe extern "C" {
    /// In the order of [`SYMBOLS`]; written by the assembler (see `build.rs`).
    static gpu_sim_addresses: [usize; COUNT];
}

/// Calls of each entry point that reached this library in this process.
static CALLS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];

/// The same in null mode, where threads that launch at the same time must not write one line: what that costs would be most of
/// the call, and would be taken for the cost of a hook.
static NULL_CALLS: [Shard; SHARDS] =
    [const { Shard([const { AtomicU64::new(0) }; COUNT]) }; SHARDS];
const SHARDS: usize = 16;

/// What some of the threads have counted.
#[repr(align(128))]
struct Shard([AtomicU64; COUNT]);

/// Counts a call of the entry point with this [`id`].
#[inline]
pub(crate) fn count(id: usize) {
    if let Some(calls) = CALLS.get(id) {
        calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// The same in null mode, where a locked instruction would be most of the call: calls that happen
/// at the same time on several threads may be counted once.
#[inline]
pub(crate) fn count_null(id: usize) {
    let here = 0_u8;
    // Stacks lie 2 MiB apart, so that threads which are started together count apart.
    let shard = (&raw const here).addr() >> 21 & (SHARDS - 1);
    if let Some(calls) = NULL_CALLS.get(shard).and_then(|shard| shard.0.get(id)) {
        calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

fn index(name: &str) -> Option<usize> {
    SYMBOLS
        .binary_search_by(|symbol| symbol.name.cmp(name))
        .ok()
}

/// How often `name` was called; `None` for a name that is not exported.
pub(crate) fn calls(name: &str) -> Option<u64> {
    let id = index(name)?;
    let shards = NULL_CALLS.iter().filter_map(|shard| shard.0.get(id));
    let calls = CALLS.get(id)?.load(Ordering::Relaxed);
    Some(shards.fold(calls, |sum, calls| sum + calls.load(Ordering::Relaxed)))
}

/// Address of the exported function `name`.
pub(crate) fn address(name: &str) -> Option<usize> {
    // SAFETY: the assembler wrote COUNT words there, which nothing changes after relocation.
    let addresses: &[usize; COUNT] = unsafe { &gpu_sim_addresses };
    addresses.get(index(name)?).copied()
}

macro_rules! stub {
    ($name:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> CUresult {
            count(id::$name);
            CUresult::CUDA_ERROR_NOT_SUPPORTED
        }
    };
}
stubs!(stub);
