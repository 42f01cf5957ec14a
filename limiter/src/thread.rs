//! What a thread keeps for itself: GPU time taken and not spent, and its open spans.

use core::cell::Cell;

use crate::gpu::Context;
use crate::marker::Handle;
use crate::shape::{Stream, Work};

/// Streams that a thread keeps apart. With more of them in use at once, some spans are given up early.
pub(crate) const SPANS: usize = 1 << SPAN_BITS;
const SPAN_BITS: u32 = 3;

/// No epoch in which anything is limited.
pub(crate) const NEVER: u64 = crate::engine::UNKNOWN;

/// Launches that one batch pays for at most, however cheap they are.
pub(crate) const LAUNCHES: u32 = 1024;

/// A host that takes this much longer than the work that it launches is not ahead of the GPU, ns.
const SLACK: i64 = 20_000;

/// Launches of one thread on one stream since the first event of its marker was recorded.
///
/// What each launch looks at comes first, and lies in one line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Span {
    /// [`Stream::key`]; 0: none.
    pub(crate) stream: Cell<usize>,
    pub(crate) estimate: Cell<i64>,
    /// The shape of all launches; 0 once there are several.
    pub(crate) shape: Cell<u64>,
    pub(crate) launches: Cell<u32>,
    pub(crate) per_thread: Cell<bool>,
    pub(crate) marker: Cell<Handle>,
    /// The launch that opened the span; [`Work::NONE`] if it is not known.
    first: Cell<Work>,
    /// A shape in it that was hardly measured yet, or [`Work::NONE`]; the numbers are 0 if there are several such.
    young: Cell<Work>,
    pub(crate) young_launches: Cell<u32>,
    pub(crate) young_estimate: Cell<i64>,
    /// Whether launches here are joined to the ones before them.
    pub(crate) joins: Cell<u32>,
    /// Up to a power of two, so that finding one is a shift.
    unused: [u64; 8],
}

const _: () = assert!(size_of::<Span>() == 256);

impl Span {
    const fn new() -> Self {
        Self {
            stream: Cell::new(0),
            estimate: Cell::new(0),
            shape: Cell::new(0),
            launches: Cell::new(0),
            per_thread: Cell::new(false),
            marker: Cell::new(Handle::NONE),
            first: Cell::new(Work::NONE),
            young: Cell::new(Work::NONE),
            young_launches: Cell::new(0),
            young_estimate: Cell::new(0),
            joins: Cell::new(0),
            unused: [0; 8],
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.marker.get() != Handle::NONE
    }

    /// The launch that opened it.
    pub(crate) fn first(&self) -> Option<Work> {
        self.first.get().known()
    }

    /// Notes the launch that opens it.
    pub(crate) fn begin_with(&self, work: &Work) {
        self.first.set(*work);
    }

    /// A shape in it that was hardly measured yet.
    pub(crate) fn young(&self) -> Option<Work> {
        self.young.get().known()
    }

    /// Forgets the launches so far.
    pub(crate) fn clear(&self) {
        self.marker.set(Handle::NONE);
        self.estimate.set(0);
        self.launches.set(0);
        self.shape.set(0);
        self.first.set(Work::NONE);
        self.young.set(Work::NONE);
        self.young_launches.set(0);
        self.young_estimate.set(0);
    }

    /// The stream, to record on: a default stream is 0 in its own form of the function.
    pub(crate) fn stream(&self) -> Stream {
        let per_thread = self.per_thread.get();
        let key = self.stream.get();
        let default = Stream {
            handle: 0,
            per_thread,
        };
        if key == default.key() {
            default
        } else {
            Stream {
                handle: key,
                per_thread,
            }
        }
    }

    /// Starts over for another stream.
    pub(crate) fn assign(&self, stream: Stream) {
        self.clear();
        self.stream.set(stream.key());
        self.per_thread.set(stream.per_thread);
        self.joins.set(0);
    }

    #[inline]
    pub(crate) fn add(&self, shape: u64, cost: i64) {
        let launches = self.launches.get();
        if self.shape.get() != shape {
            self.shape.set(if launches == 0 { shape } else { 0 });
        }
        self.launches.set(launches.wrapping_add(1));
        self.estimate.set(self.estimate.get() + cost);
    }

    /// Notes a launch of a shape that was hardly measured yet.
    pub(crate) fn add_young(&self, work: &Work, cost: i64) {
        match self.young() {
            None => {
                self.young.set(*work);
                self.young_launches.set(1);
                self.young_estimate.set(cost);
            }
            Some(young) if young.shape == work.shape && self.young_launches.get() > 0 => {
                self.young_launches.set(self.young_launches.get() + 1);
                self.young_estimate.set(self.young_estimate.get() + cost);
            }
            Some(_) => {
                self.young_launches.set(0);
                self.young_estimate.set(0);
            }
        }
    }

    /// Takes the last launch back: the driver refused it.
    #[inline]
    pub(crate) fn take_back(&self, cost: i64) {
        self.launches.set(self.launches.get().saturating_sub(1));
        self.estimate.set((self.estimate.get() - cost).max(0));
    }
}

/// One thread. No destructor: libraries launch from the destructors of others. A thread that ends loses
/// its batch. A new one is all zero, since it lies in memory that nobody has prepared; and what each launch looks at comes first.
#[derive(Debug)]
#[repr(C)]
pub struct Thread {
    /// The engine's epoch under which launches may be spent from the batch without further questions, or
    /// [`NEVER`].
    pub(crate) epoch: Cell<u64>,
    /// GPU time taken and not spent, ns.
    pub(crate) batch: Cell<i64>,
    /// Launches until the next refill at the latest.
    pub(crate) left: Cell<u32>,
    /// The epoch under which the rest was looked up.
    pub(crate) seen: Cell<u64>,
    /// One more than the index of the limited device that the batch is for; 0: unknown.
    pub(crate) device: Cell<usize>,
    pub(crate) context: Cell<usize>,
    /// The current device has no limit.
    pub(crate) free: Cell<bool>,
    pub(crate) spans: [Span; SPANS],
    /// How many of them the last wait has closed.
    pub(crate) spans_closed: Cell<u32>,
    /// When the thread last left a refill, with how much, after a launch of which price.
    left_at: Cell<u64>,
    left_with: Cell<i64>,
    left_after: Cell<i64>,
    /// [`Self::left`] when launches were last counted.
    left_from: Cell<u32>,
    /// How much it takes at once: grows with use, so that a thread that ends soon loses little.
    appetite: Cell<i64>,
    dice: Cell<u32>,
}

impl Default for Thread {
    fn default() -> Self {
        Self::new()
    }
}

impl Thread {
    /// One that has nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            epoch: Cell::new(NEVER),
            batch: Cell::new(0),
            left: Cell::new(0),
            seen: Cell::new(NEVER),
            device: Cell::new(0),
            context: Cell::new(0),
            free: Cell::new(false),
            spans: [const { Span::new() }; SPANS],
            spans_closed: Cell::new(0),
            left_at: Cell::new(0),
            left_with: Cell::new(0),
            left_after: Cell::new(0),
            left_from: Cell::new(0),
            appetite: Cell::new(0),
            dice: Cell::new(0),
        }
    }

    /// The place for a stream's span; another stream may have it.
    #[inline]
    pub(crate) fn span(&self, key: usize) -> &Span {
        // Handles are addresses: the upper bits of the product depend on all of theirs.
        let spread = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (spread >> (64 - SPAN_BITS)) as usize;
        self.spans.get(index).unwrap_or(&self.spans[0])
    }

    /// Whether what it keeps is for this context.
    pub fn is_in(&self, context: Option<Context>) -> bool {
        context.is_some_and(|context| context.0 == self.context.get())
    }

    /// The next launch asks for context and device again.
    pub fn forget_context(&self) {
        self.epoch.set(NEVER);
        self.seen.set(NEVER);
    }

    /// Pays for one call out of the batch.
    #[inline]
    pub(crate) fn pay(&self, cost: i64) {
        self.batch.set(self.batch.get() - cost);
        self.left.set(self.left.get().saturating_sub(1));
    }

    /// Undoes [`Self::pay`].
    #[inline]
    pub(crate) fn pay_back(&self, cost: i64) {
        self.batch.set(self.batch.get() + cost);
        self.left.set(self.left.get() + 1);
    }

    /// Pays for one launch of a span.
    #[inline]
    pub(crate) fn spend(&self, span: &Span, shape: u64, cost: i64) {
        self.pay(cost);
        span.add(shape, cost);
    }

    /// Undoes [`Self::spend`].
    #[inline]
    pub(crate) fn unspend(&self, span: &Span, cost: i64) {
        self.pay_back(cost);
        span.take_back(cost);
    }

    /// Begins a batch: `granted` more to spend.
    pub(crate) fn grant(&self, granted: i64) {
        self.batch.set(self.batch.get() + granted);
        self.left.set(LAUNCHES);
        self.left_from.set(LAUNCHES);
    }

    /// Gives the batch up.
    pub(crate) fn drop_batch(&self) {
        self.batch.set(0);
        self.left.set(0);
        self.left_from.set(0);
    }

    /// How many launches there were since this was last asked.
    pub(crate) fn count(&self) -> u32 {
        let left = self.left.get();
        self.left_from.replace(left).saturating_sub(left)
    }

    /// How much to take at once, of at most `batch`: twice as much each time, and never quite the same,
    /// so that refills do not always meet the same launch of a loop.
    pub(crate) fn appetite(&self, batch: i64) -> i64 {
        let appetite = self.appetite.get().max(2_500);
        self.appetite.set(appetite.saturating_mul(2).min(batch));
        appetite.min(batch) - appetite.min(batch) / 64 * i64::from(self.die())
    }

    /// Leaves a refill at `now` with a launch of `price`.
    pub(crate) fn leave(&self, now: u64, price: i64) {
        self.left_at.set(now);
        self.left_with.set(self.batch.get());
        self.left_after.set(price);
    }

    /// Whether it has since launched faster than the GPU works, by the estimates. If not, a span over
    /// several launches contains idle time.
    pub(crate) fn is_ahead(&self, now: u64) -> bool {
        let host = i64::try_from(now.saturating_sub(self.left_at.get())).unwrap_or(i64::MAX);
        let launched = self.left_with.get() - self.batch.get() + self.left_after.get();
        host <= launched.saturating_add(launched / 2).saturating_add(SLACK)
    }

    /// A number of 0 to 15 without a pattern.
    pub(crate) fn die(&self) -> u32 {
        let next = self
            .dice
            .get()
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        self.dice.set(next);
        next >> 28
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_thread_is_all_zero() {
        // SAFETY: cells of integers, of a boolean and of structures of such: zero is a value of each.
        let zero: Thread = unsafe { core::mem::zeroed() };
        assert_eq!(format!("{zero:?}"), format!("{:?}", Thread::new()));
    }
}
