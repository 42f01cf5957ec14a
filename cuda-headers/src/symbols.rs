//! Every symbol that the driver library exports by the newest header.

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
