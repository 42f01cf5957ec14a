//! What a process knows of its physical memory: blocks, the handles that name them, the addresses they are mapped at.

use cuda_headers::driver::CUmemGenericAllocationHandle;
use quota_abi::exports::Row;

use super::multicast::Binds;
use super::tiles::Tiles;
use crate::numbers::Numbers;
use crate::process::Process;
use crate::table::Table;

/// The physical memory of this process.
pub(crate) struct Physical {
    pub(super) blocks: Table<Block>,
    /// Number of its block, by handle. A handle stays with its block while that is mapped: it may be retained again.
    pub(super) handles: Table<u64>,
    /// Mappings by their first address.
    pub(super) maps: Table<Map>,
    pub(super) tiles: Tiles,
    pub(super) binds: Binds,
    next: Numbers,
}

/// A piece of memory, or what has references like one.
#[derive(Copy, Clone)]
pub(super) struct Block {
    pub(super) kind: Kind,
    /// Bytes charged; for an import in the group, bytes that somebody else is charged.
    pub(super) bytes: u64,
    pub(super) device: u16,
    /// References that handles hold.
    pub(super) handles: u32,
    /// References of mappings, tiles and multicast objects.
    pub(super) maps: u32,
    /// Given away as a descriptor: charged until the process ends.
    pub(super) exported: bool,
    /// Its newest handle.
    handle: CUmemGenericAllocationHandle,
}

/// Where a block comes from.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Created here.
    Own,
    /// Imported: not charged while it has no size, nor while somebody of the group is charged for it.
    Import(Option<Row>),
    /// A multicast object: no memory of its own, but what is bound to it stays.
    Multicast,
}

#[derive(Copy, Clone)]
pub(super) struct Map {
    pub(super) block: u64,
    pub(super) bytes: u64,
}

impl Block {
    pub(super) fn new(kind: Kind, bytes: u64, device: u16) -> Self {
        Self {
            kind,
            bytes,
            device,
            handles: 1,
            maps: 0,
            exported: false,
            handle: 0,
        }
    }
}

impl Physical {
    pub(crate) const fn new() -> Self {
        Self {
            blocks: Table::new(),
            handles: Table::new(),
            maps: Table::new(),
            tiles: Tiles::new(),
            binds: Binds::new(),
            next: Numbers::new(),
        }
    }

    /// A number that nothing else has.
    pub(super) fn number(&self) -> u64 {
        self.next.next()
    }

    /// Takes note of a block and the handle that the driver gave for it.
    pub(super) fn add(&self, handle: CUmemGenericAllocationHandle, block: Block) {
        let number = self.number();
        let _ = self.blocks.insert(number, Block { handle, ..block });
        let _ = self.handles.insert(handle, number);
    }

    /// Changes a block, and gives it back if nothing holds it any more.
    pub(super) fn change(&self, process: &Process, number: u64, change: impl FnOnce(&mut Block)) {
        self.blocks.with(number, change);
        let unheld = |block: &Block| block.handles == 0 && block.maps == 0;
        let Some(block) = self.blocks.remove_if(number, unheld) else {
            return;
        };
        self.handles
            .remove_if(block.handle, |other| *other == number);
        if block.exported {
            return;
        }
        let device = process.devices.by_number(block.device.into());
        match (block.kind, device) {
            (Kind::Multicast, _) => self.binds.end_all(process, number),
            (Kind::Import(Some(row)), Some(device)) => device.let_go(row),
            (_, Some(device)) => device.refund(block.bytes),
            (_, None) => {}
        }
    }

    /// A handle's reference less.
    pub(super) fn released(&self, process: &Process, number: u64) {
        self.change(process, number, |block| {
            block.handles = block.handles.saturating_sub(1);
        });
    }

    /// A mapping, tile or binding less.
    pub(super) fn unmapped(&self, process: &Process, number: u64) {
        self.change(process, number, |block| {
            block.maps = block.maps.saturating_sub(1);
        });
    }

    /// The block mapped at an address, which may lie inside its mapping.
    pub(super) fn mapped_at(&self, address: u64) -> Option<u64> {
        if let Some(map) = self.maps.get(address) {
            return Some(map.block);
        }
        let mut found = None;
        self.maps.for_each(|start, map| {
            if address.wrapping_sub(start) < map.bytes {
                found = Some(map.block);
            }
        });
        found
    }
}
