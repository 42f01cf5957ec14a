//! The engine on a GPU in virtual time: closed loops of hours in seconds, the same on every machine.

#![expect(
    clippy::cast_possible_truncation,
    reason = "times of a few hours in floats of milliseconds, as the driver tells them"
)]

use core::cell::{Cell, RefCell};

use cuda_headers::driver::CUresult;
use quota_abi::bucket::{Bucket, Rate};
use quota_abi::policy::{Policy, Row, mode};
use quota_abi::sync::{AtomicU32, Ordering::Relaxed};

use crate::engine::Engine;
use crate::gpu::{Context, Event, Gpu, Passed};
use crate::shape::{Geometry, Stream, Work};
use crate::terms::{Rule, Seat, Terms};
use crate::thread::Thread;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const FOREVER: u64 = u64::MAX / 2;

/// Something that somebody else does.
type Deed = Box<dyn FnOnce()>;

/// A GPU whose streams run side by side, each in order, and a host whose calls take time.
pub(crate) struct Model {
    clock: Cell<u64>,
    /// When each stream will have done what is on it.
    streams: RefCell<Vec<(usize, u64)>>,
    events: RefCell<Vec<Option<u64>>>,
    /// Stretches in which any stream was busy, merged.
    busy: RefCell<Vec<(u64, u64)>>,
    pub(crate) records: Cell<u64>,
    pub(crate) slept: Cell<u64>,
    pub(crate) longest_sleep: Cell<u64>,
    pub(crate) capturing: Cell<usize>,
    /// What a launch costs the host.
    pub(crate) launch_ns: Cell<u64>,
    /// How often the daemon was told that something has begun.
    pub(crate) rung: Cell<u64>,
    /// What others do, and when: in order.
    others: RefCell<Vec<(u64, Deed)>>,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            clock: Cell::new(1_000 * MS),
            streams: RefCell::new(Vec::new()),
            events: RefCell::new(vec![None]),
            busy: RefCell::new(Vec::new()),
            records: Cell::new(0),
            slept: Cell::new(0),
            longest_sleep: Cell::new(0),
            capturing: Cell::new(0),
            launch_ns: Cell::new(2 * US),
            rung: Cell::new(0),
            others: RefCell::default(),
        }
    }

    pub(crate) fn pass(&self, ns: u64) {
        self.clock.set(self.clock.get() + ns);
    }

    /// Others do this `after` so much time, if the host sleeps then; asked for in order.
    pub(crate) fn meanwhile(&self, after: u64, event: impl FnOnce() + 'static) {
        let when = self.clock.get() + after;
        self.others.borrow_mut().push((when, Box::new(event)));
    }

    /// What comes next, if it comes before `at`.
    fn next_event(&self, at: u64) -> Option<(u64, Deed)> {
        let mut others = self.others.borrow_mut();
        let due = others.first().is_some_and(|(when, _)| *when <= at);
        due.then(|| others.remove(0))
    }

    /// The time at which a stream will be idle.
    pub(crate) fn idle_at(&self, stream: usize) -> u64 {
        let streams = self.streams.borrow();
        let found = streams.iter().find(|(key, _)| *key == stream);
        found.map_or(0, |(_, until)| *until).max(self.clock.get())
    }

    /// Puts `ns` of work on a stream.
    pub(crate) fn launch(&self, stream: usize, ns: u64) {
        self.pass(self.launch_ns.get());
        let begin = self.idle_at(stream);
        self.set_idle_at(stream, begin + ns);
        self.busy.borrow_mut().push((begin, begin + ns));
    }

    pub(crate) fn set_idle_at(&self, stream: usize, until: u64) {
        let mut streams = self.streams.borrow_mut();
        match streams.iter_mut().find(|(key, _)| *key == stream) {
            Some(entry) => entry.1 = until,
            None => streams.push((stream, until)),
        }
    }

    /// Ends what was launched for [`FOREVER`], `after` from now; what lies behind it moves up.
    pub(crate) fn release(&self, after: u64) {
        let now = self.clock.get() + after;
        let mut busy = self.busy.borrow_mut();
        let Some(spinning) = busy.iter_mut().find(|(begin, end)| end - begin >= FOREVER) else {
            return;
        };
        let shift = spinning.1 - now.max(spinning.0);
        spinning.1 -= shift;
        let earlier = |at: &mut u64| {
            if *at >= FOREVER {
                *at -= shift;
            }
        };
        for (begin, end) in busy.iter_mut() {
            earlier(begin);
            earlier(end);
        }
        self.streams
            .borrow_mut()
            .iter_mut()
            .for_each(|(_, until)| earlier(until));
        self.events
            .borrow_mut()
            .iter_mut()
            .flatten()
            .for_each(earlier);
    }

    /// The host waits for a stream.
    pub(crate) fn synchronise(&self, stream: usize) {
        self.clock.set(self.idle_at(stream) + 8 * US);
    }

    /// Nanoseconds of `begin..end` in which the GPU was busy.
    pub(crate) fn busy(&self, begin: u64, end: u64) -> u64 {
        let mut stretches = self.busy.borrow().clone();
        stretches.sort_unstable();
        let (mut total, mut reached) = (0, begin);
        for (from, to) in stretches {
            let (from, to) = (from.max(reached), to.min(end));
            if to > from {
                total += to - from;
                reached = to;
            }
        }
        total
    }
}

impl Gpu for Model {
    fn quietly<R>(&self, calls: impl FnOnce() -> R) -> R {
        calls()
    }

    fn now(&self) -> u64 {
        self.clock.get()
    }

    fn sleep_until(&self, at: u64, word: &AtomicU32, seen: u32) {
        let now = self.clock.get();
        let at = match self.next_event(at) {
            Some((when, event)) => {
                event();
                if word.load(Relaxed) == seen { at } else { when }
            }
            None => at,
        };
        // As long as a timer is late on a quiet machine.
        let at = at.max(now) + 60 * US;
        self.slept.set(self.slept.get() + (at - now));
        self.longest_sleep
            .set(self.longest_sleep.get().max(at - now));
        self.clock.set(at);
    }

    fn ring(&self, _word: &AtomicU32) {
        self.rung.set(self.rung.get() + 1);
    }

    fn current(&self) -> Option<(Context, usize)> {
        Some((Context(1), 0))
    }

    fn captures(&self, stream: Stream) -> bool {
        self.capturing.get() == stream.key()
    }

    fn create(&self) -> Option<Event> {
        let mut events = self.events.borrow_mut();
        events.push(None);
        Some(Event(events.len() - 1))
    }

    fn destroy(&self, _event: Event) {}

    fn record(&self, event: Event, stream: Stream) -> bool {
        assert_ne!(
            self.capturing.get(),
            stream.key(),
            "recorded into a capture"
        );
        self.pass(US);
        self.records.set(self.records.get() + 1);
        let at = self.idle_at(stream.key());
        self.events.borrow_mut()[event.0] = Some(at);
        true
    }

    fn passed(&self, event: Event) -> Passed {
        self.pass(US / 2);
        match self.events.borrow()[event.0] {
            None => Passed::Never,
            Some(at) if at <= self.clock.get() => Passed::Yes,
            Some(_) => Passed::No,
        }
    }

    fn elapsed(&self, from: Event, to: Event) -> Option<i64> {
        let events = self.events.borrow();
        let (from, to) = (events[from.0]?, events[to.0]?);
        let now = self.clock.get();
        assert!(from <= now && to <= now, "asked before it was passed");
        // Half a microsecond of resolution, told in a float of milliseconds.
        let half_us = (to.cast_signed() - from.cast_signed()) / 500;
        let told = half_us as f32 / 2000.0;
        Some((f64::from(told) * 1e6) as i64)
    }
}

/// A process with one limited device.
pub(crate) struct Process {
    pub(crate) engine: Box<Engine>,
    pub(crate) thread: Thread,
    pub(crate) bucket: &'static Bucket,
}

impl Process {
    pub(crate) fn new(percent: u32) -> Self {
        Self::with_bucket(percent, Box::leak(Box::default()))
    }

    pub(crate) fn with_bucket(percent: u32, bucket: &'static Bucket) -> Self {
        Self::with_terms(Terms {
            bucket,
            own: Rate::from_ppm(percent * 10_000),
            rule: None,
            seat: None,
        })
    }

    /// Under a daemon that gives it so many ppm; with the daemon's row.
    pub(crate) fn ruled(ppm: u32) -> (Self, &'static Policy, &'static Row) {
        Self::under_daemon(ppm, None)
    }

    /// The same, one of several of its container.
    pub(crate) fn seated(ppm: u32, seat: Seat) -> (Self, &'static Policy, &'static Row) {
        Self::under_daemon(ppm, Some(seat))
    }

    fn under_daemon(ppm: u32, seat: Option<Seat>) -> (Self, &'static Policy, &'static Row) {
        let policy: &'static Policy = quota_abi::map::anonymous(size_of::<Policy>())
            .map(|pages| {
                // SAFETY: zeroed pages of our own are a policy, never unmapped.
                unsafe { pages.cast::<Policy>().as_ref() }
            })
            .unwrap();
        let row = &policy.rows[0];
        row.rate.store(ppm, Relaxed);
        row.mode.store(mode::COMPUTE, Relaxed);
        let process = Self::with_terms(Terms {
            bucket: Box::leak(Box::default()),
            own: None,
            rule: Some(Rule { policy, row }),
            seat,
        });
        (process, policy, row)
    }

    fn with_terms(terms: Terms) -> Self {
        let terms: &'static Terms = Box::leak(Box::new(terms));
        let engine = Box::new(Engine::new());
        engine.device(0).unwrap().hold_to(terms);
        engine.watch(terms.generation());
        let bucket = terms.bucket;
        Self {
            engine,
            thread: Thread::new(),
            bucket,
        }
    }

    /// Launches function `name` for `ns`.
    pub(crate) fn launch(&self, model: &Model, stream: usize, name: usize, ns: u64) {
        self.launch_joined(model, stream, name, ns, false);
    }

    pub(crate) fn launch_joined(
        &self,
        model: &Model,
        stream: usize,
        name: usize,
        ns: u64,
        joined: bool,
    ) {
        let geometry = Geometry {
            grid: [100, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        let stream = Stream {
            handle: stream,
            per_thread: false,
        };
        let work = Work::kernel(
            name,
            geometry,
            self.engine.costs.generation(),
            stream,
            joined,
        );
        self.submit(model, &work, ns);
    }

    /// Launches an executable graph that takes `ns`.
    pub(crate) fn launch_graph(&self, model: &Model, stream: usize, exec: usize, ns: u64) {
        let stream = Stream {
            handle: stream,
            per_thread: false,
        };
        let work = Work::graph(exec, self.engine.costs.generation(), stream);
        self.submit(model, &work, ns);
    }

    fn submit(&self, model: &Model, work: &Work, ns: u64) {
        let stream = work.stream;
        let launched = || {
            model.launch(stream.key(), ns);
            CUresult::CUDA_SUCCESS
        };
        let thread = &self.thread;
        let answer = self
            .engine
            .spend(thread, work.shape, stream, &launched)
            .unwrap_or_else(|| self.engine.refill(model, thread, work, &launched));
        assert_eq!(answer, CUresult::CUDA_SUCCESS);
    }
}
