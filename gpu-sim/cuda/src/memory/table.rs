//! What lies at an address.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::Owner;

/// What kind of memory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// `cuMemAlloc`, `cuMemAllocPitch`.
    Linear,
    /// `cuMemAllocManaged`.
    Managed,
    /// The same where the device had no room: it stays with the host.
    ManagedHost,
    /// A variable of a module.
    Global,
    /// An array's, which has no address for the application.
    Array,
    /// From the pool with this handle.
    Pool(usize),
    /// An allocation of another process's pool.
    PoolImport,
    /// A memory node of a graph.
    Graph,
    /// A mapping of `cuMemMap`.
    Mapping,
    /// Another process's memory, opened by `cuIpcOpenMemHandle`.
    Ipc,
    /// Another API's memory.
    External,
    /// Page-locked host memory of the driver.
    Host,
    /// The application's own memory, registered.
    Registered,
}

impl Family {
    pub(crate) fn is_managed(self) -> bool {
        matches!(self, Self::Managed | Self::ManagedHost)
    }
}

/// An allocation.
#[derive(Debug, Clone)]
pub(crate) struct Allocation {
    pub(crate) base: usize,
    /// As asked.
    pub(crate) size: usize,
    /// As charged.
    pub(crate) rounded: usize,
    pub(crate) family: Family,
    pub(crate) owner: Owner,
    /// Never used twice in a process.
    pub(crate) id: u64,
    /// `cuMemHostAlloc`, `cuMemHostRegister` or `cuMemAllocManaged` flags; 1 for a mapping of host
    /// memory.
    pub(crate) flags: u32,
    /// Set by `cuPointerSetAttribute`.
    pub(crate) sync_memops: bool,
    /// Whether a kernel of `owner.device` may write it (mappings without access: no).
    pub(crate) accessible: bool,
}

impl Allocation {
    pub(crate) fn new(
        base: usize,
        size: usize,
        rounded: usize,
        family: Family,
        owner: Owner,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            base,
            size,
            rounded,
            family,
            owner,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            flags: 0,
            sync_memops: false,
            accessible: true,
        }
    }

    /// Memory of the host, whoever allocated it.
    pub(crate) fn on_host(&self) -> bool {
        match self.family {
            Family::Host | Family::Registered => true,
            Family::Mapping => self.flags != 0,
            _ => false,
        }
    }

    /// Whether `len` bytes from `address` on lie inside.
    pub(crate) fn contains(&self, address: u64, len: usize) -> bool {
        let start = self.base as u64;
        let end = start + self.size as u64;
        address >= start
            && address
                .checked_add(len as u64)
                .is_some_and(|last| last <= end)
    }
}

/// All allocations of this process, by address.
#[derive(Debug, Default)]
pub(crate) struct Table {
    by_base: BTreeMap<usize, Allocation>,
}

impl Table {
    pub(crate) fn insert(&mut self, allocation: Allocation) {
        self.by_base.insert(allocation.base, allocation);
    }

    /// The allocation that begins at `base`.
    pub(crate) fn get(&self, base: usize) -> Option<&Allocation> {
        self.by_base.get(&base)
    }

    pub(crate) fn get_mut(&mut self, base: usize) -> Option<&mut Allocation> {
        self.by_base.get_mut(&base)
    }

    /// The allocation in which `address` lies.
    pub(crate) fn find(&self, address: usize) -> Option<&Allocation> {
        let (_, found) = self.by_base.range(..=address).next_back()?;
        (address - found.base < found.size).then_some(found)
    }

    pub(crate) fn remove(&mut self, base: usize) -> Option<Allocation> {
        self.by_base.remove(&base)
    }

    /// Whether anything begins or ends inside a range.
    pub(crate) fn overlaps(&self, start: usize, len: usize) -> bool {
        self.by_base
            .range(..start.saturating_add(len))
            .next_back()
            .is_some_and(|(base, found)| base + found.size > start)
    }

    /// Removes and returns what dies with a context.
    pub(crate) fn take_of(&mut self, context: u64) -> Vec<Allocation> {
        let dying = |allocation: &Allocation| {
            allocation.owner.context == context
                && matches!(
                    allocation.family,
                    Family::Linear
                        | Family::Managed
                        | Family::ManagedHost
                        | Family::Global
                        | Family::Array
                )
        };
        let bases: Vec<usize> = self
            .by_base
            .values()
            .filter(|a| dying(a))
            .map(|a| a.base)
            .collect();
        bases
            .into_iter()
            .filter_map(|base| self.by_base.remove(&base))
            .collect()
    }

    /// Takes every allocation of one family.
    pub(crate) fn take_family(&mut self, family: Family) -> Vec<Allocation> {
        let bases: Vec<usize> = self
            .by_base
            .values()
            .filter(|a| a.family == family)
            .map(|a| a.base)
            .collect();
        bases
            .into_iter()
            .filter_map(|base| self.by_base.remove(&base))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base: usize, size: usize) -> Allocation {
        let owner = Owner {
            context: 1,
            device: 0,
            core: 0,
        };
        Allocation::new(base, size, size, Family::Linear, owner)
    }

    #[test]
    fn addresses_inside_are_found_and_others_not() {
        let mut table = Table::default();
        table.insert(at(1000, 100));
        table.insert(at(2000, 100));
        for (address, found) in [
            (999, None),
            (1000, Some(1000)),
            (1099, Some(1000)),
            (1100, None),
            (2050, Some(2000)),
        ] {
            assert_eq!(table.find(address).map(|a| a.base), found, "{address}");
        }
        assert!(table.overlaps(1099, 1) && !table.overlaps(1100, 900));
        assert_eq!(table.take_of(1).len(), 2);
    }
}
