//! What `cuGetProcAddress` answers.
//!
//! The table is derived from the function-pointer types of the `*Typedefs.h` headers. It was compared with NVIDIA's own
//! driver libraries 535.261.03 (CUDA 12.2) and 550.163.01 (CUDA 12.4), for every base name, every version from 0 to
//! 13999 and both kinds of stream: the same symbol and the same status everywhere. These libraries export exactly the
//! symbols whose rows are no newer than they are, except `cuEventCreateFromEGLSync`, which only Tegra has.
//! `cargo xtask coverage --driver libcuda.so.1` repeats the comparison.
//!
//! Seen there, and nowhere documented:
//!
//! - The name is the base name. `cuMemAlloc_v2` and `cuMemcpyAsync_ptsz` are not found.
//! - The newest row that is no newer than the requested version wins; a version newer than the driver is no error. The
//!   version is compared as an unsigned number: -1 asks for the newest.
//! - With flag 2 (per-thread default stream) a name that has per-thread forms is answered by these alone, and they have
//!   versions of their own: `cuMemcpyAsync` exists from 4000, but 6000 with flag 2 is too low, since the form began with
//!   7000. A name without such forms is answered as without the flag. Flags 0 and 1 are the same; 3 is as 2.
//! - Any other flag: `CUDA_ERROR_INVALID_VALUE`, nothing written.
//! - `cuGetProcAddress_v2` answers `CUDA_SUCCESS`, a null pointer and a status for a name it does not know (the empty
//!   one included: `SYMBOL_NOT_FOUND`) and for a version before the first row (`VERSION_NOT_SUFFICIENT`). The status
//!   pointer may be null.
//! - The older `cuGetProcAddress` with four arguments answers `CUDA_ERROR_NOT_FOUND` in both cases and leaves the
//!   pointer alone.
//! - A null name or a null place for the answer is a crash.
//! - All this holds before `cuInit` and without a GPU.

#[path = "generated/proc_address.rs"]
mod table;

pub use table::TABLE;

/// From a CUDA version on, a name stands for a symbol.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ProcEntry {
    /// The name that is asked for.
    pub base: &'static str,
    /// The CUDA version from which the row holds: 12040 is 12.4.
    pub version: u32,
    /// The exported symbol.
    pub symbol: &'static str,
    /// The exported symbol for the per-thread default stream, where there is one by this version.
    pub per_thread: Option<&'static str>,
}

/// A row of the table.
const fn entry(
    base: &'static str,
    version: u32,
    symbol: &'static str,
    per_thread: Option<&'static str>,
) -> ProcEntry {
    ProcEntry {
        base,
        version,
        symbol,
        per_thread,
    }
}

/// What a look-up comes to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The address of this exported symbol.
    Symbol(&'static str),
    /// No such name: `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
    NotFound,
    /// The name came with a later version: `CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT`.
    VersionTooLow,
}

/// What a driver as new as the header answers.
#[must_use]
pub fn lookup(base: &str, version: u32, per_thread: bool) -> Answer {
    lookup_as_of(u32::MAX, base, version, per_thread)
}

/// What a driver of CUDA version `driver` answers, which knows none of the later rows.
#[must_use]
pub fn lookup_as_of(driver: u32, base: &str, version: u32, per_thread: bool) -> Answer {
    let start = TABLE.partition_point(|row| row.base < base);
    let known = || {
        let rows = TABLE.iter().skip(start);
        rows.take_while(|row| row.base == base && row.version <= driver)
    };
    if known().next().is_none() {
        return Answer::NotFound;
    }
    let requested = known().take_while(|row| row.version <= version).last();
    let symbol = if per_thread && known().any(|row| row.per_thread.is_some()) {
        requested.and_then(|row| row.per_thread)
    } else {
        requested.map(|row| row.symbol)
    };
    symbol.map_or(Answer::VersionTooLow, Answer::Symbol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols;

    #[test]
    fn rows_are_sorted_and_unique() {
        assert!(TABLE.is_sorted_by(|a, b| (a.base, a.version) < (b.base, b.version)));
    }

    #[test]
    fn rows_name_exported_symbols_of_their_base() {
        for row in TABLE {
            for name in [Some(row.symbol), row.per_thread].into_iter().flatten() {
                let symbol =
                    symbols::find(name).unwrap_or_else(|| panic!("{name} is not exported"));
                assert_eq!(symbol.base, row.base);
            }
        }
    }

    #[test]
    fn every_symbol_can_be_looked_up() {
        for symbol in symbols::SYMBOLS {
            let found = TABLE
                .iter()
                .any(|row| row.symbol == symbol.name || row.per_thread == Some(symbol.name));
            assert!(found, "{}", symbol.name);
        }
    }

    #[test]
    fn newest_row_not_newer_than_the_request_wins() {
        for (version, answer) in [
            (1999, Answer::VersionTooLow),
            (2000, Answer::Symbol("cuMemAlloc")),
            (3019, Answer::Symbol("cuMemAlloc")),
            (3020, Answer::Symbol("cuMemAlloc_v2")),
            (u32::MAX, Answer::Symbol("cuMemAlloc_v2")),
        ] {
            assert_eq!(lookup("cuMemAlloc", version, false), answer, "{version}");
        }
    }

    #[test]
    fn per_thread_forms_have_versions_of_their_own() {
        let plain = Answer::Symbol("cuMemcpyAsync");
        assert_eq!(lookup("cuMemcpyAsync", 6000, false), plain);
        assert_eq!(lookup("cuMemcpyAsync", 6000, true), Answer::VersionTooLow);
        let per_thread = Answer::Symbol("cuMemcpyAsync_ptsz");
        assert_eq!(lookup("cuMemcpyAsync", 7000, true), per_thread);
    }

    #[test]
    fn names_without_per_thread_form_ignore_the_flag() {
        let answer = Answer::Symbol("cuMemAlloc_v2");
        assert_eq!(lookup("cuMemAlloc", 12000, true), answer);
    }

    #[test]
    fn only_base_names_are_found() {
        for name in [
            "",
            "nope",
            "cuMemAlloc_v2",
            "cuMemcpyAsync_ptsz",
            "cuZ",
            "cu",
        ] {
            assert_eq!(lookup(name, 12000, false), Answer::NotFound, "{name}");
        }
    }

    #[test]
    fn an_older_driver_knows_no_later_row() {
        let at = |driver| lookup_as_of(driver, "cuCtxCreate", 13000, false);
        assert_eq!(at(13000), Answer::Symbol("cuCtxCreate_v4"));
        assert_eq!(at(12040), Answer::Symbol("cuCtxCreate_v3"));
        let proc_address = |driver| lookup_as_of(driver, "cuGetProcAddress", 12000, false);
        assert_eq!(proc_address(11040), Answer::Symbol("cuGetProcAddress"));
        assert_eq!(proc_address(12000), Answer::Symbol("cuGetProcAddress_v2"));
        assert_eq!(proc_address(11020), Answer::NotFound);
    }
}
