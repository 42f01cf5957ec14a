//! Weak references of the program to names that we export.
//!
//! A program may declare `cuInit` weak and test whether it is there. Without a driver it is not, but the loader binds
//! the reference to our export. So at the start of a process that has no driver, such references are put back to zero. An
//! object that is loaded later is not reached: its weak reference finds our function, which answers that there is no driver.
//!
//! # Safety
//! Writes only to words of relocation tables' targets that hold the address of one of our hooks.

use super::elf::{self, Object};
use super::{real, relocations};
use crate::hook::Entry;
use crate::{hooks, library};

const STB_WEAK: u8 = 2;

/// Unbinds weak references to functions of libraries that are not in the process.
///
/// Two passes: the loader must not be asked which libraries there are while it lists its objects, and hardly any program
/// has such a reference at all.
pub(super) fn unbind() {
    let mut found = false;
    each_reference(|_, hook, _| found |= !hook.hook_address().is_null());
    if !found {
        return;
    }
    library::DRIVER.fill();
    library::NVML.fill();
    each_reference(|object, hook, word| {
        if !hook.library.is_loaded() {
            // SAFETY: the target of a relocation of a loaded object is one of its words.
            unsafe { rebind(object, word, hook) };
        }
    });
}

/// Calls `visit` for each weak reference to a name that we hook, with the word that the loader has bound.
fn each_reference(mut visit: impl FnMut(&Object<'_>, &'static Entry, *mut usize)) {
    elf::each(|object| {
        relocations::each(&object, |reference| {
            if reference.symbol.st_info >> 4 != STB_WEAK || reference.symbol.st_shndx != 0 {
                return;
            }
            // SAFETY: symbol names are NUL-terminated strings of the object's string table.
            if let Some(hook) = unsafe { hooks::NAMES.find(reference.name) } {
                visit(&object, hook, reference.word);
            }
        });
        true
    });
}

/// Gives `word`, if it holds the address of `hook`, what it would hold without us: somebody else's function of that name,
/// or zero.
///
/// # Safety
/// `word` is a word of `object`'s data.
unsafe fn rebind(object: &Object<'_>, word: *mut usize, hook: &Entry) {
    // SAFETY: the caller's promise.
    if unsafe { word.read_volatile() } != hook.hook_address().addr() {
        return;
    }
    // SAFETY: NUL-terminated; from here, RTLD_NEXT searches the global scope after the shim.
    let next = unsafe { real::dlsym(libc::RTLD_NEXT, hook.name.as_ptr()) };
    // SAFETY: the caller's promise; addresses are bound by relocations one address wide.
    unsafe { relocations::write(object, word, next.addr()) };
}
