//! What a process has, by the documentation alone: small, slow, and without a line of the shim's.

/// Devices of the simulation.
pub(crate) const DEVICES: usize = 2;

/// One process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) contexts: Vec<Context>,
    /// Retentions of the primary contexts, which are the first ones of `contexts`.
    pub(crate) retained: [u32; DEVICES],
    /// The calling thread's stack of contexts.
    pub(crate) stack: Vec<usize>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) pools: Vec<Pool>,
    /// The pool that each device allocates from.
    pub(crate) current_pool: [usize; DEVICES],
    pub(crate) physical: Vec<Physical>,
    pub(crate) ranges: Vec<Range>,
    pub(crate) maps: Vec<Map>,
    pub(crate) arrays: Vec<Array>,
    pub(crate) graphs: Vec<Graph>,
    pub(crate) execs: Vec<Exec>,
    /// Memory of graphs that may still be held, though nobody can launch them any more.
    pub(crate) orphans: Vec<GraphMemory>,
    pub(crate) imports: Vec<Import>,
    /// Functions that last as long as their argument says, by context.
    pub(crate) kernels: Vec<(usize, usize)>,
    /// There may be work on the device that nobody has waited for.
    pub(crate) busy: bool,
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) slot: usize,
    pub(crate) device: usize,
    pub(crate) primary: bool,
    pub(crate) alive: bool,
}

#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) slot: usize,
    pub(crate) address: u64,
    pub(crate) device: usize,
    pub(crate) bytes: u64,
    pub(crate) of: Of,
    pub(crate) managed: bool,
    pub(crate) live: bool,
}

/// What memory goes with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Context(usize),
    Pool(usize),
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) slot: usize,
    pub(crate) context: usize,
}

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) slot: usize,
    pub(crate) device: usize,
    pub(crate) destroyed: bool,
    /// A request was refused after the driver had been called, while there was work.
    pub(crate) undone: bool,
}

#[derive(Debug)]
pub(crate) struct Physical {
    /// Where its handle is, while there is one.
    pub(crate) slot: usize,
    /// `None`: the host.
    pub(crate) device: Option<usize>,
    pub(crate) blocks: u64,
    pub(crate) handles: u32,
}

#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) slot: usize,
    pub(crate) address: u64,
    pub(crate) blocks: u64,
}

#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) address: u64,
    pub(crate) blocks: u64,
    pub(crate) physical: usize,
}

#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) slot: usize,
    pub(crate) mipmapped: bool,
    pub(crate) device: usize,
    pub(crate) bytes: u64,
    pub(crate) context: usize,
}

#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) slot: usize,
    pub(crate) nodes: Vec<GraphMemory>,
}

/// A memory node.
#[derive(Clone, Debug)]
pub(crate) struct GraphMemory {
    /// Where its node is.
    pub(crate) node: usize,
    /// Where its address is.
    pub(crate) slot: usize,
    pub(crate) address: u64,
    pub(crate) device: usize,
    /// Whole blocks.
    pub(crate) bytes: u64,
    /// The graph frees it as well.
    pub(crate) freed: bool,
}

#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) slot: usize,
    pub(crate) nodes: Vec<GraphMemory>,
}

/// Memory of another process.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) slot: usize,
    pub(crate) context: usize,
    /// Whose, and which of its addresses.
    pub(crate) from: (usize, usize),
}

/// A block of virtual memory management.
pub(crate) const BLOCK: u64 = 2 << 20;

/// Rounded as memory is handed out.
pub(crate) fn rounded(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(512).unwrap_or(u64::MAX)
}

impl Process {
    /// The context that calls without a stream work in, if it is alive.
    pub(crate) fn current(&self) -> Option<usize> {
        let top = *self.stack.last()?;
        self.contexts[top].alive.then_some(top)
    }

    pub(crate) fn has_contexts(&self, device: usize) -> bool {
        self.contexts
            .iter()
            .any(|context| context.alive && context.device == device)
    }

    /// A context is gone, and what goes with it.
    pub(crate) fn end(&mut self, context: usize) {
        if !self.contexts[context].alive {
            return;
        }
        self.contexts[context].alive = false;
        self.streams.retain(|stream| stream.context != context);
        self.arrays.retain(|array| array.context != context);
        self.imports.retain(|import| import.context != context);
        self.kernels.retain(|(of, _)| *of != context);
        for address in &mut self.addresses {
            address.live &= address.of != Of::Context(context);
        }
        for device in 0..DEVICES {
            // A device's own pool is emptied with the last context.
            if !self.has_contexts(device) {
                for address in &mut self.addresses {
                    address.live &= address.of != Of::Pool(device);
                }
            }
        }
    }

    /// Bytes of the exact families.
    pub(crate) fn exact(&self, device: usize) -> u64 {
        let linear = self.addresses.iter();
        let linear = linear.filter(|a| a.live && matches!(a.of, Of::Context(_)));
        let linear: u64 = linear.filter(|a| a.device == device).map(|a| a.bytes).sum();
        let arrays = self.arrays.iter().filter(|array| array.device == device);
        let arrays: u64 = arrays.map(|array| array.bytes).sum();
        let physical = self.physical.iter().enumerate();
        let physical: u64 = physical
            .filter(|(number, physical)| physical.device == Some(device) && self.is_held(*number))
            .map(|(_, physical)| physical.blocks * BLOCK)
            .sum();
        linear + arrays + physical
    }

    /// Whether a handle or a mapping refers to it.
    pub(crate) fn is_held(&self, physical: usize) -> bool {
        self.physical[physical].handles > 0 || self.maps.iter().any(|map| map.physical == physical)
    }

    /// Whether nothing else is live at this address.
    pub(crate) fn is_nobodys(&self, address: u64) -> bool {
        !self
            .addresses
            .iter()
            .any(|other| other.live && other.address == address)
    }

    /// Whether nothing at all is there: neither memory nor a node of a graph, which has an address before it has memory.
    pub(crate) fn is_nothings(&self, address: u64) -> bool {
        let graphs = self.graphs.iter().flat_map(|graph| &graph.nodes);
        let execs = self.execs.iter().flat_map(|exec| &exec.nodes);
        let mut nodes = graphs.chain(execs).chain(&self.orphans);
        self.is_nobodys(address) && !nodes.any(|node| node.address == address)
    }
}

/// (code, bytes of a block, elements along its sides, channels) of a format.
pub(crate) const FORMAT: [(u32, u64, u64, u32); super::step::FORMATS as usize] = [
    (0x01, 1, 1, 1),
    (0x10, 4, 1, 2),
    (0x20, 16, 1, 4),
    (0x20, 4, 1, 1),
    (0x08, 2, 1, 2),
];

/// Bytes of an array: rows of whole blocks, no dimension less than one.
pub(crate) fn array_bytes(width: u64, height: u64, depth: u64, format: usize) -> u64 {
    let (_, bytes, side, _) = FORMAT[format];
    width.div_ceil(side) * bytes * height.max(1).div_ceil(side) * depth.max(1)
}

/// Bytes of all levels, each half of the one before, as many as there can be.
pub(crate) fn mipmap_bytes(width: u64, height: u64, depth: u64, format: usize, levels: u32) -> u64 {
    let most = width.max(height).max(depth).max(1).ilog2() + 1;
    let half = |side: u64, level: u32| if side == 0 { 0 } else { (side >> level).max(1) };
    (0..levels.min(most))
        .map(|level| {
            array_bytes(
                half(width, level),
                half(height, level),
                half(depth, level),
                format,
            )
        })
        .sum()
}
