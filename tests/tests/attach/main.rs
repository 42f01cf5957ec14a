//! The library under a daemon, which here is one that does what its test says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a step that fails must fail its test, where it stands"
)]

mod answers;
mod fake;
mod memory;
mod places;
mod time;

use std::path::Path;

use quota_tests::{Client, Sim, Steps};

/// A program told step by step, under the daemon of this socket.
fn under(sim: &Sim, socket: &Path) -> Steps {
    with(sim.client("steps"), socket).interpret()
}

fn with(client: Client, socket: &Path) -> Client {
    client.env("GPU_QUOTA_SOCKET", socket).watchdog(30)
}

/// Initialises CUDA, with a context.
fn begin(steps: &mut Steps) {
    for line in [
        "cuInit 0",
        "cuDeviceGet &1 0",
        "cuDevicePrimaryCtxRetain &2 $1",
        "cuCtxSetCurrent $2",
    ] {
        let _ = steps.quiet(line).ok();
    }
}

/// Allocates, and says what the driver or the library answered.
fn allocate(steps: &mut Steps, bytes: u64) -> u32 {
    steps
        .quiet(format!("cuMemAlloc_v2 &3 {bytes}"))
        .code
        .unwrap()
}

/// Free and total bytes.
fn info(steps: &mut Steps) -> (u64, u64) {
    let answer = steps.quiet("cuMemGetInfo_v2 &4 &5").ok();
    (answer.out[0], answer.out[1])
}
