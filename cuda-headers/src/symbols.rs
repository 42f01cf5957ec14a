//! Every symbol that the driver library exports by the newest header.
//!
//! NVIDIA's libraries export three more functions, `cuEGLApiInit`, `cuMemGetAttribute` and `cuMemGetAttribute_v2`, and the
//! debugger's `cudbg*`: no public header declares them, `cuGetProcAddress` does not know them, and none of the recorded
//! clients asks for them. They are left out.

use crate::classify::{self, Class};
use crate::proc_address;

#[path = "generated/symbols.rs"]
mod table;

pub use table::SYMBOLS;

/// An exported symbol.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// The exported name: `cuMemcpyAsync_ptsz`.
    pub name: &'static str,
    /// The name without version and per-thread-stream suffix: `cuMemcpyAsync`.
    pub base: &'static str,
}

/// A row of the table.
const fn symbol(name: &'static str, base: &'static str) -> Symbol {
    Symbol { name, base }
}

/// The symbol of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Symbol> {
    let index = SYMBOLS
        .binary_search_by(|symbol| symbol.name.cmp(name))
        .ok()?;
    SYMBOLS.get(index)
}

impl Symbol {
    /// What the symbol means for a quota; `None` only while `cargo xtask coverage` fails.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        classify::class(self.name, self.base)
    }

    /// The CUDA version that brought it.
    #[must_use]
    pub fn since(&self) -> Option<u32> {
        let start = proc_address::TABLE.partition_point(|row| row.base < self.base);
        let rows = proc_address::TABLE.iter().skip(start);
        rows.take_while(|row| row.base == self.base)
            .find(|row| row.symbol == self.name || row.per_thread == Some(self.name))
            .map(|row| row.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(SYMBOLS.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn bases_have_no_suffix() {
        for symbol in SYMBOLS {
            assert!(symbol.name.starts_with(symbol.base), "{symbol:?}");
            assert!(!symbol.base.ends_with("_ptsz") && !symbol.base.ends_with("_ptds"));
            assert!(!symbol.base.ends_with("_v2") && !symbol.base.ends_with("_v3"));
        }
    }

    #[test]
    fn symbols_know_their_version() {
        let since = |name| find(name).and_then(Symbol::since);
        assert_eq!(since("cuMemAlloc_v2"), Some(3020));
        assert_eq!(since("cuLaunchKernel_ptsz"), Some(7000));
        assert_eq!(since("cuGetProcAddress_v2"), Some(12000));
        assert!(SYMBOLS.iter().all(|symbol| symbol.since().is_some()));
    }
}
