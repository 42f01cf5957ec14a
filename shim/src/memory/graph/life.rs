//! Executable graphs from their making to their end, and trims.

use cuda_headers::driver::{CUdevice, CUgraph, CUgraphExec, CUresult, CUstream};
use quota_abi::sync::Ordering;

use super::needs::{self, Needs};
use super::{ANY, refused, settle_all, undo};
use crate::driver::{call, relaxed};
use crate::guard::Aside;
use crate::process::{self, Process};

/// `cuGraphInstantiate` in all its forms: adds up the memory nodes. One that also `uploads` takes their memory already.
pub(crate) fn instantiate(
    exec: *mut CUgraphExec,
    graph: CUgraph,
    uploads: bool,
    call: &impl Fn() -> CUresult,
) -> Result<CUresult, Aside> {
    if exec.is_null() {
        return Err(Aside::DriverDecides);
    }
    let process = process::limited()?;
    let graphs = &process.memory.graphs;
    // Known before only where it is needed before: the driver has then seen that it is a graph.
    let early = uploads
        .then(|| needs::of(process, graph))
        .filter(|needs| !needs.are_none());
    let none = CUstream(core::ptr::null_mut());
    let under_way = match &early {
        None => None,
        Some(needs) => match graphs.begin(process, needs, None, none) {
            // It may fit nevertheless, if the driver puts nodes into pages together.
            None => match graphs.begin(process, &needs.packed(), None, none) {
                None => return refused(process, needs),
                begun => begun,
            },
            begun => begun,
        },
    };
    let answer = call();
    let fits = under_way.is_none_or(super::account::UnderWay::end);
    if answer != CUresult::CUDA_SUCCESS {
        return Ok(answer);
    }
    // SAFETY: the driver has just written it for its caller.
    let made = unsafe { exec.read() };
    if !fits {
        take_back(process, made, early.as_ref());
        // SAFETY: as above; the caller must not use what is gone.
        unsafe { exec.write(CUgraphExec(core::ptr::null_mut())) };
        return refused(process, &early.unwrap_or_default());
    }
    let needs = early.unwrap_or_else(|| needs::of(process, graph));
    if !needs.are_none() {
        graphs.add(made, needs);
        ANY.store(true, Ordering::Relaxed);
        if uploads {
            graphs.backed(process, made);
        }
    }
    Ok(answer)
}

/// Undoes an instantiation that has taken more than fits.
fn take_back(process: &Process, made: CUgraphExec, needs: Option<&Needs>) {
    // SAFETY: an executable graph that nobody else has seen.
    let _ = relaxed(|| unsafe { call!(cuGraphExecDestroy(made)) });
    if let Some(needs) = needs {
        undo(process, needs);
    }
}

/// `cuGraphExecDestroy`: the driver says what it gives back. Forgotten before it is called, because afterwards another
/// thread may get the same handle.
pub(crate) fn destroy(exec: CUgraphExec, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    if !super::any() {
        return Ok(call());
    }
    let process = process::limited()?;
    let graphs = &process.memory.graphs;
    let known = graphs.remove(exec);
    let answer = call();
    if let Some(needs) = known {
        if answer == CUresult::CUDA_SUCCESS {
            settle_all(process, &needs);
        } else {
            graphs.add(exec, needs);
        }
    }
    Ok(answer)
}

/// `cuGraphExecUpdate`: the executable graph is another one now.
pub(crate) fn update(exec: CUgraphExec, graph: CUgraph, answer: CUresult) {
    if !super::any() || answer != CUresult::CUDA_SUCCESS {
        return;
    }
    if let Ok(process) = process::limited()
        && process.memory.graphs.needs(exec).is_some()
    {
        process.memory.graphs.add(exec, needs::of(process, graph));
    }
}

/// `cuDeviceGraphMemTrim`.
pub(crate) fn trim(device: CUdevice, call: &impl Fn() -> CUresult) -> Result<CUresult, Aside> {
    let process = process::limited()?;
    let answer = call();
    if answer == CUresult::CUDA_SUCCESS
        && let Some(device) = process.devices.get(device)
    {
        process.memory.graphs.settle(device);
    }
    Ok(answer)
}
