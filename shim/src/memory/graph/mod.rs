//! Memory nodes of graphs. The driver takes memory for them from the device when an executable graph is first uploaded or
//! launched, keeps it for further launches, may share it among graphs, and gives it back when it is trimmed.
//!
//! An upload or launch reserves the sum of the graph's nodes, as far as what the driver holds unused does not cover it; then
//! the device's charge is set to what the driver holds. Graphs without memory nodes are not kept here, and while there are no
//! others a launch costs one look more.

mod account;
mod life;
mod needs;

use cuda_headers::driver::{CUgraphExec, CUresult, CUstream};
use quota_abi::sync::{AtomicBool, Ordering};

pub(crate) use self::account::Graphs;
pub(crate) use self::life::{destroy, instantiate, trim, update};
use self::needs::Needs;
use super::pool::{Default, is_capturing};
use crate::driver::{call, relaxed};
use crate::guard::{Aside, Call};
use crate::process::{self, Process};
use crate::time;

/// Whether any executable graph with memory nodes was made in this process.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there may be executable graphs with memory nodes.
#[inline]
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// `cuGraphLaunch`: with its GPU time.
#[inline]
pub(crate) fn launch(
    exec: CUgraphExec,
    stream: (CUstream, Default),
    call: &impl Call,
) -> Result<CUresult, Aside> {
    let on = time::stream(stream.0, stream.1 == Default::PerThread);
    if !any() {
        return time::graph(exec, on, call);
    }
    if call.at_once().is_some() {
        return Err(Aside::NotAtOnce);
    }
    let go = || match time::graph(exec, on, call) {
        Err(Aside::Refused) => Err(Aside::Refused),
        Err(_) => Ok(call.call()),
        answered => answered,
    };
    with_memory(exec, stream, go, false)
}

/// `cuGraphUpload`: takes the memory ahead of the launch.
pub(crate) fn upload(
    exec: CUgraphExec,
    stream: (CUstream, Default),
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if !any() {
        return Err(Aside::NotLimited);
    }
    with_memory(exec, stream, || Ok(call()), true)
}

/// Reserves what the graph may need, calls the driver, and corrects the charge. What an upload took can be given back; a
/// launch stays, and is charged even where it is more than fits.
fn with_memory(
    exec: CUgraphExec,
    stream: (CUstream, Default),
    go: impl FnOnce() -> Result<CUresult, Aside>,
    undoable: bool,
) -> Result<CUresult, Aside> {
    let Ok(process) = process::limited() else {
        return go();
    };
    let graphs = &process.memory.graphs;
    let Some(needs) = graphs.needs(exec) else {
        return go();
    };
    if relaxed(|| is_capturing(stream)) {
        return go();
    }
    let has = Some(exec).filter(|exec| graphs.is_backed(process, *exec));
    let under_way = match graphs.begin(process, &needs, has, stream.0) {
        Some(under_way) => under_way,
        // It may fit nevertheless, if the driver puts nodes into pages together: what can be undone tells.
        None => {
            let Some(packed) = graphs.begin(process, &needs.packed(), None, stream.0) else {
                return refused(process, &needs);
            };
            if !undoable {
                let answer = relaxed(|| upload_ahead(exec, stream));
                if !packed.end() || answer == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                    undo(process, &needs);
                    return refused(process, &needs);
                }
                graphs.backed(process, exec);
                match graphs.begin(process, &needs, Some(exec), stream.0) {
                    Some(under_way) => under_way,
                    None => return refused(process, &needs),
                }
            } else {
                packed
            }
        }
    };
    let answer = go();
    if answer == Ok(CUresult::CUDA_SUCCESS) {
        // Before others may begin again: they must see that the memory is this graph's now.
        graphs.backed(process, exec);
        if !undoable {
            graphs.launched(process, &needs, stream.0);
        }
    }
    let fits = under_way.end();
    if answer != Ok(CUresult::CUDA_SUCCESS) {
        return answer;
    }
    if undoable && !fits {
        undo(process, &needs);
        return refused(process, &needs);
    }
    answer
}

fn refused(process: &Process, needs: &Needs) -> Result<CUresult, Aside> {
    for (device, bytes) in needs.on(process) {
        device.denied(bytes);
    }
    Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

/// Has the driver give a graph its memory ahead of its launch.
fn upload_ahead(exec: CUgraphExec, (stream, default): (CUstream, Default)) -> CUresult {
    // SAFETY: the graph and the stream of the program's own launch.
    unsafe {
        match default {
            Default::Legacy => call!(cuGraphUpload(exec, stream)),
            Default::PerThread => call!(cuGraphUpload_ptsz(exec, stream)),
        }
    }
}

/// Gives back what an upload has taken.
fn undo(process: &Process, needs: &Needs) {
    for (device, _) in needs.on(process) {
        process.memory.graphs.trim(device);
    }
}

/// Charges what the driver holds on the devices of a graph.
fn settle_all(process: &Process, needs: &Needs) {
    for (device, _) in needs.on(process) {
        process.memory.graphs.settle(device);
    }
}
