//! How often a program does what, and with which numbers.
//!
//! A step is drawn as a few plain numbers, which are quick to draw and to shrink, and read by the table below.

use proptest::prelude::*;

use crate::step::{FORMATS, Step, What};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Programs of so many processes. Each is about some of the families only: so it gets deep into them.
pub(crate) fn programs(processes: u8, longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (0..processes, any::<u32>(), any::<[u32; 4]>());
    let steps = prop::collection::vec(step, 1..longest);
    (any::<u8>(), steps).prop_map(move |(mask, steps)| {
        let choices: Vec<&Choice> = about(mask, processes).collect();
        let one = |(process, place, numbers)| Step {
            process,
            what: choose(&choices, place)(&Numbers(numbers)),
        };
        steps.into_iter().map(one).collect()
    })
}

type Choice = (u32, fn(&Numbers) -> What);

/// What a program may do that is about the families of a mask.
fn about(mask: u8, processes: u8) -> impl Iterator<Item = &'static Choice> {
    let shared = if processes > 1 { SHARED } else { &[] };
    let families = [LINEAR, POOLS, PHYSICAL, ARRAYS, GRAPHS, shared];
    let chosen = families.into_iter().enumerate();
    let chosen = chosen.filter(move |(bit, _)| mask >> bit & 1 == 1);
    let chosen = chosen.flat_map(|(_, choices)| choices);
    ALWAYS.iter().chain(chosen)
}

/// The choice at a place, each as often as its weight says.
fn choose(choices: &[&Choice], place: u32) -> fn(&Numbers) -> What {
    let total: u32 = choices.iter().map(|(weight, _)| weight).sum();
    let mut place = place % total;
    for (weight, what) in choices {
        if place < *weight {
            return *what;
        }
        place -= weight;
    }
    unreachable!("a place beyond the sum of the weights");
}

/// What a step is made of.
struct Numbers([u32; 4]);

impl Numbers {
    /// One of so many, by the n-th number.
    fn one(&self, number: usize, of: u32) -> u32 {
        self.0[number] % of
    }

    /// One of what there is at that moment.
    fn which(&self, number: usize) -> u8 {
        self.0[number].to_le_bytes()[0]
    }

    fn flag(&self, number: usize) -> bool {
        self.one(number, 2) == 1
    }

    /// The first device twice as often.
    fn device(&self) -> u8 {
        u8::from(self.one(3, 3) == 2)
    }

    /// Sizes around what matters: a few bytes, a block, a pool's segment, the limit, and beyond everything.
    fn bytes(&self) -> u64 {
        let number = u64::from(self.0[2] / 25);
        match self.one(2, 25) {
            0..6 => 1 + number % 5_000,
            6..14 => (1 + number % 8_192) * KIB,
            14..22 => (4 + number % 36) * MIB,
            22..24 => (40 + number % 100) * MIB,
            _ => [1 << 40, u64::MAX, u64::MAX - 511][usize::try_from(number % 3).unwrap_or(0)],
        }
    }

    fn mib(&self) -> u64 {
        u64::from(self.one(1, 70)) * MIB
    }

    fn blocks(&self) -> u64 {
        u64::from(1 + self.one(2, 20))
    }

    /// A side of an array.
    fn side(&self, number: usize) -> u64 {
        let most = if self.one(number, 2) == 0 { 200 } else { 3_000 };
        u64::from(1 + self.0[number] / 5 % most)
    }

    /// The same, or none.
    fn flat(&self, number: usize) -> u64 {
        match self.0[number] / 5_000 % 5 {
            0 => 0,
            _ => self.side(number),
        }
    }

    fn depth(&self) -> u64 {
        u64::from(self.one(2, 12))
    }

    fn format(&self) -> u8 {
        self.0[3].to_le_bytes()[0] % FORMATS
    }
}

#[rustfmt::skip]
const ALWAYS: &[Choice] = &[
    (4, |_| What::Look),
    (2, |n| What::RetainPrimary { device: n.device() }),
    (2, |n| What::ReleasePrimary { device: n.device() }),
    (1, |n| What::ResetPrimary { device: n.device() }),
    (3, |n| What::CreateContext { device: n.device() }),
    (2, |n| What::DestroyContext { which: n.which(0) }),
    (5, |n| What::SetCurrent { which: n.which(0) }),
    (1, |_| What::NoCurrent),
    (3, |n| What::Linear { bytes: n.bytes() }),
    (1, |_| What::Fill),
    (1, |n| What::FillPhysical { device: n.device() }),
    (1, |n| What::Nonsense { which: n.which(0) }),
];

#[rustfmt::skip]
const LINEAR: &[Choice] = &[
    (12, |n| What::Linear { bytes: n.bytes() }),
    (5, |n| What::Pitched { width: 1 + u64::from(n.one(0, 30_000)), height: 1 + u64::from(n.one(1, 3_000)) }),
    (4, |n| What::Managed { bytes: n.bytes() }),
    (12, |n| What::Free { which: n.which(0) }),
    (1, |n| What::FreeAgain { which: n.which(0) }),
];

#[rustfmt::skip]
const POOLS: &[Choice] = &[
    (2, |n| What::Work { stream: n.which(0), micros: 50 + n.which(1) as u16 * 8 }),
    (8, |n| What::Async { bytes: n.bytes(), stream: n.which(1) }),
    (8, |n| What::FreeAsync { which: n.which(0), stream: n.which(1) }),
    (2, |_| What::CreateStream),
    (1, |n| What::DestroyStream { which: n.which(0) }),
    (3, |n| What::Synchronize { which: n.which(0) }),
    (2, |_| What::SynchronizeContext),
    (3, |n| What::CreatePool { device: n.device() }),
    (1, |n| What::DestroyPool { which: n.which(0) }),
    (3, |n| What::TrimPool { which: n.which(0), keep: n.mib() }),
    (2, |n| What::Threshold { which: n.which(0), bytes: n.mib() }),
    (1, |n| What::UsePool { which: n.which(0) }),
    (6, |n| What::FromPool { which: n.which(0), bytes: n.bytes(), stream: n.which(1) }),
];

#[rustfmt::skip]
const PHYSICAL: &[Choice] = &[
    (8, |n| What::CreatePhysical { place: [0, 0, 0, 1, 1, 2][n.one(0, 6) as usize], blocks: n.blocks() }),
    (6, |n| What::Release { which: n.which(0) }),
    (4, |n| What::Reserve { blocks: n.blocks() + 3 }),
    (1, |n| What::Unreserve { which: n.which(0) }),
    (16, |n| What::Map { which: n.which(0), range: n.which(1), at: n.which(3), blocks: n.blocks() }),
    (7, |n| What::Unmap { which: n.which(0), count: 1 + n.which(1) % 3 }),
    (6, |n| What::RetainMapped { which: n.which(0) }),
];

#[rustfmt::skip]
const ARRAYS: &[Choice] = &[
    (4, |n| What::Array { width: n.side(0), height: n.flat(1), format: n.format() }),
    (3, |n| What::Volume {
        width: n.side(0), height: n.flat(1), depth: n.depth(), layered: n.flag(3), format: n.format(),
    }),
    (3, |n| What::Mipmaps {
        width: n.side(0), height: n.flat(1), depth: n.depth(), format: n.format(), levels: 1 + n.one(3, 15),
    }),
    (6, |n| What::DestroyArray { which: n.which(0) }),
];

#[rustfmt::skip]
const GRAPHS: &[Choice] = &[
    (3, |_| What::Graph),
    (6, |n| What::GraphAllocation { which: n.which(0), device: n.device(), bytes: n.bytes() }),
    (3, |n| What::GraphFree { which: n.which(0), node: n.which(1) }),
    (3, |n| What::Capture { bytes: n.bytes(), free: n.flag(0) }),
    (5, |n| What::Instantiate { which: n.which(0), auto_free: n.flag(1) }),
    (6, |n| What::Upload { which: n.which(0) }),
    (12, |n| What::Launch { which: n.which(0), stream: n.which(1) }),
    (2, |n| What::FreeOfGraph { which: n.which(0), node: n.which(1) }),
    (1, |n| What::DestroyExec { which: n.which(0) }),
    (1, |n| What::DestroyGraph { which: n.which(0) }),
    (2, |n| What::TrimGraphs { device: n.device() }),
];

#[rustfmt::skip]
const SHARED: &[Choice] = &[
    (6, |n| What::Share { which: n.which(0) }),
    (3, |n| What::Unshare { which: n.which(0) }),
];
