//! What a loaded object refers to by name, and the words where the loader has put what it found.
//!
//! # Safety
//! Reads the dynamic section and the tables of loaded objects while [`super::elf::each`] keeps them mapped. Writes only to
//! targets of relocations, which the loader has written before.

use core::ffi::{CStr, c_char};

use super::elf::Object;

const DT_RELACOUNT: i64 = 0x6fff_fff9;
const DT_JMPREL: i64 = 23;
const DT_PLTRELSZ: i64 = 2;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_SYMTAB: i64 = 6;
const DT_STRTAB: i64 = 5;
const DT_SONAME: i64 = 14;

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
struct Tables {
    symbols: usize,
    strings: usize,
    relocations: (usize, usize),
    relative: usize,
    calls: (usize, usize),
    soname: Option<usize>,
}

/// One reference by name.
pub(super) struct Reference<'a> {
    pub(super) symbol: &'a libc::Elf64_Sym,
    /// NUL-terminated.
    pub(super) name: *const c_char,
    /// Where the loader has put the address.
    pub(super) word: *mut usize,
}

/// Calls `visit` for each reference of `object` that goes by a symbol.
pub(super) fn each(object: &Object<'_>, mut visit: impl FnMut(Reference<'_>)) {
    let Some(tables) = tables(object) else {
        return;
    };
    let entry = size_of::<Relocation>();
    let skipped = tables.relative.saturating_mul(entry);
    let (data, data_size) = tables.relocations;
    for (table, size) in [
        (
            data.wrapping_add(skipped),
            data_size.saturating_sub(skipped),
        ),
        tables.calls,
    ] {
        for index in 0..size / entry {
            let address = table + index * entry;
            // SAFETY: the object's own table of `size` bytes, which the loader has read before us.
            let relocation = unsafe { &*core::ptr::with_exposed_provenance::<Relocation>(address) };
            if let Some(reference) = reference(object, &tables, relocation) {
                visit(reference);
            }
        }
    }
}

/// The name under which the loader would take `object` for an answer to `dlopen`.
pub(super) fn soname<'a>(object: &Object<'a>) -> Option<&'a CStr> {
    let tables = tables(object)?;
    let name: *const c_char =
        core::ptr::with_exposed_provenance(tables.strings.wrapping_add(tables.soname?));
    // SAFETY: NUL-terminated, in the object's own string table.
    Some(unsafe { CStr::from_ptr(name) })
}

#[inline]
fn reference<'a>(
    object: &Object<'a>,
    tables: &Tables,
    relocation: &Relocation,
) -> Option<Reference<'a>> {
    let index = usize::try_from(relocation.info >> 32).ok()?;
    if index == 0 {
        return None;
    }
    let address = tables.symbols + index * size_of::<libc::Elf64_Sym>();
    // SAFETY: relocations index the object's own symbol table.
    let symbol = unsafe { &*core::ptr::with_exposed_provenance::<libc::Elf64_Sym>(address) };
    let name = tables.strings + usize::try_from(symbol.st_name).ok()?;
    let word = object.base.wrapping_add(relocation.offset);
    Some(Reference {
        symbol,
        name: core::ptr::with_exposed_provenance(name),
        word: core::ptr::with_exposed_provenance_mut(word),
    })
}

/// Puts another address into a word of `object`. Opens the page for writing where the loader has closed it.
///
/// # Safety
/// `word` is the target of one of `object`'s relocations, one whole address wide.
pub(super) unsafe fn write(object: &Object<'_>, word: *mut usize, address: usize) {
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
        word.write_volatile(address);
        if closed {
            libc::mprotect(start, page, libc::PROT_READ);
        }
    }
}

fn tables(object: &Object<'_>) -> Option<Tables> {
    let (start, length) = object.segments(libc::PT_DYNAMIC).next()?;
    let mut tables = Tables::default();
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
            DT_SYMTAB => tables.symbols = pointer,
            DT_STRTAB => tables.strings = pointer,
            DT_RELA => tables.relocations.0 = pointer,
            DT_RELASZ => tables.relocations.1 = value,
            DT_RELACOUNT => tables.relative = value,
            DT_JMPREL => tables.calls.0 = pointer,
            DT_PLTRELSZ => tables.calls.1 = value,
            DT_SONAME => tables.soname = Some(value),
            _ => {}
        }
    }
    (tables.symbols != 0 && tables.strings != 0).then_some(tables)
}
