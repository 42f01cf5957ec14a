//! What a random program is made of. A step names what it works on by a number that is taken modulo what there is at that
//! moment, so that a program stays one when steps are left out of it.

use proptest::prelude::*;
use proptest::strategy::Union;

/// One step of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Which process.
    pub(crate) process: u8,
    /// What it does.
    pub(crate) what: What,
}

/// What a process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    RetainPrimary {
        device: u8,
    },
    ReleasePrimary {
        device: u8,
    },
    ResetPrimary {
        device: u8,
    },
    CreateContext {
        device: u8,
    },
    DestroyContext {
        which: u8,
    },
    SetCurrent {
        which: u8,
    },
    NoCurrent,
    Linear {
        bytes: u64,
    },
    Pitched {
        width: u64,
        height: u64,
    },
    Managed {
        bytes: u64,
    },
    Free {
        which: u8,
    },
    FreeAgain {
        which: u8,
    },
    CreateStream,
    DestroyStream {
        which: u8,
    },
    Synchronize {
        which: u8,
    },
    SynchronizeContext,
    CreatePool {
        device: u8,
    },
    DestroyPool {
        which: u8,
    },
    TrimPool {
        which: u8,
        keep: u64,
    },
    Threshold {
        which: u8,
        bytes: u64,
    },
    UsePool {
        which: u8,
    },
    Async {
        bytes: u64,
        stream: u8,
    },
    FromPool {
        which: u8,
        bytes: u64,
        stream: u8,
    },
    FreeAsync {
        which: u8,
        stream: u8,
    },
    CreatePhysical {
        place: u8,
        blocks: u64,
    },
    Release {
        which: u8,
    },
    Reserve {
        blocks: u64,
    },
    Unreserve {
        which: u8,
    },
    Map {
        which: u8,
        range: u8,
        at: u8,
        blocks: u64,
    },
    Unmap {
        which: u8,
        count: u8,
    },
    RetainMapped {
        which: u8,
    },
    Array {
        width: u64,
        height: u64,
        format: u8,
    },
    Volume {
        width: u64,
        height: u64,
        depth: u64,
        layered: bool,
        format: u8,
    },
    Mipmaps {
        width: u64,
        height: u64,
        depth: u64,
        format: u8,
        levels: u32,
    },
    DestroyArray {
        which: u8,
    },
    Nonsense {
        which: u8,
    },
    Look,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Sizes around what matters: a few bytes, a block, a pool's segment, the limit, and beyond everything.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 1_u64..5_000,
        8 => (1_u64..8_192).prop_map(|kib| kib * KIB),
        8 => (4_u64..40).prop_map(|mib| mib * MIB),
        2 => (40_u64..140).prop_map(|mib| mib * MIB),
        1 => prop_oneof![Just(1 << 40), Just(u64::MAX), Just(u64::MAX - 511)],
    ]
}

fn device() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0_u8), 1 => Just(1)]
}

/// Everything that a process may do, and how often.
fn what() -> impl Strategy<Value = What> {
    let which = any::<u8>;
    let side = || prop_oneof![3 => 1_u64..200, 2 => 200_u64..2_100];
    let flat = || prop_oneof![1 => Just(0_u64), 4 => side()];
    let deep = || 0_u64..12;
    let format = || 0_u8..FORMATS;
    Union::new_weighted(vec![
        (
            2,
            device()
                .prop_map(|device| What::RetainPrimary { device })
                .boxed(),
        ),
        (
            2,
            device()
                .prop_map(|device| What::ReleasePrimary { device })
                .boxed(),
        ),
        (
            1,
            device()
                .prop_map(|device| What::ResetPrimary { device })
                .boxed(),
        ),
        (
            3,
            device()
                .prop_map(|device| What::CreateContext { device })
                .boxed(),
        ),
        (
            2,
            which()
                .prop_map(|which| What::DestroyContext { which })
                .boxed(),
        ),
        (
            7,
            which().prop_map(|which| What::SetCurrent { which }).boxed(),
        ),
        (1, Just(What::NoCurrent).boxed()),
        (12, bytes().prop_map(|bytes| What::Linear { bytes }).boxed()),
        (
            5,
            (1_u64..30_000, 1_u64..3_000)
                .prop_map(|(width, height)| What::Pitched { width, height })
                .boxed(),
        ),
        (4, bytes().prop_map(|bytes| What::Managed { bytes }).boxed()),
        (12, which().prop_map(|which| What::Free { which }).boxed()),
        (
            1,
            which().prop_map(|which| What::FreeAgain { which }).boxed(),
        ),
        (2, Just(What::CreateStream).boxed()),
        (
            1,
            which()
                .prop_map(|which| What::DestroyStream { which })
                .boxed(),
        ),
        (
            3,
            which()
                .prop_map(|which| What::Synchronize { which })
                .boxed(),
        ),
        (2, Just(What::SynchronizeContext).boxed()),
        (
            3,
            device()
                .prop_map(|device| What::CreatePool { device })
                .boxed(),
        ),
        (
            1,
            which()
                .prop_map(|which| What::DestroyPool { which })
                .boxed(),
        ),
        (
            3,
            (which(), 0_u64..70)
                .prop_map(|(which, keep)| What::TrimPool {
                    which,
                    keep: keep * MIB,
                })
                .boxed(),
        ),
        (
            2,
            (which(), 0_u64..70)
                .prop_map(|(which, mib)| What::Threshold {
                    which,
                    bytes: mib * MIB,
                })
                .boxed(),
        ),
        (1, which().prop_map(|which| What::UsePool { which }).boxed()),
        (
            8,
            (bytes(), which())
                .prop_map(|(bytes, stream)| What::Async { bytes, stream })
                .boxed(),
        ),
        (
            6,
            (which(), bytes(), which())
                .prop_map(|(which, bytes, stream)| What::FromPool {
                    which,
                    bytes,
                    stream,
                })
                .boxed(),
        ),
        (
            8,
            (which(), which())
                .prop_map(|(which, stream)| What::FreeAsync { which, stream })
                .boxed(),
        ),
        (
            8,
            (
                prop_oneof![3 => Just(0_u8), 2 => Just(1_u8), 1 => Just(2_u8)],
                1_u64..20,
            )
                .prop_map(|(place, blocks)| What::CreatePhysical { place, blocks })
                .boxed(),
        ),
        (6, which().prop_map(|which| What::Release { which }).boxed()),
        (
            4,
            (1_u64..24)
                .prop_map(|blocks| What::Reserve { blocks })
                .boxed(),
        ),
        (
            1,
            which().prop_map(|which| What::Unreserve { which }).boxed(),
        ),
        (
            9,
            (which(), which(), which(), 1_u64..20)
                .prop_map(|(which, range, at, blocks)| What::Map {
                    which,
                    range,
                    at,
                    blocks,
                })
                .boxed(),
        ),
        (
            6,
            (which(), 1_u8..4)
                .prop_map(|(which, count)| What::Unmap { which, count })
                .boxed(),
        ),
        (
            3,
            which()
                .prop_map(|which| What::RetainMapped { which })
                .boxed(),
        ),
        (
            4,
            (side(), flat(), format())
                .prop_map(|(width, height, format)| What::Array {
                    width,
                    height,
                    format,
                })
                .boxed(),
        ),
        (
            3,
            (side(), flat(), deep(), any::<bool>(), format())
                .prop_map(|(width, height, depth, layered, format)| What::Volume {
                    width,
                    height,
                    depth,
                    layered,
                    format,
                })
                .boxed(),
        ),
        (
            3,
            (side(), flat(), deep(), format(), 1_u32..16)
                .prop_map(|(width, height, depth, format, levels)| What::Mipmaps {
                    width,
                    height,
                    depth,
                    format,
                    levels,
                })
                .boxed(),
        ),
        (
            6,
            which()
                .prop_map(|which| What::DestroyArray { which })
                .boxed(),
        ),
        (
            2,
            which().prop_map(|which| What::Nonsense { which }).boxed(),
        ),
        (4, Just(What::Look).boxed()),
    ])
}

/// How many formats there are to choose from.
pub(crate) const FORMATS: u8 = 5;

/// Programs of so many processes.
pub(crate) fn programs(processes: u8, longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (0..processes, what()).prop_map(|(process, what)| Step { process, what });
    prop::collection::vec(step, 1..longest)
}
