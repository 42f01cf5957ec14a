//! Programs that failed once, as they were found: each the smallest of its kind.

use crate::step::{Step, What};
use crate::turn::play;
use crate::world::World;

const MIB: u64 = 1 << 20;

/// Carries out a program of one process on a machine of its own.
#[track_caller]
fn holds(steps: impl IntoIterator<Item = What>) {
    let program = steps.into_iter().map(|what| Step { process: 0, what });
    let mut world = World::new(1);
    if let Err(why) = play(&mut world, &program.collect::<Vec<_>>()) {
        panic!("{}\n{why}", world.trace.join("\n"));
    }
}

fn asynchronous(bytes: u64) -> What {
    What::Async { bytes, stream: 0 }
}

const FREE: What = What::Free { which: 0 };

/// The driver empties a device's own pool when the last context there goes.
#[test]
fn slack_goes_with_the_last_context() {
    holds([asynchronous(1), FREE, What::ReleasePrimary { device: 0 }]);
}

#[test]
fn memory_of_the_default_pool_goes_with_the_last_context() {
    let linear = What::Linear { bytes: 1 };
    holds([linear, asynchronous(1), What::ReleasePrimary { device: 0 }]);
}

/// Memory comes from the device of the stream, whatever is current.
#[test]
fn a_stream_of_another_device() {
    let on_it = What::Async {
        bytes: 1,
        stream: 1,
    };
    holds([
        What::CreateStream,
        What::CreateContext { device: 1 },
        on_it.clone(),
        What::NoCurrent,
        What::NoCurrent,
        on_it,
    ]);
}

#[test]
fn a_refusal_leaves_no_trimmed_slack_charged() {
    holds([asynchronous(1), FREE, asynchronous(95 * MIB), What::Look]);
}

/// Absurd sizes are refused without a trace, and without trimming anything.
#[test]
fn absurd_sizes() {
    for bytes in [1 << 40, u64::MAX, u64::MAX - 511] {
        holds([asynchronous(1), asynchronous(bytes), asynchronous(32 * MIB)]);
    }
}

/// The driver holds a destroyed pool's segments until the last of its memory comes back.
#[test]
fn a_destroyed_pool_with_memory_out() {
    let from = What::FromPool {
        which: 2,
        bytes: 1,
        stream: 0,
    };
    holds([
        What::CreatePool { device: 0 },
        from,
        What::DestroyPool { which: 0 },
        What::Linear { bytes: 60 * MIB },
        What::Linear { bytes: 4 * MIB },
        What::FreeAsync {
            which: 0,
            stream: 0,
        },
        What::Linear { bytes: 32 * MIB },
    ]);
}

/// A segment that the driver took for a request that was then refused goes back.
#[test]
fn what_was_taken_in_vain_goes_back() {
    holds([
        What::Linear { bytes: 6 * MIB },
        asynchronous(25 * MIB),
        asynchronous(60 * MIB),
        What::Look,
    ]);
}

/// The old segment and the new one do not fit together, the new one alone does.
#[test]
fn slack_makes_way_for_a_larger_segment() {
    holds([asynchronous(1), FREE, asynchronous(64 * MIB), What::Look]);
}

/// There are no more levels than halving makes.
#[test]
fn more_levels_than_there_can_be() {
    let mipmaps = |width, height, depth, levels| What::Mipmaps {
        width,
        height,
        depth,
        format: 1,
        levels,
    };
    holds([
        mipmaps(36, 2, 3, 13),
        mipmaps(3, 2, 9, 15),
        mipmaps(17, 0, 0, 6),
    ]);
}

/// What a stream has yet to free is held until it gets there.
#[test]
fn plain_memory_freed_behind_work() {
    holds([
        What::Work {
            stream: 0,
            micros: 20_000,
        },
        What::Linear { bytes: 40 * MIB },
        What::FreeAsync {
            which: 0,
            stream: 0,
        },
        What::Linear { bytes: 90 * MIB },
        What::SynchronizeContext,
        What::Linear { bytes: 90 * MIB },
    ]);
}

#[test]
fn a_destroyed_pool_whose_last_memory_is_freed_behind_work() {
    let from = What::FromPool {
        which: 2,
        bytes: 1,
        stream: 0,
    };
    holds([
        What::CreatePool { device: 0 },
        from,
        What::DestroyPool { which: 0 },
        What::Work {
            stream: 0,
            micros: 20_000,
        },
        What::FreeAsync {
            which: 0,
            stream: 0,
        },
        What::Linear { bytes: 90 * MIB },
    ]);
}

/// Asking for an array waits for nothing, and so gives back no slack.
#[test]
fn an_array_beside_slack() {
    let array = What::Array {
        width: 1,
        height: 0,
        format: 0,
    };
    holds([asynchronous(1), FREE, array]);
}

fn node(which: u8, device: u8, bytes: u64) -> What {
    What::GraphAllocation {
        which,
        device,
        bytes,
    }
}

fn instantiate(which: u8) -> What {
    What::Instantiate {
        which,
        auto_free: false,
    }
}

/// What a graph holds without need goes back before another is refused that it would serve in part.
#[test]
fn slack_of_graphs_goes_before_a_graph_is_refused() {
    holds([
        What::Graph,
        node(0, 0, 1),
        instantiate(0),
        What::Upload { which: 0 },
        What::Graph,
        node(1, 0, 2 * MIB),
        node(1, 0, 2 * MIB),
        instantiate(1),
        What::FillPhysical { device: 0 },
        What::Upload { which: 1 },
    ]);
}

/// A graph of two devices is refused for one of them: what the other holds without need would have served it, and stays.
#[test]
fn slack_on_the_device_that_is_not_in_the_way() {
    holds([
        What::CreateContext { device: 1 },
        What::Graph,
        node(0, 0, 1),
        instantiate(0),
        What::Upload { which: 0 },
        What::Graph,
        node(1, 1, 1),
        node(1, 0, 1),
        instantiate(1),
        What::Fill,
        What::FillPhysical { device: 0 },
        What::Upload { which: 1 },
    ]);
}
