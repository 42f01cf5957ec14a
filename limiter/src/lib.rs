//! GPU time: how launches are charged to the group's bucket, and wait where it is empty.
//!
//! `docs/gpu-time.md` says what is charged and why each number is what it is. Here: [`engine`] is the way
//! of a launch, [`gate`] where it waits, [`costs`] what work costs, [`spans`], [`markers`] and [`settler`] how that
//! is measured, [`flight`] how much may be in flight. All of it sees the driver and the clock through [`Gpu`]: the shim puts the
//! real ones behind it, tests and the model a GPU in virtual time.
//!
//! Part of the preloaded library: nothing here allocates, locks, or keeps what would have to be dropped.

#[cfg(test)]
mod closed_loop;
mod cost;
mod costs;
mod device;
mod endings;
mod engine;
mod flight;
mod gate;
mod gpu;
mod marker;
mod markers;
#[cfg(test)]
mod model;
mod relief;
mod settler;
mod settling;
mod shape;
mod siblings;
mod spans;
mod terms;
mod thread;
mod try_lock;
mod turns;
#[cfg(test)]
mod under_daemon;
mod union;
mod verdict;
mod waits;

pub use costs::Costs;
pub use device::Device;
pub use engine::{Engine, UNKNOWN, UNLIMITED};
pub use gpu::{Context, Event, Gpu, Passed};
pub use shape::{Geometry, Stream, Work, graph_shape};
pub use terms::{Rule, Seat, Terms};
pub use thread::Thread;
