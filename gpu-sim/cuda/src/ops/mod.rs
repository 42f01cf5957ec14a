//! What can be put into a stream or be a node of a graph: described once, carried out by both.

mod costs;
mod fill;
mod kernel;
mod transfer;

use std::ffi::c_void;
use std::sync::Arc;

use cuda_headers::driver::{CUdeviceptr, CUresult};

use crate::engine::{self, Effect, StreamKey, Work};
use crate::event::Event;
use crate::stream::{MemOp, Stream};
use crate::{capture, memory};

pub(crate) use costs::costs;
pub(crate) use fill::Fill;
pub(crate) use kernel::{Grid, Kernel};
pub(crate) use transfer::{Region, Side, Transfer};

/// A host function with its argument.
#[derive(Clone, Copy)]
pub(crate) struct HostCall {
    pub(crate) function: unsafe extern "C" fn(*mut c_void),
    pub(crate) data: *mut c_void,
}

// SAFETY: the application promises that its host function can run on the driver's thread.
unsafe impl Send for HostCall {}
// SAFETY: as above; nothing is reached through it but by the call.
unsafe impl Sync for HostCall {}

impl HostCall {
    fn call(self) {
        // SAFETY: the application's own function with its own argument.
        unsafe { (self.function)(self.data) };
    }
}

/// The address of a graph's allocation node: given up when no graph and no executable graph has the
/// node any more.
pub(crate) struct Reserved {
    pub(crate) address: CUdeviceptr,
    pub(crate) bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        memory::graph_forget(self.address);
    }
}

/// One piece of work.
#[derive(Clone)]
pub(crate) enum Op {
    Kernel(Arc<Kernel>),
    Transfer(Transfer),
    Fill(Fill),
    Host(HostCall),
    MemOps(Arc<Vec<MemOp>>),
    Record(Arc<Event>),
    Wait(Arc<Event>),
    /// Memory of a graph's allocation node comes into use, at this address.
    Allocate(Arc<Reserved>),
    /// It goes out of use.
    Free(CUdeviceptr),
    Empty,
}

/// GPU time, then perhaps an effect.
pub(crate) struct GpuWork {
    pub(crate) duration: u64,
    pub(crate) effect: Option<Effect>,
}

impl Op {
    /// The GPU time and effect of work that consists of nothing else.
    pub(crate) fn gpu_work(&self) -> Option<GpuWork> {
        match self {
            Self::Kernel(kernel) => kernel.gpu_work(),
            Self::Transfer(transfer) => transfer.gpu_work(),
            Self::Fill(fill) => Some(fill.gpu_work()),
            // An allocation gets its memory when its graph is launched.
            Self::Empty | Self::Allocate(_) => Some(GpuWork {
                duration: 0,
                effect: None,
            }),
            Self::Free(address) => Some(GpuWork {
                duration: 0,
                effect: Some(releasing(*address)),
            }),
            _ => None,
        }
    }

    /// Puts it into a stream.
    pub(crate) fn enqueue(&self, key: StreamKey) -> Result<(), CUresult> {
        match self {
            Self::Kernel(kernel) => kernel.enqueue(key),
            Self::Transfer(transfer) => transfer.enqueue(key),
            Self::Fill(fill) => fill.enqueue(key),
            Self::Host(call) => {
                let call = *call;
                engine::enqueue(key, Work::Host(Box::new(move || call.call())))
            }
            Self::MemOps(ops) => ops.iter().try_for_each(|op| op.enqueue(key)),
            Self::Record(event) => event.record(key),
            Self::Wait(event) => event.wait(key),
            Self::Free(address) => engine::enqueue(key, Work::Action(releasing(*address))),
            Self::Empty | Self::Allocate(_) => Ok(()),
        }
    }
}

fn releasing(address: CUdeviceptr) -> Effect {
    Box::new(move || {
        // Freed by the application meanwhile: nothing is left to do.
        let _ = memory::graph_release(address);
    })
}

/// Puts work into a stream, or, while that is captured, into the graph.
pub(crate) fn submit(stream: &Arc<Stream>, op: Op) -> Result<(), CUresult> {
    if capture::add(stream, &op)? {
        return Ok(());
    }
    op.enqueue(stream.key)
}

/// Puts GPU work with an optional effect into a stream.
fn enqueue_gpu_work(key: StreamKey, work: GpuWork) -> Result<(), CUresult> {
    let GpuWork { duration, effect } = work;
    let effects = effect
        .map(|effect| (duration, effect))
        .into_iter()
        .collect();
    engine::enqueue(key, Work::Kernel { duration, effects })
}
