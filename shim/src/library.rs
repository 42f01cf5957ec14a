//! The two libraries that we stand in front of, and how their real functions are found.
//!
//! # Safety
//! Addresses are only ever taken from the handle that `dlopen(SONAME, RTLD_NOLOAD)` yields: searching the process
//! (`RTLD_NEXT`) would find stubs that other libraries export under the driver's names, and those call us.

use core::ffi::{CStr, c_char, c_void};

use quota_abi::sync::{AtomicPtr, Ordering};

use crate::hook::{Absent, Entry, Slot};
use crate::interpose::real;
use crate::{driver, hooks, nvml};

/// The driver.
pub(crate) static DRIVER: Library = Library {
    soname: c"libcuda.so.1",
    tables: &[&[driver::USES], hooks::DRIVER],
    handle: AtomicPtr::new(core::ptr::null_mut()),
    by_address: [const { AtomicPtr::new(core::ptr::null_mut()) }; CELLS],
};

/// NVML.
pub(crate) static NVML: Library = Library {
    soname: c"libnvidia-ml.so.1",
    tables: &[&[nvml::USES], hooks::NVML],
    handle: AtomicPtr::new(core::ptr::null_mut()),
    by_address: [const { AtomicPtr::new(core::ptr::null_mut()) }; CELLS],
};

/// Cells of the address table, a power of two, at least twice the number of hooks of one library.
const CELLS: usize = 1024;

/// A library with functions that we hook or use.
pub(crate) struct Library {
    /// The name under which every program loads it.
    pub(crate) soname: &'static CStr,
    /// The entries of its functions: those we use, then those we hook. A thread that finds a hook's function filled in while another
    /// still fills finds all that the hook uses.
    tables: &'static [&'static [&'static [Entry]]],
    /// Its handle, once it has been seen in the process. Never closed: the slots point into it.
    handle: AtomicPtr<c_void>,
    /// Hooks by the address of the real function.
    by_address: [AtomicPtr<Entry>; CELLS],
}

/// What a hook is to call.
pub(crate) enum Found<F, R> {
    /// The library's function.
    Real(F),
    /// Somebody else's of that name, while the library is not loaded.
    Other(F),
    /// Nothing: the answer says why.
    Nothing(R),
}

impl Library {
    /// Fills every slot whose function the library has, if the library is in the process. `true` if it is.
    ///
    /// Threads that come at the same time store the same addresses.
    pub(crate) fn fill(&'static self) -> bool {
        if self.is_loaded() {
            return true;
        }
        // SAFETY: a NUL-terminated name; RTLD_NOLOAD runs no constructor.
        let handle =
            unsafe { libc::dlopen(self.soname.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return false;
        }
        for entry in self.tables.iter().copied().flatten().copied().flatten() {
            // SAFETY: a live handle and a NUL-terminated name.
            let address = unsafe { real::dlsym(handle, entry.name.as_ptr()) };
            if address.is_null() || address == entry.hook_address() {
                continue;
            }
            // SYNC POINT with `Slot::get`: see `tables`.
            entry.real.store(address, Ordering::Release);
            if entry.hook.is_some() {
                self.remember(entry);
            }
        }
        // What we looked for and did not find is not the application's error.
        // SAFETY: reads and clears this thread's message.
        unsafe { libc::dlerror() };
        self.handle.store(handle, Ordering::Release);
        true
    }

    /// Whether the library has been seen in the process.
    pub(crate) fn is_loaded(&self) -> bool {
        !self.handle.load(Ordering::Acquire).is_null()
    }

    /// Any function of the library by name; null if it has none of that name, or is not in the process.
    ///
    /// # Safety
    /// `name` is a NUL-terminated string.
    pub(crate) unsafe fn look_up(&self, name: *const c_char) -> *mut c_void {
        let handle = self.handle.load(Ordering::Acquire);
        if handle.is_null() {
            return handle;
        }
        // SAFETY: a live handle, and the caller's promise.
        unsafe { real::dlsym(handle, name) }
    }

    /// What to call for a slot that was found empty.
    #[cold]
    pub(crate) fn find<F: Copy, R: Absent>(
        &'static self,
        slot: &Slot<F>,
        name: &CStr,
    ) -> Found<F, R> {
        if self.fill() {
            return slot.get().map_or(Found::Nothing(R::FUNCTION), Found::Real);
        }
        // Without us the name would mean the next definition: a stub, say, that loads the library at its first call.
        // SAFETY: NUL-terminated; from here, RTLD_NEXT searches the global scope after the shim.
        let next = unsafe { real::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        // SAFETY: reads and clears this thread's message.
        unsafe { libc::dlerror() };
        if next.is_null() {
            return Found::Nothing(R::LIBRARY);
        }
        // SAFETY: a function of this name, which its callers take for one of this type.
        Found::Other(unsafe { core::mem::transmute_copy::<*mut c_void, F>(&next) })
    }

    /// The hook for a real function's address that was asked for under `name` (which may lack a version suffix): two
    /// functions that a linker has folded into one share an address but no name.
    ///
    /// # Safety
    /// `name` is a NUL-terminated string.
    pub(crate) unsafe fn hook_of(
        &self,
        address: *mut c_void,
        name: *const c_char,
    ) -> Option<&'static Entry> {
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        for cell in probe(address) {
            let entry = self.by_address.get(cell)?.load(Ordering::Acquire);
            // SAFETY: the table holds addresses of `static` entries, or null.
            let entry: &'static Entry = unsafe { entry.as_ref() }?;
            let suffix = entry.name.to_bytes().strip_prefix(name);
            if entry.real_address() == address
                && suffix.is_some_and(|suffix| matches!(suffix.first(), None | Some(b'_')))
            {
                return Some(entry);
            }
        }
        None
    }

    fn remember(&self, entry: &'static Entry) {
        let ours = core::ptr::from_ref(entry).cast_mut();
        for cell in probe(entry.real_address()) {
            let Some(place) = self.by_address.get(cell) else {
                return;
            };
            let taken = place.compare_exchange(
                core::ptr::null_mut(),
                ours,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if taken.is_ok() || taken == Err(ours) {
                return;
            }
        }
    }
}

/// The cells where an address may lie, in order. Functions are aligned, so their low bits say nothing.
fn probe(address: *mut c_void) -> impl Iterator<Item = usize> {
    let mixed = (address.addr() >> 4).wrapping_mul(0x9e37_79b9) >> 16;
    (0..CELLS).map(move |step| mixed.wrapping_add(step) % CELLS)
}
