//! Pairs of events around launches, and the fixed pool that they live in.
//!
//! A marker belongs to one thread while it is open, then to whoever settles it. Its state word says who
//! may touch the rest; every change of hands is a compare-and-swap, so that a stream or context that is
//! being destroyed can take markers away from under anybody. A ticket in the word tells a marker from
//! its later lives.

use quota_abi::sync::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Relaxed, Release},
};

use crate::gpu::Context;
use crate::marker::{Handle, Marker, State};
use crate::shape::Stream;

/// Markers of a process. Work in flight is bounded and markers lie a millisecond apart, so this is plenty; a
/// launch that finds none is charged its estimate for good.
pub(crate) const MARKERS: usize = 128;

/// All markers of a process.
#[derive(Debug)]
pub(crate) struct Markers {
    pool: [Marker; MARKERS],
    /// Where the search for a free one begins: behind the youngest.
    next: AtomicUsize,
    /// One bit for each that is pending.
    waiting: [AtomicU64; MARKERS / 64],
}

const _: () = assert!(MARKERS == 128, "`pending` reads two words");

impl Markers {
    pub(crate) const fn new() -> Self {
        Self {
            pool: [const { Marker::new() }; MARKERS],
            next: AtomicUsize::new(0),
            waiting: [const { AtomicU64::new(0) }; MARKERS / 64],
        }
    }

    /// The marker behind a handle; its life may have ended.
    pub(crate) fn get(&self, handle: Handle) -> Option<&Marker> {
        self.pool.get(handle.index()?)
    }

    /// Takes a free marker for a span on `stream`.
    pub(crate) fn hold(&self, stream: Stream, device: usize) -> Option<(Handle, &Marker)> {
        let first = self.next.load(Relaxed);
        for step in 0..MARKERS {
            let index = (first + step) % MARKERS;
            let marker = self.pool.get(index)?;
            let word = marker.word();
            if word & 0xff != State::Free as u64 {
                continue;
            }
            // 48 bits of ticket; index and ticket share a handle's word.
            let ticket = ((word >> 8) + 1) & ((1 << 48) - 1);
            let held = ticket << 8 | State::Held as u64;
            if marker
                .state
                .compare_exchange(word, held, AcqRel, Relaxed)
                .is_err()
            {
                continue;
            }
            self.next.store((index + 1) % MARKERS, Relaxed);
            marker.stream.store(stream.key(), Relaxed);
            marker.device.store(device, Relaxed);
            marker.points.store(0, Relaxed);
            marker.idle.store(0, Relaxed);
            marker.interrupted.store(0, Relaxed);
            marker.head.store(0, Relaxed);
            marker.held.store(0, Relaxed);
            marker.let_go.store(0, Relaxed);
            marker.overdue.store(0, Relaxed);
            return Some((Handle::new(index, ticket), marker));
        }
        None
    }

    /// The first event was recorded at `now`.
    pub(crate) fn open(&self, handle: Handle, now: u64) -> bool {
        let Some(marker) = self.get(handle) else {
            return false;
        };
        marker.opened.store(now, Relaxed);
        marker.pass(handle.ticket(), State::Held, State::Open)
    }

    /// The owner is about to record the last event; false if the marker was taken away.
    pub(crate) fn begin_closing(&self, handle: Handle) -> bool {
        self.get(handle)
            .is_some_and(|marker| marker.pass(handle.ticket(), State::Open, State::Closing))
    }

    /// The last event was recorded at `now`.
    pub(crate) fn closed(&self, handle: Handle, now: u64) {
        if let Some(marker) = self.get(handle) {
            marker.closed.store(now, Relaxed);
            marker.pass(handle.ticket(), State::Closing, State::Pending);
            self.note(handle, true);
        }
    }

    /// Gives a marker up, in whichever of its owner's states it is.
    pub(crate) fn free(&self, handle: Handle) {
        if let Some(marker) = self.get(handle) {
            let _ = [State::Held, State::Open, State::Closing]
                .into_iter()
                .any(|state| marker.pass(handle.ticket(), state, State::Free));
        }
    }

    /// Pending markers of a device, roughly oldest first. Only who has the device's settler may free them.
    pub(crate) fn pending(&self, device: usize) -> impl Iterator<Item = (Handle, &Marker)> {
        self.all_pending()
            .filter(move |(_, marker)| marker.device() == device)
    }

    /// Pending markers of all devices.
    pub(crate) fn all_pending(&self) -> impl Iterator<Item = (Handle, &Marker)> {
        self.pending_from(self.next.load(Relaxed))
    }

    /// The same, beginning somewhere else.
    pub(crate) fn pending_from(&self, first: usize) -> impl Iterator<Item = (Handle, &Marker)> {
        let [low, high] = &self.waiting;
        let bits = u128::from(high.load(Relaxed)) << 64 | u128::from(low.load(Relaxed));
        let mut bits = bits.rotate_right(u32::try_from(first).unwrap_or(0));
        core::iter::from_fn(move || {
            let step = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (step < MARKERS).then_some((first + step) % MARKERS)
        })
        .filter_map(move |index| {
            let marker = self.pool.get(index)?;
            let word = marker.word();
            (word & 0xff == State::Pending as u64).then(|| (Handle::new(index, word >> 8), marker))
        })
    }

    /// Where the oldest lies, if any is left of its age.
    pub(crate) fn oldest(&self) -> usize {
        self.next.load(Relaxed)
    }

    /// Notes that a marker is pending, or not any more. The state word decides; this only says where to look.
    fn note(&self, handle: Handle, pending: bool) {
        let Some(index) = handle.index() else {
            return;
        };
        if let Some(word) = self.waiting.get(index / 64) {
            let bit = 1 << (index % 64);
            if pending {
                word.fetch_or(bit, Relaxed);
            } else {
                word.fetch_and(!bit, Relaxed);
            }
        }
    }

    /// Whether nothing is being measured.
    pub(crate) fn all_free(&self) -> bool {
        self.pool.iter().all(|marker| marker.is(State::Free))
    }

    /// A pending marker is done with. The caller has the device's settler.
    pub(crate) fn settled(&self, handle: Handle) {
        if let Some(marker) = self.get(handle) {
            self.note(handle, false);
            marker.pass(handle.ticket(), State::Pending, State::Free);
        }
    }

    /// Takes away what is open on a stream, before it is destroyed. `wait` is called while another thread
    /// records on it; it says whether to go on waiting.
    pub(crate) fn drop_stream(&self, stream: Stream, mut wait: impl FnMut() -> bool) {
        for marker in &self.pool {
            while marker.stream.load(Relaxed) == stream.key()
                && (marker.is(State::Closing) || marker.is(State::Held))
                && wait()
            {}
            let word = marker.word();
            if word & 0xff == State::Open as u64 && marker.stream.load(Relaxed) == stream.key() {
                marker.pass(word >> 8, State::Open, State::Free);
            }
        }
    }

    /// Takes away everything that belongs to a context (or to any), before it goes; `each` gets the
    /// markers' estimates of pending work and their events. The caller has the settlers of all devices.
    pub(crate) fn drop_context(
        &self,
        context: Option<Context>,
        mut wait: impl FnMut() -> bool,
        mut each: impl FnMut(&Marker, bool),
    ) {
        for marker in &self.pool {
            let concerned = |marker: &Marker| {
                let owner = marker.context();
                owner.0 != 0 && context.is_none_or(|one| owner == one)
            };
            while concerned(marker)
                && (marker.is(State::Closing) || marker.is(State::Held))
                && wait()
            {}
            let word = marker.word();
            let ticket = word >> 8;
            for state in [State::Free, State::Open, State::Pending] {
                if concerned(marker) && marker.pass(ticket, state, State::Held) {
                    each(marker, state == State::Pending);
                    marker.strip();
                    // SYNC POINT: pairs with the acquire in `word`.
                    marker
                        .state
                        .store((ticket + 1) << 8 | State::Free as u64, Release);
                    break;
                }
            }
        }
    }

    /// Forgets everything in a forked child: the events are the parent's.
    pub(crate) fn reset(&self) {
        for marker in &self.pool {
            marker.strip();
            let ticket = (marker.word() >> 8) + 1;
            marker.state.store(ticket << 8, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Event;
    use crate::verdict::POINTS;

    const STREAM: Stream = Stream {
        handle: 0x7000,
        per_thread: false,
    };

    fn open(markers: &Markers) -> Handle {
        let (handle, marker) = markers.hold(STREAM, 3).unwrap();
        marker.equip(Context(9), Event(1), Event(2));
        assert!(markers.open(handle, 100));
        handle
    }

    #[test]
    fn one_life() {
        let markers = Markers::new();
        let handle = open(&markers);
        assert_eq!(markers.pending(3).count(), 0);
        assert!(markers.begin_closing(handle));
        markers.closed(handle, 350);
        let (found, marker) = markers.pending(3).next().unwrap();
        assert_eq!((found, marker.closed()), (handle, 250));
        assert_eq!(markers.pending(2).count(), 0);
        markers.settled(handle);
        assert_eq!(markers.pending(3).count(), 0);
        assert!(!markers.begin_closing(handle), "its life is over");
    }

    #[test]
    fn the_pool_is_bounded_and_reused() {
        let markers = Markers::new();
        let handles: Vec<_> = (0..MARKERS).map(|_| open(&markers)).collect();
        assert!(markers.hold(STREAM, 0).is_none());
        markers.free(handles[5]);
        assert!(markers.hold(STREAM, 0).is_some());
    }

    #[test]
    fn a_destroyed_stream_takes_open_markers_with_it() {
        let markers = Markers::new();
        let (lost, pending) = (open(&markers), open(&markers));
        assert!(markers.begin_closing(pending));
        let mut waited = 0;
        markers.drop_stream(STREAM, || {
            waited += 1;
            if waited == 3 {
                markers.closed(pending, 200);
            }
            true
        });
        assert_eq!(waited, 3, "waits for a recording under way");
        assert!(!markers.begin_closing(lost));
        assert_eq!(markers.pending(3).count(), 1);
    }

    #[test]
    fn a_destroyed_context_takes_everything_with_it() {
        let markers = Markers::new();
        let (lost, pending) = (open(&markers), open(&markers));
        assert!(markers.begin_closing(pending));
        markers.closed(pending, 200);
        let mut seen = Vec::new();
        markers.drop_context(Some(Context(8)), || true, |_, pending| seen.push(pending));
        assert!(seen.is_empty(), "another context");
        markers.drop_context(Some(Context(9)), || true, |_, pending| seen.push(pending));
        seen.sort_unstable();
        assert_eq!(seen, [false, true]);
        assert!(!markers.begin_closing(lost));
        assert_eq!(markers.pending(3).count(), 0);
        assert!(markers.pool.iter().all(|marker| marker.begin().is_none()));
    }

    #[test]
    fn a_full_list_of_moments_keeps_the_first() {
        let markers = Markers::new();
        let handle = open(&markers);
        let marker = markers.get(handle).unwrap();
        for step in 1..=20 {
            marker.mark(100 + step, i64::try_from(step).unwrap());
        }
        let mut points = [(0, 0); POINTS];
        assert_eq!(marker.points(&mut points), POINTS);
        assert_eq!(points[0], (1, 1));
        assert_eq!(points[POINTS - 1], (20, 20));
    }
}
