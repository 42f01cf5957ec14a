//! Libraries that were opened with `RTLD_DEEPBIND` (Taichi's, for one).
//!
//! Such a library's references are bound to its own dependencies before anything preloaded, so its `dlsym` is the C
//! library's and it would never meet a hook. They are bound again here as they would be in any other library. When? Whoever
//! opens a library asks `dlsym` for something in it before its functions can be called, and that call comes to us.
//!
//! # Safety
//! Writes only to targets of relocations that hold the real address of a function that we stand in front of. All of it
//! happens while the loader lists its objects, under its lock, so two threads cannot open and close one page at once.

use core::ffi::{CStr, c_void};

use quota_abi::sync::{AtomicU64, Ordering};

use super::elf::{self, Object};
use super::{dlsym, real, relocations};
use crate::{hooks, library};

/// How many objects the loader had ever loaded when we looked last.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Binds the references of objects that were loaded since the last call. Costs one question to the loader where there are none.
pub(super) fn bind_new_objects() {
    let Some(loaded) = elf::loads() else {
        return;
    };
    let seen = SEEN.load(Ordering::Relaxed);
    if loaded.ever == seen {
        return;
    }
    // New objects are the last in the list. Those that were closed in the meantime make us look at a few twice.
    let old = loaded
        .present
        .saturating_sub(loaded.ever.saturating_sub(seen));
    let mut linked = false;
    each_new(old, |object| linked |= bind(object));
    if linked {
        // Only with the real addresses at hand can a linked reference be told from a stub's; and the loader must not be
        // asked for them while it lists its objects.
        library::DRIVER.fill();
        library::NVML.fill();
        each_new(old, |object| {
            bind(object);
        });
    }
    SEEN.store(loaded.ever, Ordering::Relaxed);
}

fn each_new(old: u64, mut visit: impl FnMut(&Object<'_>)) {
    let mut place = 0;
    elf::each(|object| {
        if place >= old {
            visit(&object);
        }
        place += 1;
        true
    });
}

/// Binds one object's references to us. `true` if some go by a name that we hook and are bound to something else, which may be
/// the real function: then the addresses must be known first.
fn bind(object: &Object<'_>) -> bool {
    let real_dlsym = real::resolve().addr();
    let mut linked = false;
    relocations::each(object, |reference| {
        // SAFETY: symbol names are NUL-terminated strings of the object's string table, one byte at least.
        let first = unsafe { reference.name.cast::<u8>().read() };
        if !matches!(first, b'c' | b'd' | b'n') {
            return;
        }
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(reference.name) };
        let (from, to) = if name == c"dlsym" {
            (real_dlsym, (dlsym::dlsym as *const c_void).addr())
        // SAFETY: as above.
        } else if let Some(hook) = unsafe { hooks::NAMES.find(reference.name) } {
            linked |= hook.real_address().is_null();
            (hook.real_address().addr(), hook.hook_address().addr())
        } else {
            return;
        };
        // The driver's own references to itself stay as they are.
        if from == 0 || to == 0 || object.contains(from) || !reference.word.is_aligned() {
            return;
        }
        // SAFETY: the target of a relocation of a loaded object.
        if unsafe { reference.word.read_volatile() } == from {
            // SAFETY: it holds a whole address, that of a function.
            unsafe { relocations::write(object, reference.word, to) };
        }
    });
    linked
}
