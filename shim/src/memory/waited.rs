//! What is learnt when the program waits for its work: the driver gives back what pools hold without need, and frees in a
//! stream's order have been got to.

use cuda_headers::driver::CUresult;

use super::{deferred, pool};
use crate::guard::Aside;
use crate::process::{self, Process};

/// Whether there may be anything to learn.
#[inline]
pub(crate) fn matters() -> bool {
    pool::has_slack() || deferred::any()
}

/// A call that waits for work on the GPU: `wait` makes it, or leaves that to `call`.
#[inline]
pub(crate) fn after(
    wait: impl FnOnce() -> Result<CUresult, Aside>,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if !matters() {
        return wait();
    }
    let answer = match wait() {
        Err(Aside::Refused) => return Err(Aside::Refused),
        Err(_) => call(),
        Ok(answer) => answer,
    };
    if answer == CUresult::CUDA_SUCCESS
        && let Ok(process) = process::limited()
    {
        perhaps(process);
    }
    Ok(answer)
}

/// Some other call has been made that may have waited on the way.
#[inline]
pub(super) fn perhaps(process: &Process) {
    if matters() {
        learn(process);
    }
}

#[inline(never)]
fn learn(process: &Process) {
    if deferred::any() {
        process.memory.deferred.settle(process);
    }
    if pool::has_slack() {
        process.memory.pools.waited(process);
    }
}
