//! What `cuGetProcAddress` answers.

#[path = "generated/proc_address.rs"]
mod table;

pub use table::TABLE;

/// From a CUDA version on, a name stands for a symbol.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ProcEntry {
    /// The name that is asked for.
    pub base: &'static str,
    /// The CUDA version from which the entry holds: 12040 is 12.4.
    pub version: u32,
    /// The exported symbol.
    pub symbol: &'static str,
    /// The exported symbol for the per-thread default stream, where it differs.
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
