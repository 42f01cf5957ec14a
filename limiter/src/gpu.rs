//! What the engine needs of a driver and a clock. The real one is in the shim; tests and the model put a GPU in
//! virtual time behind it.

use quota_abi::sync::AtomicU32;

use crate::shape::Stream;

/// An event of the driver, with timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event(pub usize);

/// A context of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub usize);

/// How far an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// The GPU has passed it.
    Yes,
    /// Not yet.
    No,
    /// The driver has no answer: the event was captured, or its context is broken.
    Never,
}

/// Driver and clock.
pub trait Gpu {
    /// Runs calls of our own: those below, except for `now`, `sleep_until` and `current`, are made inside.
    fn quietly<R>(&self, calls: impl FnOnce() -> R) -> R;
    /// Nanoseconds of the host's monotonic clock.
    fn now(&self) -> u64;
    /// Sleeps until `at`, or until `word` is no longer what was `seen`.
    fn sleep_until(&self, at: u64, word: &AtomicU32, seen: u32);
    /// Wakes whoever sleeps on a word, without changing it.
    fn ring(&self, word: &AtomicU32);
    /// The calling thread's context, and the index of its device in the region.
    fn current(&self) -> Option<(Context, usize)>;
    /// Whether a stream is being captured, or cannot be used because another one is.
    fn captures(&self, stream: Stream) -> bool;
    /// A new event in the calling thread's context.
    fn create(&self) -> Option<Event>;
    /// Gives an event back.
    fn destroy(&self, event: Event);
    /// Records an event; false if the driver refused.
    fn record(&self, event: Event, stream: Stream) -> bool;
    /// Whether the GPU has passed an event.
    fn passed(&self, event: Event) -> Passed;
    /// Nanoseconds from one event to another.
    fn elapsed(&self, from: Event, to: Event) -> Option<i64>;
}
