//! How often a program does what, and with which numbers.

use proptest::prelude::*;
use proptest::strategy::{BoxedStrategy, Union};

use crate::step::{FORMATS, Step, What};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Programs of so many processes.
pub(crate) fn programs(processes: u8, longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let all = [
        contexts(),
        linear(),
        pools(),
        physical(),
        arrays(),
        graphs(),
        others(processes),
    ];
    let what = Union::new_weighted(all.into_iter().flatten().collect());
    let step = (0..processes, what).prop_map(|(process, what)| Step { process, what });
    prop::collection::vec(step, 1..longest)
}

type Choice = (u32, BoxedStrategy<What>);

fn one<T: std::fmt::Debug + 'static>(
    weight: u32,
    numbers: impl Strategy<Value = T> + 'static,
    what: impl Fn(T) -> What + 'static,
) -> Choice {
    (weight, numbers.prop_map(what).boxed())
}

/// One of what there is at that moment.
fn which() -> impl Strategy<Value = u8> {
    any::<u8>()
}

fn device() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0_u8), 1 => Just(1)]
}

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

fn contexts() -> Vec<Choice> {
    vec![
        one(2, device(), |device| What::RetainPrimary { device }),
        one(2, device(), |device| What::ReleasePrimary { device }),
        one(1, device(), |device| What::ResetPrimary { device }),
        one(3, device(), |device| What::CreateContext { device }),
        one(2, which(), |which| What::DestroyContext { which }),
        one(7, which(), |which| What::SetCurrent { which }),
        one(1, Just(()), |()| What::NoCurrent),
    ]
}

fn linear() -> Vec<Choice> {
    let rows = (1_u64..30_000, 1_u64..3_000);
    vec![
        one(12, bytes(), |bytes| What::Linear { bytes }),
        one(5, rows, |(width, height)| What::Pitched { width, height }),
        one(4, bytes(), |bytes| What::Managed { bytes }),
        one(12, which(), |which| What::Free { which }),
        one(1, which(), |which| What::FreeAgain { which }),
    ]
}

fn pools() -> Vec<Choice> {
    let limit = || (which(), (0_u64..70).prop_map(|mib| mib * MIB));
    let from = (which(), bytes(), which());
    vec![
        one(2, Just(()), |()| What::CreateStream),
        one(1, which(), |which| What::DestroyStream { which }),
        one(3, which(), |which| What::Synchronize { which }),
        one(2, Just(()), |()| What::SynchronizeContext),
        one(3, device(), |device| What::CreatePool { device }),
        one(1, which(), |which| What::DestroyPool { which }),
        one(3, limit(), |(which, keep)| What::TrimPool { which, keep }),
        one(2, limit(), |(which, bytes)| What::Threshold {
            which,
            bytes,
        }),
        one(1, which(), |which| What::UsePool { which }),
        one(8, (bytes(), which()), |(bytes, stream)| What::Async {
            bytes,
            stream,
        }),
        one(6, from, |(which, bytes, stream)| What::FromPool {
            which,
            bytes,
            stream,
        }),
        one(8, (which(), which()), |(which, stream)| What::FreeAsync {
            which,
            stream,
        }),
    ]
}

fn physical() -> Vec<Choice> {
    let place = prop_oneof![3 => Just(0_u8), 2 => Just(1_u8), 1 => Just(2_u8)];
    let map = (which(), which(), which(), 1_u64..20);
    vec![
        one(8, (place, 1_u64..20), |(place, blocks)| {
            What::CreatePhysical { place, blocks }
        }),
        one(6, which(), |which| What::Release { which }),
        one(4, 1_u64..24, |blocks| What::Reserve { blocks }),
        one(1, which(), |which| What::Unreserve { which }),
        one(9, map, |(which, range, at, blocks)| What::Map {
            which,
            range,
            at,
            blocks,
        }),
        one(6, (which(), 1_u8..4), |(which, count)| What::Unmap {
            which,
            count,
        }),
        one(3, which(), |which| What::RetainMapped { which }),
    ]
}

fn arrays() -> Vec<Choice> {
    let side = || prop_oneof![3 => 1_u64..200, 2 => 200_u64..2_100];
    let flat = move || prop_oneof![1 => Just(0_u64), 4 => side()];
    let format = || 0_u8..FORMATS;
    let array = (side(), flat(), format());
    let volume = (side(), flat(), 0_u64..12, any::<bool>(), format());
    let mipmaps = (side(), flat(), 0_u64..12, format(), 1_u32..16);
    vec![
        one(4, array, |(width, height, format)| What::Array {
            width,
            height,
            format,
        }),
        one(3, volume, |(width, height, depth, layered, format)| {
            What::Volume {
                width,
                height,
                depth,
                layered,
                format,
            }
        }),
        one(3, mipmaps, |(width, height, depth, format, levels)| {
            What::Mipmaps {
                width,
                height,
                depth,
                format,
                levels,
            }
        }),
        one(6, which(), |which| What::DestroyArray { which }),
    ]
}

fn graphs() -> Vec<Choice> {
    let node = (which(), device(), bytes());
    let both = || (which(), which());
    let exec = (which(), any::<bool>());
    vec![
        one(3, Just(()), |()| What::Graph),
        one(6, node, |(which, device, bytes)| What::GraphAllocation {
            which,
            device,
            bytes,
        }),
        one(3, both(), |(which, node)| What::GraphFree { which, node }),
        one(3, (bytes(), any::<bool>()), |(bytes, free)| What::Capture {
            bytes,
            free,
        }),
        one(5, exec, |(which, auto_free)| What::Instantiate {
            which,
            auto_free,
        }),
        one(2, which(), |which| What::Upload { which }),
        one(8, both(), |(which, stream)| What::Launch { which, stream }),
        one(2, both(), |(which, node)| What::FreeOfGraph { which, node }),
        one(1, which(), |which| What::DestroyExec { which }),
        one(1, which(), |which| What::DestroyGraph { which }),
        one(2, device(), |device| What::TrimGraphs { device }),
    ]
}

fn others(processes: u8) -> Vec<Choice> {
    let shares = u32::from(processes > 1);
    let work = (which(), 50_u16..2_000);
    vec![
        one(6 * shares, which(), |which| What::Share { which }),
        one(3 * shares, which(), |which| What::Unshare { which }),
        one(2, work, |(stream, micros)| What::Work { stream, micros }),
        one(2, which(), |which| What::Nonsense { which }),
        one(5, Just(()), |()| What::Look),
    ]
    .into_iter()
    .filter(|(weight, _)| *weight > 0)
    .collect()
}
