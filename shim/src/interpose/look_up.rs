//! What `dlsym` answers for the names that we hook.
//!
//! # Safety
//! Runs inside any thread's `dlsym`, in allocators' constructors too: no allocation, no lock of ours, no thread-local with a
//! destructor, no unwinding. The loader's own lock is recursive, so the loader may be asked.

use core::ffi::{c_char, c_void};

use super::{deep, elf, real};
use quota_abi::sync::{AtomicBool, Ordering};

use crate::hook::Entry;
use crate::hooks;
use crate::library::{DRIVER, NVML};

/// Tells the trampoline to answer NULL; 0 tells it to jump to the real `dlsym`.
pub(super) const NOTHING: usize = 1;
/// Tells the trampoline to jump to the real `dlsym`.
const REAL: usize = 0;

/// The answer to `dlsym(handle, name)`, called from `caller`: an address, [`NOTHING`] or [`REAL`].
///
/// # Safety
/// As `dlsym`, called from the trampoline alone.
pub(super) unsafe extern "C" fn answer(
    handle: *mut c_void,
    name: *const c_char,
    caller: usize,
) -> usize {
    real::resolve();
    if name.is_null() {
        return REAL;
    }
    // A look-up in one library, rather than in the process, is what follows the opening of one.
    if handle != libc::RTLD_NEXT && handle != libc::RTLD_DEFAULT {
        deep::bind_new_objects();
    }
    // SAFETY: `dlsym` takes NUL-terminated names.
    let Some(entry) = (unsafe { hooks::NAMES.find(name) }) else {
        if SECOND_COPY.load(Ordering::Relaxed) {
            // SAFETY: as above.
            return unsafe { answer_for_copy(handle, name) };
        }
        return REAL;
    };
    // SAFETY: as above.
    unsafe { answer_hooked(handle, entry, caller) }
}

/// # Safety
/// `handle` is what the caller gave to `dlsym`.
#[cold]
unsafe fn answer_hooked(handle: *mut c_void, entry: &'static Entry, caller: usize) -> usize {
    if handle == libc::RTLD_NEXT {
        return after(entry, caller);
    }
    // SAFETY: the caller's own handle; RTLD_DEFAULT from here sees the global scope.
    let found = unsafe { real::dlsym(handle, entry.name.as_ptr()) };
    if found.is_null() {
        return REAL;
    }
    if found == entry.hook_address() {
        return without_us(entry, caller);
    }
    if is_drivers(entry, found) {
        return found_ours(entry);
    }
    if entry.library.is_loaded() && elf::lies_in(found.addr(), entry.library.soname) {
        SECOND_COPY.store(true, Ordering::Relaxed);
        return found_ours(entry);
    }
    REAL
}

/// Whether a second file of the driver has been loaded (WSL has copies where others have links). It is taken for the first one,
/// in what we do not hook as well: a program that had half of either would find neither initialised.
static SECOND_COPY: AtomicBool = AtomicBool::new(false);

/// A name that we do not hook, in a process with two copies: that of the first copy.
///
/// # Safety
/// As `dlsym`.
#[cold]
unsafe fn answer_for_copy(handle: *mut c_void, name: *const c_char) -> usize {
    if handle == libc::RTLD_NEXT {
        return REAL;
    }
    // SAFETY: the caller's own handle and name.
    let found = unsafe { real::dlsym(handle, name) };
    for library in [&DRIVER, &NVML] {
        if !found.is_null() && elf::lies_in(found.addr(), library.soname) {
            // SAFETY: NUL-terminated, by the caller's promise.
            let first = unsafe { library.look_up(name) };
            return if first.is_null() { REAL } else { first.addr() };
        }
    }
    REAL
}

/// Whether `found` is the function that the hook stands in front of.
fn is_drivers(entry: &'static Entry, found: *mut c_void) -> bool {
    if entry.real_address().is_null() {
        entry.library.fill();
    }
    entry.real_address() == found
}

fn found_ours(entry: &Entry) -> usize {
    entry.hook_address().addr()
}

/// The loader found the shim. What would it have found without it: the driver, somebody else's function of that name, or
/// nothing? Exporting a name must not make a driver appear to exist.
fn without_us(entry: &'static Entry, caller: usize) -> usize {
    // SAFETY: NUL-terminated; from here, RTLD_NEXT searches the global scope after the shim. When it finds nothing it
    // leaves the message that the caller would see.
    let next = unsafe { real::dlsym(libc::RTLD_NEXT, entry.name.as_ptr()) };
    if next.is_null() {
        // The driver may be visible to the caller alone, which links it but was itself loaded locally.
        if let Some(own) = elf::visible_to(caller, entry.name)
            && is_drivers(entry, own)
        {
            return found_ours(entry);
        }
        // SAFETY: as above, again for the message.
        unsafe { real::dlsym(libc::RTLD_NEXT, entry.name.as_ptr()) };
        return NOTHING;
    }
    if is_drivers(entry, next) {
        return found_ours(entry);
    }
    next.addr()
}

/// `dlsym(RTLD_NEXT, name)` from `caller`: our hook if the next definition after the caller, us left out, is the driver's.
fn after(entry: &'static Entry, caller: usize) -> usize {
    if !elf::loaded_after_us(caller) {
        // We are the next definition, as the program and earlier preloaded libraries see it.
        return without_us(entry, caller);
    }
    match elf::next_definition(caller, entry.name) {
        Some(next) if is_drivers(entry, next) && is_visible(entry, caller) => found_ours(entry),
        _ => REAL,
    }
}

/// Whether the real function is in the global scope or in the caller's own.
fn is_visible(entry: &'static Entry, caller: usize) -> bool {
    // SAFETY: NUL-terminated; from here, RTLD_NEXT searches the global scope after the shim.
    let next = unsafe { real::dlsym(libc::RTLD_NEXT, entry.name.as_ptr()) };
    !next.is_null() || elf::visible_to(caller, entry.name).is_some()
}
