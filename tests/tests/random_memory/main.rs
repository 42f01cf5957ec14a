//! Long random programs over all families of memory. After every step the ledger is compared with the simulator's account
//! of what is really held, the account with a small model made from the documentation, and refusals with the limit: refused
//! is what would exceed it, and nothing else, and the driver is not called for it.
//!
//! ```text
//! RANDOM_MEMORY_SEED=N    repeats a run (a failure prints its seed)
//! RANDOM_MEMORY_CASES=N   so many programs instead of the 10,000
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

mod arrays;
mod contexts;
mod draw;
mod graphs;
mod linear;
mod model;
mod physical;
mod pools;
mod regressions;
mod rest;
mod shared;
mod step;
mod turn;
mod world;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use step::Step;
use world::World;

/// Programs of one process.
const ALONE: u32 = 8_000;
/// Programs of two processes of one group.
const TOGETHER: u32 = 2_000;
/// Steps of the longest program.
const LONGEST: usize = 48;

#[test]
fn one_process() {
    // Two at once, for the two processors that there are at least.
    std::thread::scope(|scope| {
        for part in 0..2 {
            scope.spawn(move || run(1, ALONE / 2, part));
        }
    });
}

#[test]
fn two_processes() {
    run(2, TOGETHER, 2);
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|e| panic!("{variable}={text}: {e}")),
    )
}

/// Runs random programs, and fails with the smallest one that fails.
fn run(processes: u8, cases: u32, part: u64) {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let fresh = || u64::from(clock().subsec_nanos()) | u64::from(std::process::id()) << 32;
    let seed = number("RANDOM_MEMORY_SEED").unwrap_or_else(fresh);
    let cases = number("RANDOM_MEMORY_CASES").map_or(cases, |cases| cases.try_into().unwrap());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&part.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 5_000,
        ..Config::default()
    };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, random);
    let world: RefCell<Option<World>> = RefCell::new(None);
    let result = runner.run(&draw::programs(processes, LONGEST), |program| {
        let mut place = world.borrow_mut();
        let world = place.get_or_insert_with(|| World::new(processes));
        let Err(why) = turn::play(world, &program) else {
            return Ok(());
        };
        let what = world.trace.join("\n");
        // What it leaves behind is nothing to go on from; an excess has been reported by `why`.
        drop(catch_unwind(AssertUnwindSafe(|| drop(place.take()))));
        Err(TestCaseError::fail(format!("{what}\n{why}")))
    });
    match result {
        Ok(()) => worth_it(&world.borrow(), cases),
        Err(TestError::Fail(why, program)) => {
            panic!("RANDOM_MEMORY_SEED={seed}\n{why}\n{}", as_code(&program))
        }
        Err(TestError::Abort(why)) => panic!("RANDOM_MEMORY_SEED={seed}: {why}"),
    }
}

/// Programs that never get anywhere would show nothing: everything that takes memory has succeeded and been refused, and
/// what gives it back has succeeded.
fn worth_it(world: &Option<World>, cases: u32) {
    let Some(world) = world else { return };
    if cases < 1_000 {
        return;
    }
    for (symbol, [fine, refused, other]) in &world.counts {
        println!("{symbol}: {fine} succeeded, {refused} refused, {other} errors");
    }
    let count = |symbol: &str| world.counts.get(symbol).copied().unwrap_or_default();
    for symbol in [
        "cuMemAlloc_v2",
        "cuMemAllocPitch_v2",
        "cuMemAllocManaged",
        "cuMemAllocAsync",
        "cuMemAllocFromPoolAsync",
        "cuMemCreate",
        "cuArrayCreate_v2",
        "cuArray3DCreate_v2",
        "cuMipmappedArrayCreate",
        "cuCtxCreate_v2",
        "cuGraphLaunch",
    ] {
        let [fine, refused, _] = count(symbol);
        assert!(fine > 10 && refused > 2, "{symbol}: {:?}", count(symbol));
    }
    for symbol in [
        // Refused too now and then, too seldom to be counted on; `family_table` has it refused.
        "cuGraphUpload",
        "cuMemFree_v2",
        "cuMemFreeAsync",
        "cuMemPoolDestroy",
        "cuMemPoolTrimTo",
        "cuMemUnmap",
        "cuMemRetainAllocationHandle",
        "cuArrayDestroy",
        "cuMipmappedArrayDestroy",
        "cuCtxDestroy_v2",
        "cuDevicePrimaryCtxReset_v2",
        "cuGraphExecDestroy",
        "cuDeviceGraphMemTrim",
    ] {
        assert!(count(symbol)[0] > 10, "{symbol}: {:?}", count(symbol));
    }
}

/// The program as it can be kept among the regressions.
fn as_code(program: &[Step]) -> String {
    let lines = program.iter().map(|step| format!("    {step:?},\n"));
    format!("&[\n{}]", lines.collect::<String>())
}
