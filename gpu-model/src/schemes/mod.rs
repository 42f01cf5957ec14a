//! What holds a process back: the engine, nothing, or another scheme to compare with.

use limiter::Engine;

use crate::host::Host;

/// What a launch goes through.
pub enum Limiter {
    /// Nothing.
    None,
    /// This project's.
    Engine(&'static Engine),
    /// Another scheme.
    Other(Box<dyn Scheme>),
}

/// Another way to limit.
pub trait Scheme {
    /// A launch of so many blocks, by `put`.
    fn launch(&self, host: &Host<'_>, blocks: u64, put: &dyn Fn());
    /// A launch of a graph.
    fn launch_graph(&self, host: &Host<'_>, put: &dyn Fn());
}
