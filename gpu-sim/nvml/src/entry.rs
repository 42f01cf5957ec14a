//! What every exported NVML function has in common: it answers `NVML_ERROR_UNINITIALIZED` outside
//! a session, and whatever fault is asked for. Its signature is checked against the header's.

use cuda_headers::nvml::nvmlReturn_t;

use crate::{faults, session, since};

/// Shorter to read in every signature.
pub(crate) type Outcome = Result<(), nvmlReturn_t>;

pub(crate) const INVALID: nvmlReturn_t = nvmlReturn_t::NVML_ERROR_INVALID_ARGUMENT;
pub(crate) const NOT_SUPPORTED: nvmlReturn_t = nvmlReturn_t::NVML_ERROR_NOT_SUPPORTED;

/// Turns the answer of an entry's body into what C gets.
pub(crate) fn answer(outcome: Outcome) -> nvmlReturn_t {
    match outcome {
        Ok(()) => nvmlReturn_t::NVML_SUCCESS,
        Err(code) => code,
    }
}

/// Writes an out-parameter; NULL is an invalid argument.
///
/// # Safety
/// `target` is NULL or valid for a write.
pub(crate) unsafe fn out<T>(target: *mut T, value: T) -> Outcome {
    if target.is_null() {
        return Err(INVALID);
    }
    // SAFETY: not NULL, so valid, says the caller.
    unsafe { target.write(value) };
    Ok(())
}

/// What comes before every function but the few of [`early!`].
pub(crate) fn ready(name: &str) -> Outcome {
    session::check()?;
    since::check(name)?;
    faults::check(name)
}

/// A function that nothing here implements.
pub(crate) fn stub(name: &str) -> nvmlReturn_t {
    answer(ready(name).and(Err(NOT_SUPPORTED)))
}

macro_rules! define {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block
    )* ready: $ready:expr) => { $(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, missing_docs, reason = "the header's names, documented by NVIDIA")]
        #[allow(unused_unsafe, reason = "not every entry needs it")]
        #[allow(unreachable_pub, reason = "exported to C")]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> cuda_headers::nvml::nvmlReturn_t {
            let ready: $crate::entry::Outcome = $ready(stringify!($name));
            // SAFETY: the caller keeps to NVML's documentation: pointers are NULL or valid.
            $crate::entry::answer(ready.and_then(|()| unsafe { $body }))
        }
        const _: cuda_headers::nvml::fns::$name = $name;
    )* };
}

/// Defines functions that need a session.
macro_rules! entry {
    ($($all:tt)*) => { $crate::entry::define! { $($all)* ready: $crate::entry::ready } };
}

/// Defines functions that need none.
macro_rules! early {
    ($($all:tt)*) => { $crate::entry::define! { $($all)* ready: |_: &str| Ok(()) } };
}

pub(crate) use {define, early, entry};
