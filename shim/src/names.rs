//! Exact names to hooks: a hash table that the compiler fills from the hook tables.

use core::ffi::{CStr, c_char};

use crate::hook::Entry;

/// No driver or NVML symbol is longer; a longer name is nobody's.
const LONGEST: usize = 96;
/// Cells, a power of two, at least twice the number of hooks.
const CELLS: usize = 1024;

/// Open addressing with linear probing.
pub(crate) struct Names {
    cells: [Option<&'static Entry>; CELLS],
}

impl Names {
    /// Builds the table; two hooks of one name do not compile.
    #[expect(
        clippy::indexing_slicing,
        reason = "evaluated by the compiler, which rejects a wrong index"
    )]
    pub(crate) const fn build(libraries: &[&'static [&'static [Entry]]]) -> Self {
        let mut cells: [Option<&'static Entry>; CELLS] = [None; CELLS];
        let mut count = 0;
        let mut library = 0;
        while library < libraries.len() {
            let mut table = 0;
            while table < libraries[library].len() {
                let mut row = 0;
                while row < libraries[library][table].len() {
                    insert(&mut cells, &libraries[library][table][row]);
                    count += 1;
                    row += 1;
                }
                table += 1;
            }
            library += 1;
        }
        assert!(count * 2 <= CELLS);
        Self { cells }
    }

    /// The hook of exactly this name. Allocates nothing and reads no more than the name.
    ///
    /// # Safety
    /// `name` is a NUL-terminated string.
    pub(crate) unsafe fn find(&self, name: *const c_char) -> Option<&'static Entry> {
        // SAFETY: a terminated string has a first byte, and a second one if the first is not the terminator.
        let ours = unsafe {
            let bytes = name.cast::<u8>();
            match bytes.read() {
                b'c' => bytes.add(1).read() == b'u',
                b'n' => bytes.add(1).read() == b'v',
                _ => false,
            }
        };
        if !ours {
            return None;
        }
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) };
        if name.count_bytes() >= LONGEST {
            return None;
        }
        let mut cell = hash(name.to_bytes()) % CELLS;
        while let Some(entry) = self.cells.get(cell).copied().flatten() {
            if entry.name == name {
                return Some(entry);
            }
            cell = (cell + 1) % CELLS;
        }
        None
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which rejects a wrong index"
)]
const fn insert(cells: &mut [Option<&'static Entry>; CELLS], entry: &'static Entry) {
    let name = entry.name.to_bytes();
    assert!(!name.is_empty() && name.len() < LONGEST);
    let mut cell = hash(name) % CELLS;
    while let Some(other) = cells[cell] {
        assert!(
            !same(other.name.to_bytes(), name),
            "a function is hooked twice"
        );
        cell = (cell + 1) % CELLS;
    }
    cells[cell] = Some(entry);
}

/// FNV-1a.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "const code cannot iterate; the index is below the length; any bits of the hash serve"
)]
const fn hash(name: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < name.len() {
        hash = (hash ^ name[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    (hash ^ (hash >> 32)) as usize
}

#[expect(
    clippy::indexing_slicing,
    reason = "const code cannot compare slices; the index is below both lengths"
)]
const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::hooks::{DRIVER, NAMES, NVML};
    use cuda_headers::proc_address;
    use std::ffi::CString;

    fn finds(name: &str) -> bool {
        let name = CString::new(name).unwrap();
        // SAFETY: a terminated string.
        unsafe { NAMES.find(name.as_ptr()) }.is_some_and(|entry| entry.name == name.as_c_str())
    }

    #[test]
    fn every_hook_is_found_and_no_neighbour_of_one() {
        for entry in [DRIVER, NVML].into_iter().flatten().copied().flatten() {
            let name = entry.name.to_str().unwrap();
            assert!(finds(name), "{name}");
            assert!(!finds(&format!("{name}_")), "{name}_");
        }
        let long = "cu".repeat(1000);
        for name in [
            "",
            "c",
            "cu",
            "n",
            "nv",
            "cudnnCreate",
            "curl_init",
            "cuda",
            "malloc",
            &long,
        ] {
            assert!(!finds(name), "{name}");
        }
    }

    /// [`crate::library::Library::hook_of`] counts on it.
    #[test]
    fn a_symbol_is_its_name_and_a_suffix() {
        for entry in proc_address::TABLE {
            for symbol in [Some(entry.symbol), entry.per_thread].into_iter().flatten() {
                let suffix = symbol.strip_prefix(entry.base).unwrap();
                assert!(suffix.is_empty() || suffix.starts_with('_'), "{symbol}");
            }
        }
    }
}
