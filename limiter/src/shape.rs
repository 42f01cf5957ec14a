//! What a launch is, as far as its cost goes.

use quota_abi::bucket::Kind;

/// The stream of a launch, as the caller named it and by which form of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The handle; 0 is the default stream of the function's form.
    pub handle: usize,
    /// Whether the function was a per-thread form (`_ptsz`, `_ptds`).
    pub per_thread: bool,
}

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`: what a handle of 0 stands for.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

impl Stream {
    /// One number for one stream: never 0, and the same for a default stream by any of its names.
    #[inline]
    pub fn key(self) -> usize {
        match (self.handle, self.per_thread) {
            (0, false) => LEGACY,
            (0, true) => PER_THREAD,
            (handle, _) => handle,
        }
    }

    /// The legacy default stream waits for all blocking streams and they for it. Nothing may be recorded
    /// on it at a moment of our own choice, only where the application itself launches on it.
    pub fn joins_others(self) -> bool {
        self.key() == LEGACY
    }
}

/// One call that starts work on the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Identifies work of equal cost; never 0.
    pub shape: u64,
    /// Identifies the function, for the cost of a shape not seen yet; 0: none.
    pub function: u64,
    /// How large this shape is among those of its function: blocks.
    pub size: u64,
    /// Where it is launched.
    pub stream: Stream,
    /// Whether it may start before the work ahead of it ends (programmatic dependent launch): no marker
    /// may come between the two.
    pub joined: bool,
}

/// Arbitrary odd numbers, to tell the places of a hash apart.
const PLACES: [u64; 4] = [
    0x9e37_79b9_7f4a_7c15,
    0xf39c_c060_5ced_c835,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
];

/// Mixes two words: the halves of their product, folded together.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the two halves of a product"
)]
const fn mix(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    (product as u64) ^ ((product >> 64) as u64)
}

/// Identifies a function or a graph. `generation` is that of the cost table: addresses are reused.
#[inline]
const fn identity(address: usize, generation: u64) -> u64 {
    address as u64 ^ generation
}

/// Three sizes and shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared: u32,
}

impl Geometry {
    /// The shape of the launches of a function with it: its four words, each times a number of its own, added up. The products do
    /// not wait for each other: this is on the way of each launch. Only the upper bits depend on every part.
    #[inline]
    pub fn shape(self, function: usize, generation: u64) -> u64 {
        let [gx, gy, gz] = self.grid.map(u64::from);
        let [bx, by, bz] = self.block.map(u64::from);
        let words = [
            identity(function, generation),
            gx | gy << 32,
            gz | bx << 32,
            by | bz << 16 | u64::from(self.shared) << 32,
        ];
        let [a, b, c, d] = words;
        let [p, q, r, s] = PLACES;
        let ab = a.wrapping_mul(p).wrapping_add(b.wrapping_mul(q));
        let cd = c.wrapping_mul(r).wrapping_add(d.wrapping_mul(s));
        ab.wrapping_add(cd) | 1
    }

    fn blocks(self) -> u64 {
        let [x, y, z] = self.grid.map(u64::from);
        x.saturating_mul(y).saturating_mul(z)
    }
}

/// The shape of a graph's launches.
#[inline]
pub fn graph_shape(exec: usize, generation: u64) -> u64 {
    mix(identity(exec, generation) ^ PLACES[2], PLACES[0]) | 1
}

impl Work {
    /// No work: all zero.
    pub(crate) const NONE: Self = Self {
        shape: 0,
        function: 0,
        size: 0,
        stream: Stream {
            handle: 0,
            per_thread: false,
        },
        joined: false,
    };

    /// Itself, unless it is [`Self::NONE`].
    pub(crate) fn known(self) -> Option<Self> {
        (self.shape != 0).then_some(self)
    }

    /// A kernel, of the shape that its geometry has.
    pub fn kernel(
        function: usize,
        geometry: Geometry,
        generation: u64,
        stream: Stream,
        joined: bool,
    ) -> Self {
        Self {
            shape: geometry.shape(function, generation),
            function: mix(identity(function, generation) ^ PLACES[3], PLACES[0]) | 1,
            size: geometry.blocks(),
            stream,
            joined,
        }
    }

    /// Whether it is a graph: many kernels in one call.
    pub fn is_graph(&self) -> bool {
        self.function == 0
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        if self.is_graph() {
            Kind::Graph
        } else {
            Kind::Kernel
        }
    }

    /// A graph that was instantiated.
    pub fn graph(exec: usize, generation: u64, stream: Stream) -> Self {
        Self {
            shape: graph_shape(exec, generation),
            function: 0,
            size: 0,
            stream,
            joined: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Stream = Stream {
        handle: 0x5000,
        per_thread: false,
    };

    fn kernel(function: usize, geometry: Geometry, generation: u64) -> Work {
        Work::kernel(function, geometry, generation, STREAM, false)
    }

    #[test]
    fn every_part_of_a_shape_counts() {
        let plain = Geometry {
            grid: [8, 4, 2],
            block: [128, 2, 1],
            shared: 1024,
        };
        let mut seen = vec![kernel(0x1000, plain, 1).shape];
        for change in 0..7 {
            let mut other = plain;
            match change {
                0..3 => other.grid[change] += 1,
                3..6 => other.block[change - 3] += 1,
                _ => other.shared += 1,
            }
            seen.push(kernel(0x1000, other, 1).shape);
        }
        seen.push(kernel(0x1010, plain, 1).shape);
        seen.push(kernel(0x1000, plain, 2).shape);
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn a_grid_saturates() {
        let huge = Geometry {
            grid: [u32::MAX; 3],
            block: [1; 3],
            shared: 0,
        };
        assert_eq!(kernel(1, huge, 1).size, u64::MAX);
    }

    #[test]
    fn a_default_stream_has_one_key_under_all_its_names() {
        let named = |handle, per_thread| Stream { handle, per_thread }.key();
        assert_eq!(named(0, false), named(1, true));
        assert_eq!(named(0, true), named(2, false));
        assert_ne!(named(0, true), named(0, false));
    }
}
