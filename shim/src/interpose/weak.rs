//! Weak references of the program to names that we export.
//!
//! A program may declare `cuInit` weak and test whether it is there. Without a driver it is not, but the loader binds
//! the reference to our export. So at the start of a process that has no driver, such references are put back to zero. An
//! object that is loaded later is not reached: its weak reference finds our function, which answers that there is no driver.
//!
//! # Safety
//! Writes only to words of relocation tables' targets that hold the address of one of our hooks.

use core::ffi::c_char;

use super::elf::{self, Object};
use super::real;
use crate::hook::Entry;
use crate::{hooks, library};

const DT_RELACOUNT: i64 = 0x6fff_fff9;
const DT_JMPREL: i64 = 23;
const DT_PLTRELSZ: i64 = 2;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_SYMTAB: i64 = 6;
const DT_STRTAB: i64 = 5;
const STB_WEAK: u8 = 2;

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

/// The parts of an object's dynamic section that name what it refers to.
#[derive(Default)]
struct References {
    symbols: usize,
    strings: usize,
    relocations: (usize, usize),
    relative: usize,
    calls: (usize, usize),
}

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
        let Some(references) = references(&object) else {
            return true;
        };
        let entry = size_of::<Relocation>();
        let skipped = references.relative.saturating_mul(entry);
        let (data, data_size) = references.relocations;
        for (table, size) in [
            (
                data.wrapping_add(skipped),
                data_size.saturating_sub(skipped),
            ),
            references.calls,
        ] {
            for index in 0..size / entry {
                let relocation =
                    core::ptr::with_exposed_provenance::<Relocation>(table + index * entry);
                // SAFETY: the object's own table of `size` bytes, which the loader has read before us.
                let relocation = unsafe { &*relocation };
                if let Some(hook) = weakly_refers_to(&references, relocation) {
                    let word = object.base.wrapping_add(relocation.offset);
                    visit(&object, hook, core::ptr::with_exposed_provenance_mut(word));
                }
            }
        }
        true
    });
}

/// The hook that a relocation refers to by a weak undefined symbol.
#[inline]
fn weakly_refers_to(references: &References, relocation: &Relocation) -> Option<&'static Entry> {
    let symbol = usize::try_from(relocation.info >> 32).ok()?;
    if symbol == 0 {
        return None;
    }
    let address = references.symbols + symbol * size_of::<libc::Elf64_Sym>();
    // SAFETY: relocations index the object's own symbol table.
    let symbol = unsafe { &*core::ptr::with_exposed_provenance::<libc::Elf64_Sym>(address) };
    if symbol.st_info >> 4 != STB_WEAK || symbol.st_shndx != 0 {
        return None;
    }
    let name = references.strings + usize::try_from(symbol.st_name).ok()?;
    let name = core::ptr::with_exposed_provenance::<c_char>(name);
    // SAFETY: symbol names are NUL-terminated strings of the object's string table.
    unsafe { hooks::NAMES.find(name) }
}

/// Gives `word`, if it holds the address of `hook`, what it would hold without us: somebody else's function of that name,
/// or zero. Opens the page for writing where the loader has closed it.
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
    let closed = object
        .segments(libc::PT_GNU_RELRO)
        .any(|(start, length)| word.addr().wrapping_sub(start) < length);
    // SAFETY: asks for a constant.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = word.map_addr(|address| address & !(page - 1)).cast();
    // SAFETY: a page of the object, which the loader has made read-only after it had written this same word.
    unsafe {
        if closed && libc::mprotect(start, page, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return;
        }
        word.write_volatile(next.addr());
        if closed {
            libc::mprotect(start, page, libc::PROT_READ);
        }
    }
}

fn references(object: &Object<'_>) -> Option<References> {
    let (start, length) = object.segments(libc::PT_DYNAMIC).next()?;
    let mut references = References::default();
    for index in 0..length / size_of::<Dynamic>() {
        let address = start + index * size_of::<Dynamic>();
        // SAFETY: the object's own dynamic section.
        let Dynamic { tag, value } =
            unsafe { core::ptr::with_exposed_provenance::<Dynamic>(address).read() };
        // The loader relocates addresses in place, except in sections that it may not write (the vdso's).
        let pointer = if value < object.base {
            value.wrapping_add(object.base)
        } else {
            value
        };
        match tag {
            0 => break,
            DT_SYMTAB => references.symbols = pointer,
            DT_STRTAB => references.strings = pointer,
            DT_RELA => references.relocations.0 = pointer,
            DT_RELASZ => references.relocations.1 = value,
            DT_RELACOUNT => references.relative = value,
            DT_JMPREL => references.calls.0 = pointer,
            DT_PLTRELSZ => references.calls.1 = value,
            _ => {}
        }
    }
    (references.symbols != 0 && references.strings != 0).then_some(references)
}
