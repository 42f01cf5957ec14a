//! What each driver symbol means for a quota: the project's claim that nothing is missed.
//!
//! The groups are written by hand, by base name; all versions and per-thread forms of a base name share its class unless a
//! row names one of them. A symbol in no group fails `cargo xtask coverage`, as does a hook that is missing for a class
//! that needs one. A class that is to be hooked only later says so as [`Group::pending`], and coverage lists it.

mod contexts;
mod interop;
mod memory;
mod work;

/// What a call does to what is counted.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Class {
    /// Takes device memory.
    Charges(Family),
    /// Gives device memory back.
    Refunds(Family),
    /// Puts work on the GPU, or orders it.
    Launches(Work),
    /// Tells how much there is.
    Queries(View),
    /// Hands out driver functions.
    LooksUp,
    /// Begins or ends something that records are kept of.
    Lifetime(Object),
    /// Begins or ends a stream capture.
    Captures,
    /// The host waits for the GPU: measured spans end before, and are settled after.
    Waits,
    /// Not counted, for this reason.
    PassesThrough(&'static str),
}

/// How memory is accounted for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Family {
    /// Exact: plain allocations.
    Linear,
    /// Exact: rows padded to a pitch.
    Pitched,
    /// Exact: in full, wherever it is resident.
    Managed,
    /// By what a pool holds: stream-ordered allocations.
    Pool,
    /// Exact: physical memory apart from addresses.
    Vmm,
    /// Exact: arrays and mipmapped arrays.
    Array,
    /// Estimated: memory nodes of graphs.
    Graph,
    /// Estimated: what a context takes for itself.
    Context,
    /// Estimated: code and module variables.
    Module,
    /// Memory that another process allocated.
    Ipc,
    /// Memory that another API allocated.
    External,
}

impl Family {
    /// Whether a request tells how many bytes it takes. What the others take is learned from the driver afterwards.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        !matches!(
            self,
            Self::Pool | Self::Graph | Self::Context | Self::Module
        )
    }

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Pitched => "pitched",
            Self::Managed => "managed",
            Self::Pool => "pool",
            Self::Vmm => "physical",
            Self::Array => "array",
            Self::Graph => "graph",
            Self::Context => "context",
            Self::Module => "module",
            Self::Ipc => "another process's",
            Self::External => "another API's",
        }
    }
}

/// What is put on the GPU.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// One kernel.
    Kernel,
    /// A graph, by its measured duration.
    Graph,
    /// A copy that may stay on the device: by bytes over bandwidth.
    Copy,
    /// A copy from or to the host, or between ends that the call does not tell: not charged, but a measured span ends before
    /// it.
    OtherCopy,
    /// A fill: by bytes over bandwidth.
    Fill,
    /// Decompression of a batch.
    Decompress,
    /// A wait for an event, a memory word or a semaphore: no GPU time, but a measured span ends before it.
    Wait,
    /// A host function in a stream: no GPU time, but a measured span ends before it.
    HostFunction,
}

/// What is told.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum View {
    /// Free and total memory of the current device.
    FreeMemory,
    /// Total memory of a device.
    TotalMemory,
}

/// What records are kept of.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Object {
    /// The process's use of CUDA as a whole.
    Process,
    /// A stream: markers on it go with it.
    Stream,
    /// A memory pool.
    Pool,
    /// A handle or mapping of physical memory, which lives until the last of either is gone.
    Allocation,
    /// An executable graph: its measured duration goes with it, and is doubted when it changes.
    Graph,
    /// Functions: what their launches cost is forgotten when they go.
    Functions,
    /// Which context is current on the calling thread.
    Current,
    /// How long a context lives, and by which handles it is met.
    Context,
}

/// Symbols of one class.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The class.
    pub class: Class,
    /// Why a class that wants hooks has none yet.
    pub pending: Option<&'static str>,
    /// Base names, or full names where a form differs from its base.
    pub names: &'static [&'static str],
}

const fn group(class: Class, names: &'static [&'static str]) -> Group {
    Group {
        class,
        pending: None,
        names,
    }
}

#[expect(dead_code, reason = "at present every class that wants hooks has them")]
const fn pending(reason: &'static str, class: Class, names: &'static [&'static str]) -> Group {
    Group {
        class,
        pending: Some(reason),
        names,
    }
}

const fn passes(reason: &'static str, names: &'static [&'static str]) -> Group {
    group(Class::PassesThrough(reason), names)
}

/// All groups.
pub fn groups() -> impl Iterator<Item = &'static Group> {
    [
        memory::GROUPS,
        work::GROUPS,
        contexts::GROUPS,
        interop::GROUPS,
    ]
    .into_iter()
    .flatten()
}

/// The group of a symbol: its own row, else that of its base name.
#[must_use]
pub fn group_of(symbol: &str, base: &str) -> Option<&'static Group> {
    let named = |name: &str| groups().find(|group| group.names.contains(&name));
    named(symbol).or_else(|| named(base))
}

/// The class of a symbol.
#[must_use]
pub fn class(symbol: &str, base: &str) -> Option<Class> {
    group_of(symbol, base).map(|group| group.class)
}

impl Class {
    /// Whether the shim must hook the symbol.
    #[must_use]
    pub const fn wants_hook(self) -> bool {
        !matches!(self, Self::PassesThrough(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::SYMBOLS;

    #[test]
    fn every_symbol_is_classified() {
        for symbol in SYMBOLS {
            assert!(symbol.class().is_some(), "{} has no class", symbol.name);
        }
    }

    #[test]
    fn every_row_names_a_symbol_once() {
        let names = || groups().flat_map(|group| group.names);
        for name in names() {
            let known = SYMBOLS.iter().any(|s| s.name == *name || s.base == *name);
            assert!(known, "{name} is no symbol");
            let times = names().filter(|other| other == &name).count();
            assert_eq!(times, 1, "{name} stands in {times} rows");
        }
    }

    #[test]
    fn every_reason_says_something() {
        for group in groups() {
            if let Class::PassesThrough(reason) = group.class {
                assert!(reason.len() > 10, "{:?}", group.names);
                assert_eq!(group.pending, None, "nothing is pending for {reason}");
            }
        }
    }

    #[test]
    fn forms_share_their_base_names_class() {
        let class_of = |name| crate::symbols::find(name).and_then(crate::symbols::Symbol::class);
        let kernel = Some(Class::Launches(Work::Kernel));
        for name in ["cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchGridAsync"] {
            assert_eq!(class_of(name), kernel, "{name}");
        }
        let linear = Some(Class::Charges(Family::Linear));
        assert_eq!(class_of("cuMemAlloc"), linear);
        assert_eq!(class_of("cuMemAlloc_v2"), linear);
    }
}
