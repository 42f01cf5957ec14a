//! What one hook is, and the `hooks!` macro that makes everything that belongs to it from one entry.
//!
//! An entry makes the exported function, its own slot for the real function of the same name, its look-up entry, and a
//! compile-time check of its signature against `cuda-headers`. See `docs/adding-a-hook.md`.

use core::ffi::{CStr, c_void};
use core::marker::PhantomData;

use cuda_headers::driver::CUresult;
use cuda_headers::nvml::nvmlReturn_t;
use quota_abi::sync::{AtomicPtr, Ordering};

use crate::library::Library;

/// A function whose signature nobody needs.
pub(crate) type Function = unsafe extern "C" fn();

/// Where the address of a real function of type `F` is kept; empty while its library is not loaded or lacks it.
pub(crate) struct Slot<F> {
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

impl<F: Copy> Slot<F> {
    pub(crate) const fn new() -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Self {
            address: AtomicPtr::new(core::ptr::null_mut()),
            function: PhantomData,
        }
    }

    /// The real function, where it is known.
    #[inline]
    pub(crate) fn get(&self) -> Option<F> {
        let address = self.address.load(Ordering::Acquire);
        if address.is_null() {
            return None;
        }
        // SAFETY: `F` is the function pointer type of the symbol whose address was stored, by the `hooks!` or `uses!` entry.
        Some(unsafe { core::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    pub(crate) const fn address(&self) -> &AtomicPtr<c_void> {
        &self.address
    }
}

/// One symbol of a library: its name, where the real address is kept, and our function for it, if we hook it.
pub(crate) struct Entry {
    pub(crate) name: &'static CStr,
    pub(crate) library: &'static Library,
    pub(crate) real: &'static AtomicPtr<c_void>,
    pub(crate) hook: Option<Function>,
}

impl Entry {
    /// Address of our function; null if there is none.
    pub(crate) fn hook_address(&self) -> *mut c_void {
        self.hook
            .map_or(core::ptr::null_mut(), |hook| hook as *mut c_void)
    }

    /// Address of the real function; null while unknown.
    pub(crate) fn real_address(&self) -> *mut c_void {
        self.real.load(Ordering::Relaxed)
    }
}

/// What a hook answers when there is no real function to call, or it may not be called.
pub(crate) trait Absent: Copy {
    /// The library is not in the process.
    const LIBRARY: Self;
    /// The library is older than the function.
    const FUNCTION: Self;
    /// The quota of this process cannot be enforced: what the library answers before it is initialised.
    const REFUSED: Self;
}

impl Absent for CUresult {
    const LIBRARY: Self = Self::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    const FUNCTION: Self = Self::CUDA_ERROR_NOT_FOUND;
    const REFUSED: Self = Self::CUDA_ERROR_NOT_INITIALIZED;
}

impl Absent for nvmlReturn_t {
    const LIBRARY: Self = Self::NVML_ERROR_LIBRARY_NOT_FOUND;
    const FUNCTION: Self = Self::NVML_ERROR_FUNCTION_NOT_FOUND;
    const REFUSED: Self = Self::NVML_ERROR_NO_PERMISSION;
}

/// The name of a symbol for `dlsym`.
pub(crate) const fn symbol_name(with_nul: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(with_nul.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// Makes hooks: `hooks! { LIBRARY as signatures; fn name(arguments) -> Answer = |call| body; ... }`.
///
/// `LIBRARY` is the static of [`crate::library`] that the functions belong to, `signatures` the module with one type
/// per function. The body gives `Ok(answer)`, or `Err(Aside)` to let the driver answer the caller's own arguments;
/// `call()` calls the driver with them. A body adapts arguments and calls safe code, in at most ten lines.
///
/// `LIBRARY as signatures, if CONDITION;` makes hooks that do nothing at all while the condition does not hold. `hot` before the
/// condition, or in its place, is for hooks that count nanoseconds: the safe code is compiled anew for each of them, where the others
/// share it. `quick` is for launches: the body is compiled twice, first for what the thread can do at once
/// ([`crate::guard::at_once`]), and `call` is a [`crate::guard::Call`].
macro_rules! hooks {
    ($library:ident as $signatures:ident; $($entries:tt)*) => {
        $crate::hook::hooks! { @make cold $library as $signatures, true; $($entries)* }
    };
    ($library:ident as $signatures:ident, if $wanted:expr; $($entries:tt)*) => {
        $crate::hook::hooks! { @make cold $library as $signatures, $wanted; $($entries)* }
    };
    ($library:ident as $signatures:ident, hot; $($entries:tt)*) => {
        $crate::hook::hooks! { @make hot $library as $signatures, true; $($entries)* }
    };
    ($library:ident as $signatures:ident, hot if $wanted:expr; $($entries:tt)*) => {
        $crate::hook::hooks! { @make hot $library as $signatures, $wanted; $($entries)* }
    };
    ($library:ident as $signatures:ident, quick if $wanted:expr; $($entries:tt)*) => {
        $crate::hook::hooks! { @make quick $library as $signatures, $wanted; $($entries)* }
    };
    (@guard hot, $answered:ident, $driver:ident, $answer:ty, $call:ident, $body:expr) => {{
        let $call = $driver;
        $crate::guard::run(&$answered, &$call, || $body)
    }};
    (@guard cold, $answered:ident, $driver:ident, $answer:ty, $call:ident, $body:expr) => {{
        let $call = $crate::guard::Erased::of(&$driver).function();
        $crate::guard::run_cold(&$answered, &$call, &$crate::guard::Erased::of(&|| $body))
    }};
    (@guard whole, $answered:ident, $driver:ident, $answer:ty, $call:ident, $body:expr) => {{
        let $call = &$crate::guard::Erased::of(&$driver);
        $crate::guard::run_cold(&$answered, &$call.function(), &$crate::guard::Erased::of(&|| $body))
    }};
    (@make $speed:ident $library:ident as $signatures:ident, $wanted:expr; $(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $answer:ty = |$call:ident| $body:expr;
    )*) => {
        mod slots {
            $( pub(super) static $name: $crate::hook::Slot<super::$signatures::$name> = $crate::hook::Slot::new(); )*
        }

        /// The look-up entries of this file.
        pub(crate) static HOOKS: &[$crate::hook::Entry] = &[$(
            $crate::hook::Entry {
                name: $crate::hook::symbol_name(concat!(stringify!($name), "\0")),
                library: &$crate::library::$library,
                real: slots::$name.address(),
                // SAFETY: between function pointer types; nobody calls through this one.
                hook: Some(unsafe {
                    core::mem::transmute::<$signatures::$name, $crate::hook::Function>($name)
                }),
            },
        )*];

        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// As the real function of this name.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub(crate) unsafe extern "C" fn $name($($arg: $type),*) -> $answer {
                $crate::hook::hooks!(@way $speed, $library, $name, ($($arg: $type),*) -> $answer, $wanted, $call, $body)
            }
        )*
    };
    (@way quick, $library:ident, $name:ident, ($($arg:ident: $type:ty),*) -> $answer:ty, $wanted:expr, $call:ident, $body:expr) => {{
        // Three functions with one signature, each of which jumps to the next: only the one that calls the driver and comes back
        // has a frame, and the arguments stay where the caller has put them.
        #[inline(never)]
        unsafe extern "C" fn at_once($($arg: $type),*) -> $answer {
            if let Some(real) = slots::$name.get() {
                // SAFETY: the real function of this name and type, with its caller's own arguments.
                let driver = || unsafe { real($($arg),*) };
                if let Some(answer) = $crate::guard::at_once(driver, |$call| $body) {
                    return answer;
                }
            }
            // SAFETY: as this function's own caller promises.
            unsafe { in_full($($arg),*) }
        }

        #[cold]
        #[inline(never)]
        unsafe extern "C" fn in_full($($arg: $type),*) -> $answer {
            $crate::hook::hooks!(@way whole, $library, $name, ($($arg: $type),*) -> $answer, $wanted, $call, $body)
        }

        // One call, so that it is a jump.
        let way = match slots::$name.get() {
            Some(real) if !$wanted => real,
            Some(_) => at_once,
            None => in_full,
        };
        // SAFETY: the real function of this name and type, or one that leads to it, with its caller's own arguments.
        unsafe { way($($arg),*) }
    }};
    (@way $speed:ident, $library:ident, $name:ident, ($($arg:ident: $type:ty),*) -> $answer:ty, $wanted:expr, $call:ident, $body:expr) => {{
        let real = match slots::$name.get() {
            Some(real) => real,
            None => {
                let name = $crate::hook::symbol_name(concat!(stringify!($name), "\0"));
                match $crate::library::$library.find(&slots::$name, name) {
                    $crate::library::Found::Real(real) => real,
                    // SAFETY: what this name would mean without us, with its caller's own arguments.
                    $crate::library::Found::Other(other) => return unsafe { other($($arg),*) },
                    $crate::library::Found::Nothing(answer) => return answer,
                }
            }
        };
        if !$wanted {
            // SAFETY: the real function of this name and type, with its caller's own arguments.
            return unsafe { real($($arg),*) };
        }
        let answered = core::cell::Cell::new(None);
        let latest = &answered;
        // It has the arguments themselves: by reference it would be twice as many words on the way of each call.
        let driver = move || -> $answer {
            // SAFETY: the real function of this name and type, with its caller's own arguments.
            let answer = unsafe { real($($arg),*) };
            latest.set(Some(answer));
            answer
        };
        $crate::hook::hooks!(@guard $speed, answered, driver, $answer, $call, $body)
    }};
}
pub(crate) use hooks;

/// Names functions of a library that we call ourselves, hooked or not: each gets a slot of its own in `real`.
macro_rules! uses {
    ($library:ident as $signatures:ident; $($name:ident)*) => {
        /// The real functions that we call ourselves.
        pub(crate) mod real {
            $( pub(crate) static $name: $crate::hook::Slot<super::$signatures::$name> = $crate::hook::Slot::new(); )*
        }

        /// Their look-up entries.
        pub(crate) static USES: &[$crate::hook::Entry] = &[$(
            $crate::hook::Entry {
                name: $crate::hook::symbol_name(concat!(stringify!($name), "\0")),
                library: &$crate::library::$library,
                real: real::$name.address(),
                hook: None,
            },
        )*];
    };
}
pub(crate) use uses;
