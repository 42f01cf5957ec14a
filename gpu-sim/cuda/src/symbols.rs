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
    if let Some(calls) = CALLS.get(id) {
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
    CALLS
        .get(index(name)?)
        .map(|calls| calls.load(Ordering::Relaxed))
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
