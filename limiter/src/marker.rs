//! One pair of events, and whose it is.

use quota_abi::sync::{
    AtomicI64, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use crate::gpu::{Context, Event};
use crate::shape::Work;
use crate::verdict::POINTS;

/// Who may touch a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum State {
    /// Nobody's.
    Free = 0,
    /// Somebody's who prepares or clears it.
    Held = 1,
    /// The first event is recorded; launches follow.
    Open = 2,
    /// The owner is recording the last event at this moment.
    Closing = 3,
    /// Both are recorded.
    Pending = 4,
}

/// A life of a marker: index and ticket. 0 is none, so that zeroed memory holds none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handle(u64);

impl Handle {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn new(index: usize, ticket: u64) -> Self {
        Self((ticket << 8) | (index as u64 + 1))
    }

    pub(crate) fn index(self) -> Option<usize> {
        usize::try_from(self.0 & 0xff).ok()?.checked_sub(1)
    }

    pub(crate) fn ticket(self) -> u64 {
        self.0 >> 8
    }
}

/// A span of launches on one stream. All zero is a free one without events.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Marker {
    pub(crate) state: AtomicU64,
    context: AtomicUsize,
    begin: AtomicUsize,
    end: AtomicUsize,
    pub(crate) stream: AtomicUsize,
    pub(crate) device: AtomicUsize,
    pub(crate) opened: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) estimate: AtomicI64,
    pub(crate) launches: AtomicU32,
    pub(crate) points: AtomicU32,
    pub(crate) idle: AtomicU32,
    pub(crate) interrupted: AtomicU32,
    /// Since when the host knows that nothing is ahead of it on its stream; 0: not yet.
    pub(crate) head: AtomicU64,
    /// For how long launches were held while it was there, ns; when the last one was let go that it can have waited
    /// for; and whether it was overdue then.
    pub(crate) held: AtomicI64,
    pub(crate) let_go: AtomicU64,
    pub(crate) overdue: AtomicU32,
    moments: [AtomicI64; POINTS],
    launched: [AtomicI64; POINTS],
    /// The shape whose cost the span shows: the only one in it, or the only one not measured before.
    pub(crate) shape: AtomicU64,
    pub(crate) function: AtomicU64,
    pub(crate) size: AtomicU64,
    /// How many launches were of that shape, and what they were estimated at.
    pub(crate) shape_launches: AtomicU32,
    pub(crate) shape_estimate: AtomicI64,
}

impl Marker {
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            context: AtomicUsize::new(0),
            begin: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            stream: AtomicUsize::new(0),
            device: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            estimate: AtomicI64::new(0),
            launches: AtomicU32::new(0),
            points: AtomicU32::new(0),
            idle: AtomicU32::new(0),
            interrupted: AtomicU32::new(0),
            head: AtomicU64::new(0),
            held: AtomicI64::new(0),
            let_go: AtomicU64::new(0),
            overdue: AtomicU32::new(0),
            moments: [const { AtomicI64::new(0) }; POINTS],
            launched: [const { AtomicI64::new(0) }; POINTS],
            shape: AtomicU64::new(0),
            function: AtomicU64::new(0),
            size: AtomicU64::new(0),
            shape_launches: AtomicU32::new(0),
            shape_estimate: AtomicI64::new(0),
        }
    }

    pub(crate) fn begin(&self) -> Option<Event> {
        event(&self.begin)
    }

    pub(crate) fn end(&self) -> Option<Event> {
        event(&self.end)
    }

    pub(crate) fn context(&self) -> Context {
        Context(self.context.load(Relaxed))
    }

    /// The key of its stream.
    pub(crate) fn stream(&self) -> usize {
        self.stream.load(Relaxed)
    }

    pub(crate) fn device(&self) -> usize {
        self.device.load(Relaxed)
    }

    /// When the host recorded the first event.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// When the host recorded the last one, after the first.
    pub(crate) fn closed(&self) -> i64 {
        since(self.opened(), self.closed.load(Relaxed))
    }

    /// Puts another event in place of the first one, and returns that.
    pub(crate) fn swap_begin(&self, other: Option<Event>) -> Option<Event> {
        let other = other.map_or(0, |event| event.0);
        Some(Event(self.begin.swap(other, Relaxed))).filter(|event| event.0 != 0)
    }

    /// Gives it its events; they belong to `context`.
    pub(crate) fn equip(&self, context: Context, begin: Event, end: Event) {
        self.context.store(context.0, Relaxed);
        self.begin.store(begin.0, Relaxed);
        self.end.store(end.0, Relaxed);
    }

    /// Takes its events away.
    pub(crate) fn strip(&self) -> [Option<Event>; 2] {
        let events = [self.begin(), self.end()];
        self.begin.store(0, Relaxed);
        self.end.store(0, Relaxed);
        self.context.store(0, Relaxed);
        events
    }

    /// Nothing of this process was in flight when the span was opened.
    pub(crate) fn found_idle(&self) {
        self.idle.store(1, Relaxed);
    }

    /// Whether the GPU had nothing to do for this process when the span was opened, and the host's times are exact.
    pub(crate) fn was_idle(&self) -> bool {
        self.idle.load(Relaxed) != 0 && self.interrupted.load(Relaxed) == 0
    }

    /// It took the host long to record one of the events.
    pub(crate) fn was_interrupted(&self) {
        self.interrupted.store(1, Relaxed);
    }

    /// The host goes on launching: remembers when, and what had been launched until then.
    pub(crate) fn mark(&self, now: u64, launched: i64) {
        let count = self.points.load(Relaxed) as usize;
        // A full list loses its last entry: two stretches then count as one, which proves less.
        let index = count.min(POINTS - 1);
        if let (Some(moment), Some(before)) = (self.moments.get(index), self.launched.get(index)) {
            moment.store(since(self.opened(), now), Relaxed);
            before.store(launched, Relaxed);
        }
        if count < POINTS {
            self.points.fetch_add(1, Relaxed);
        }
    }

    /// What [`Self::mark`] remembered.
    pub(crate) fn points(&self, into: &mut [(i64, i64); POINTS]) -> usize {
        for (point, (moment, launched)) in
            into.iter_mut().zip(self.moments.iter().zip(&self.launched))
        {
            *point = (moment.load(Relaxed), launched.load(Relaxed));
        }
        self.points.load(Relaxed) as usize
    }

    /// Takes note of the shape whose cost the span will show.
    pub(crate) fn about(&self, work: &Work) {
        self.shape.store(work.shape, Relaxed);
        self.function.store(work.function, Relaxed);
        self.size.store(work.size, Relaxed);
    }

    pub(crate) fn word(&self) -> u64 {
        // SYNC POINT: pairs with the release in `pass`: the fields belong to whoever sees the state.
        self.state.load(Acquire)
    }

    pub(crate) fn is(&self, state: State) -> bool {
        self.word() & 0xff == state as u64
    }

    /// Hands the marker from one state to another within one life; false if it is not in the first.
    pub(crate) fn pass(&self, ticket: u64, from: State, to: State) -> bool {
        self.state
            .compare_exchange(
                ticket << 8 | from as u64,
                ticket << 8 | to as u64,
                AcqRel,
                Relaxed,
            )
            .is_ok()
    }
}

fn event(word: &AtomicUsize) -> Option<Event> {
    Some(Event(word.load(Relaxed))).filter(|event| event.0 != 0)
}

fn since(opened: u64, now: u64) -> i64 {
    i64::try_from(now.saturating_sub(opened)).unwrap_or(i64::MAX)
}
