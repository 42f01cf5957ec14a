//! What holds a process back: the engine, nothing, or another scheme to compare with.

mod blocks;
mod wall;

use std::rc::Rc;

use limiter::Engine;

use crate::host::Host;

pub use blocks::Blocks;
pub use wall::Wall;

/// What a launch goes through.
pub enum Limiter {
    /// Nothing.
    None,
    /// This project's.
    Engine(&'static Engine),
    /// Another scheme; what its container's processes share.
    Other(Rc<dyn Scheme>),
}

/// Another way to limit. One is shared by the processes of a container.
pub trait Scheme {
    /// A launch by `put` on so many blocks; a graph says none.
    fn launch(&self, host: &Host<'_>, stream: usize, work: Launch, put: &dyn Fn());
    /// A process of the container is there: its contexts by device.
    fn joins(&self, contexts: &[usize]);
    /// The program waits for the GPU, or has waited.
    fn rests(&self, host: &Host<'_>);
}

/// What a scheme sees of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The function or graph.
    pub name: usize,
    /// Blocks; `None`: a graph.
    pub blocks: Option<u64>,
}
