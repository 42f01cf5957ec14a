//! What every exported driver function has in common.
//!
//! ```text
//! entry! {
//!     /// Says what is particular here.
//!     fn cuStreamQuery(hStream: CUstream) => cuStreamQuery_ptsz, null { CUDA_SUCCESS } {
//!         ...                     // Result<(), CUresult>; `PER_THREAD` says which twin was called
//!     }
//! }
//! ```
//!
//! Each call is counted. In null mode the `null` expression (success, if there is none) is the whole answer. A process
//! that has not called `cuInit`, or was forked from one that had, is answered
//! `CUDA_ERROR_NOT_INITIALIZED`, and a host function of a stream `CUDA_ERROR_NOT_PERMITTED`; `early_entry!` waives both.
//! The signature is checked against the header's.

use std::sync::atomic::{AtomicU8, Ordering};

use cuda_headers::driver::CUresult;

/// Whether this process simulates or only answers.
static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

const UNKNOWN: u8 = 0;
const SIMULATED: u8 = 1;
const NULL: u8 = 2;

/// Whether calls are answered at once, if that has been found out already.
#[inline(always)]
pub(crate) fn known_null_mode() -> bool {
    MODE.load(Ordering::Relaxed) == NULL
}

/// Whether calls are answered at once (`GPU_SIM_MODE=null`).
#[inline(always)]
pub(crate) fn null_mode() -> bool {
    match MODE.load(Ordering::Relaxed) {
        NULL => true,
        SIMULATED => false,
        _ => read_mode(),
    }
}

#[cold]
fn read_mode() -> bool {
    let null = match gpu_sim_core::variable("GPU_SIM_MODE").as_deref() {
        Some("null") => true,
        None | Some("" | "sim") => false,
        Some(other) => {
            eprintln!(
                "gpu-sim: GPU_SIM_MODE={other:?} is not understood; use \"null\", or leave it unset"
            );
            false
        }
    };
    MODE.store(if null { NULL } else { SIMULATED }, Ordering::Relaxed);
    null
}

/// Turns the answer of an entry's body into what C gets.
#[inline(always)]
pub(crate) fn answer(result: Result<(), CUresult>) -> CUresult {
    match result {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(code) => code,
    }
}

/// Writes an out-parameter; NULL is an invalid value.
///
/// # Safety
/// `target` is NULL or valid for a write, as the driver API asks of its callers.
#[inline(always)]
pub(crate) unsafe fn out<T>(target: *mut T, value: T) -> Result<(), CUresult> {
    if target.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not NULL, so valid for a write, says the caller.
    unsafe { target.write(value) };
    Ok(())
}

/// Writes an out-parameter that may be left out.
///
/// # Safety
/// `target` is NULL or valid for a write.
#[inline(always)]
pub(crate) unsafe fn out_optional<T>(target: *mut T, value: T) {
    if !target.is_null() {
        // SAFETY: not NULL, so valid for a write, says the caller.
        unsafe { target.write(value) };
    }
}

/// Borrows an in-parameter; NULL is an invalid value.
///
/// # Safety
/// `source` is NULL or valid for reads for as long as the call lasts.
#[inline(always)]
pub(crate) unsafe fn input<'a, T>(source: *const T) -> Result<&'a T, CUresult> {
    // SAFETY: NULL or valid, says the caller.
    unsafe { source.as_ref() }.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

/// Defines exported driver functions; see the module's documentation.
macro_rules! entry {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?)
        $(=> $twin:ident)? $(, null $null:block)? $body:block
    )*) => { $(
        $crate::entry::entry_one! {
            $(#[$meta])* (false, $crate::state::usable()) $name ($($arg: $type),*) ($($null)?) $body
        }
        $crate::entry::entry_twin! {
            $(#[$meta])* ($($twin)?) ($($arg: $type),*) ($($null)?) $body
        }
    )* };
}

/// Like `entry!`, for what works before `cuInit` too.
macro_rules! early_entry {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(, null $null:block)? $body:block
    )*) => { $(
        $crate::entry::entry_one! {
            $(#[$meta])* (false, Ok(())) $name ($($arg: $type),*) ($($null)?) $body
        }
    )* };
}

macro_rules! entry_twin {
    ($(#[$meta:meta])* () $args:tt $null:tt $body:block) => {};
    ($(#[$meta:meta])* ($twin:ident) $args:tt $null:tt $body:block) => {
        $crate::entry::entry_one! {
            $(#[$meta])* (true, $crate::state::usable()) $twin $args $null $body
        }
    };
}

macro_rules! entry_one {
    (
        $(#[$meta:meta])* ($per_thread:literal, $check:expr)
        $name:ident ($($arg:ident: $type:ty),*) ($($null:block)?) $body:block
    ) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, missing_docs, reason = "the header's names, documented by NVIDIA")]
        #[allow(unused_unsafe, dead_code, unreachable_code, unreachable_pub, reason = "not every entry needs all")]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> cuda_headers::driver::CUresult {
            /// Whether NULL means the per-thread default stream.
            const PER_THREAD: bool = $per_thread;

            // Apart, so that in null mode nothing is set up that only this needs.
            #[inline(never)]
            unsafe extern "C" fn simulated($($arg: $type),*) -> cuda_headers::driver::CUresult {
                if $crate::entry::null_mode() {
                    // The first call of the process.
                    // SAFETY: as this function's caller promises.
                    return unsafe { $name($($arg),*) };
                }
                $crate::symbols::count($crate::symbols::id::$name);
                let ready: Result<(), cuda_headers::driver::CUresult> = $check;
                // SAFETY: the caller keeps to the driver API's documentation.
                $crate::entry::answer(ready.and_then(|()| unsafe { $body }))
            }

            if $crate::entry::known_null_mode() {
                $crate::symbols::count_null($crate::symbols::id::$name);
                // SAFETY: the caller keeps to the driver API's documentation.
                $( return unsafe { $null }; )?
                return cuda_headers::driver::CUresult::CUDA_SUCCESS;
            }
            // SAFETY: as this function's own caller promises.
            unsafe { simulated($($arg),*) }
        }
        const _: cuda_headers::fns::$name = $name;
    };
}

pub(crate) use {early_entry, entry, entry_one, entry_twin};
