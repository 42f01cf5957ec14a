//! The loaded objects, as the loader lists them: which one an address lies in, what follows it, what it refers to.
//!
//! # Safety
//! Everything here reads structures of the loader and of loaded objects, which stay mapped while `dl_iterate_phdr` calls
//! back. Rare paths only: a search relative to its caller, and the start of a process.

use core::ffi::{CStr, c_char, c_int, c_void};

use super::{real, relocations};

type Header = libc::Elf64_Phdr;

/// One loaded object, during [`each`].
#[derive(Copy, Clone)]
pub(super) struct Object<'a> {
    pub(super) base: usize,
    pub(super) name: &'a CStr,
    pub(super) headers: &'a [Header],
}

impl Object<'_> {
    pub(super) fn contains(&self, address: usize) -> bool {
        self.segments(libc::PT_LOAD)
            .any(|(start, length)| address.wrapping_sub(start) < length)
    }

    /// Address and length of the segments of one type.
    pub(super) fn segments(&self, kind: u32) -> impl Iterator<Item = (usize, usize)> {
        let base = self.base;
        self.headers
            .iter()
            .filter(move |header| header.p_type == kind)
            .map(move |header| {
                let start = base.wrapping_add(usize::try_from(header.p_vaddr).unwrap_or(0));
                (start, usize::try_from(header.p_memsz).unwrap_or(0))
            })
    }
}

/// Calls `visit` for each object in load order until it answers `false`.
pub(super) fn each<F: FnMut(Object<'_>) -> bool>(mut visit: F) {
    unsafe extern "C" fn callback<F: FnMut(Object<'_>) -> bool>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: `visit` is the closure below; the loader passes valid information.
        let (visit, info) = unsafe { (&mut *visit.cast::<F>(), &*info) };
        if info.dlpi_name.is_null() || info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: not null, and valid during the callback.
        let object = unsafe {
            Object {
                base: usize::try_from(info.dlpi_addr).unwrap_or(0),
                name: CStr::from_ptr(info.dlpi_name),
                headers: core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()),
            }
        };
        c_int::from(!visit(object))
    }
    // SAFETY: the callback gets the closure that outlives the call.
    unsafe {
        libc::dl_iterate_phdr(Some(callback::<F>), (&raw mut visit).cast());
    }
}

/// How many objects the loader has ever loaded, and how many of them are there now.
#[derive(Copy, Clone)]
pub(super) struct Loads {
    pub(super) ever: u64,
    pub(super) present: u64,
}

/// Asks the loader; the answer comes with its first object.
pub(super) fn loads() -> Option<Loads> {
    unsafe extern "C" fn callback(
        info: *mut libc::dl_phdr_info,
        size: usize,
        answer: *mut c_void,
    ) -> c_int {
        // An old loader's structure ends before these counts.
        if size >= size_of::<libc::dl_phdr_info>() {
            // SAFETY: `answer` is the variable below; the loader passes valid information.
            let (answer, info) = unsafe { (&mut *answer.cast::<Option<Loads>>(), &*info) };
            *answer = Some(Loads {
                ever: info.dlpi_adds,
                present: info.dlpi_adds.saturating_sub(info.dlpi_subs),
            });
        }
        1
    }
    let mut answer: Option<Loads> = None;
    // SAFETY: the callback gets the variable that outlives the call.
    unsafe {
        libc::dl_iterate_phdr(Some(callback), (&raw mut answer).cast());
    }
    answer
}

/// An address in this object.
fn us() -> usize {
    (us as fn() -> usize as *const c_void).addr()
}

/// Whether the object of `caller` was loaded after this one.
pub(super) fn loaded_after_us(caller: usize) -> bool {
    let mut past_us = false;
    let mut answer = false;
    each(|object| {
        if object.contains(caller) {
            answer = past_us;
            return false;
        }
        past_us |= object.contains(us());
        true
    });
    answer
}

/// The next definition of `name` in the objects loaded after that of `caller`.
pub(super) fn next_definition(caller: usize, name: &CStr) -> Option<*mut c_void> {
    let mut at = 0;
    while let Some((start, path)) = object_after(caller, at) {
        if let Some(found) = defined_by(&path, name)
            && object_of(found.addr()) == Some(start)
        {
            return Some(found);
        }
        at += 1;
    }
    None
}

/// What `caller`'s own object and its dependencies define under `name`.
pub(super) fn visible_to(caller: usize, name: &CStr) -> Option<*mut c_void> {
    let mut path = None;
    each(|object| {
        if object.contains(caller) {
            path = Path::of(object.name);
            return false;
        }
        true
    });
    defined_by(&path?, name)
}

/// The name of an object, kept past [`each`]: the loader must not be asked from inside it.
struct Path([u8; 4096]);

impl Path {
    fn of(name: &CStr) -> Option<Self> {
        let mut copy = [0; 4096];
        copy.get_mut(..name.to_bytes_with_nul().len())?
            .copy_from_slice(name.to_bytes_with_nul());
        Some(Self(copy))
    }
}

/// The object `skip` places behind the one after `caller`'s: its load address and name.
fn object_after(caller: usize, skip: usize) -> Option<(usize, Path)> {
    let mut place = None;
    let mut answer = None;
    each(|object| match place {
        None => {
            if object.contains(caller) {
                place = Some(0);
            }
            true
        }
        Some(at) if at == skip => {
            answer = Path::of(object.name).map(|path| (object.base, path));
            false
        }
        Some(at) => {
            place = Some(at + 1);
            true
        }
    });
    answer
}

/// Load address of the object that `address` lies in.
fn object_of(address: usize) -> Option<usize> {
    let mut base = None;
    each(|object| {
        if object.contains(address) {
            base = Some(object.base);
        }
        base.is_none()
    });
    base
}

/// Whether `address` lies in an object of this name.
pub(super) fn lies_in(address: usize, soname: &CStr) -> bool {
    let mut answer = false;
    each(|object| {
        let here = object.contains(address);
        if here {
            answer = relocations::soname(&object) == Some(soname);
        }
        !here
    });
    answer
}

/// `dlsym` on the handle of a loaded object.
fn defined_by(path: &Path, name: &CStr) -> Option<*mut c_void> {
    let path: *const c_char = path.0.as_ptr().cast();
    // SAFETY: a NUL-terminated path; RTLD_NOLOAD only counts a reference, which is given back below.
    let handle = unsafe { libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is live until it is closed.
    let found = unsafe {
        let found = real::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        found
    };
    (!found.is_null()).then_some(found)
}
