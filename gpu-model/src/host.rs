//! A thread of a program: what a workload can do, and the driver behind the limiter.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use cuda_headers::driver::CUresult;
use limiter::{
    Context, Engine, Event, Geometry, Gpu, Passed, Stream, Thread, UNLIMITED, Work, graph_shape,
};
use quota_abi::sync::{AtomicU32, Ordering::Relaxed};

use crate::device::What;
use crate::schemes::{Launch, Limiter};
use crate::task::Task;

/// A process of a container.
pub struct Process {
    /// What holds it back.
    pub limiter: Limiter,
    /// Its context on each device.
    pub contexts: Vec<usize>,
    /// When a thread last found that all of it was done, on each device.
    pub done_at: Vec<Cell<u64>>,
    /// How long marked pieces of work took, with the time at which each ended.
    pub marked: RefCell<Vec<(u64, u64)>>,
}

/// One of its threads.
pub struct Host<'a> {
    /// Where and when it is.
    pub task: &'a Task<'a>,
    /// Its process.
    pub process: Rc<Process>,
    thread: Thread,
    device: Cell<usize>,
}

/// Where the handles of streams begin, and how far they and those of devices are apart.
const STREAMS: usize = 0x5000;
const STREAM: usize = 0x100;
const DEVICE: usize = 0x10_0000;

impl<'a> Host<'a> {
    /// A thread that has done nothing yet.
    #[must_use]
    pub fn new(task: &'a Task<'a>, process: Rc<Process>) -> Self {
        Self {
            task,
            process,
            thread: Thread::new(),
            device: Cell::new(0),
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.task.now()
    }

    /// Does something else for so long, with the processor.
    pub fn work(&self, ns: u64) {
        self.task.pass(ns);
    }

    /// Sleeps for so long.
    pub fn sleep(&self, ns: u64) {
        self.task.sleep(ns);
    }

    /// Works on another device from now on.
    pub fn use_device(&self, device: usize) {
        if self.device.get() == device {
            return;
        }
        if let Limiter::Engine(engine) = self.process.limiter {
            engine.pause(self, &self.thread, None);
            self.thread.forget_context();
        }
        self.device.set(device);
    }

    fn context(&self) -> usize {
        self.process.contexts[self.device.get()]
    }

    fn stream(&self, stream: usize) -> Stream {
        Stream {
            handle: DEVICE * (self.device.get() + 1) + STREAMS + STREAM * stream,
            per_thread: false,
        }
    }

    /// Launches function `name` on so many blocks, for so long.
    pub fn launch(&self, stream: usize, name: usize, blocks: u32, ns: u64) {
        self.launch_as(stream, name, blocks, ns, What::Kernel);
    }

    /// Launches a kernel that waits for the others of a barrier.
    pub fn launch_barrier(&self, stream: usize, name: usize, barrier: usize) {
        self.launch_as(stream, name, 100, 0, What::Barrier(barrier));
    }

    fn launch_as(&self, stream: usize, name: usize, blocks: u32, ns: u64, what: What) {
        let geometry = Geometry {
            grid: [blocks, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        let put = || self.put(stream, ns, what);
        match &self.process.limiter {
            Limiter::Engine(engine) => {
                let on = self.stream(stream);
                let generation = engine.costs.generation();
                let shape = geometry.shape(name, generation);
                self.through(engine, shape, on, &put, || {
                    Work::kernel(name, geometry, generation, on, false)
                });
            }
            Limiter::None => {
                put();
            }
            Limiter::Other(other) => {
                let work = Launch {
                    name,
                    blocks: Some(u64::from(blocks)),
                };
                other.launch(self, stream, work, &|| {
                    put();
                });
            }
        }
    }

    /// Launches an executable graph of so many kernels.
    pub fn launch_graph(&self, stream: usize, exec: usize, nodes: u32, ns: u64) {
        let put = || self.put(stream, ns * u64::from(nodes), What::Kernel);
        match &self.process.limiter {
            Limiter::Engine(engine) => {
                let on = self.stream(stream);
                let generation = engine.costs.generation();
                let shape = graph_shape(exec, generation);
                self.through(engine, shape, on, &put, || {
                    Work::graph(exec, generation, on)
                });
            }
            Limiter::None => {
                put();
            }
            Limiter::Other(other) => {
                let work = Launch {
                    name: exec,
                    blocks: None,
                };
                other.launch(self, stream, work, &|| {
                    put();
                });
            }
        }
    }

    fn through(
        &self,
        engine: &Engine,
        shape: u64,
        on: Stream,
        put: &impl Fn() -> CUresult,
        work: impl FnOnce() -> Work,
    ) {
        if engine.epoch() == UNLIMITED && !engine.has_news() {
            put();
        } else if engine.spend(&self.thread, shape, on, put).is_none() {
            engine.refill(self, &self.thread, &work(), put);
        }
    }

    /// Puts work on a stream; waits where the stream holds as much as it can.
    fn put(&self, stream: usize, ns: u64, what: What) -> CUresult {
        let world = &self.task.world;
        let (device, context) = (self.device.get(), self.context());
        let full = |held: &mut crate::device::Device| {
            let submitted = held.submitted(context, stream);
            submitted - held.done(context, stream) >= world.params.depth
        };
        if world.device(device, full) {
            self.task.catch_up();
            if world.device(device, full) {
                let until = world.device(device, |held| held.submitted(context, stream));
                self.task
                    .wait_for(device, context, stream, until + 1 - world.params.depth);
            }
        }
        self.task.pass(self.task.draw(world.params.launch));
        let arrives = self.task.now() + world.params.latency;
        world.push((device, context, stream), arrives, ns, what);
        CUresult::CUDA_SUCCESS
    }

    /// Waits for all that is on the current device.
    pub fn synchronise(&self) {
        let engine = match self.process.limiter {
            Limiter::Engine(engine) if engine.epoch() > UNLIMITED => Some(engine),
            _ => None,
        };
        if let Some(engine) = engine {
            engine.pause(self, &self.thread, None);
        }
        if let Limiter::Other(other) = &self.process.limiter {
            other.rests(self);
        }
        self.task.pass(self.task.world.params.call);
        let (device, context) = (self.device.get(), self.context());
        let world = &self.task.world;
        for stream in 0..world.device(device, |device| device.streams(context)) {
            let submitted = world.device(device, |device| device.submitted(context, stream));
            self.task.wait_for(device, context, stream, submitted);
        }
        // Who has waited for the GPU sees all events that it has passed.
        if let Some(done_at) = self.process.done_at.get(device) {
            done_at.set(self.now());
        }
        if let Some(engine) = engine {
            engine.resume(self, &self.thread);
        }
    }

    /// Notes how long a piece of work took that began at `begin`.
    pub fn mark(&self, begin: u64) {
        let now = self.now();
        self.process.marked.borrow_mut().push((now, now - begin));
    }

    /// Records a new event on the current device, outside the engine.
    pub(crate) fn record_own(&self, stream: usize) -> usize {
        let event = self.task.world.event();
        self.record_on(event, self.device.get(), stream);
        event
    }

    /// Nanoseconds between two events; `None` while the host does not see that they have passed.
    pub(crate) fn between(&self, from: usize, to: usize) -> Option<f64> {
        self.passed_at(to).ok().flatten()?;
        self.elapsed(Event(from), Event(to)).map(|ns| ns as f64)
    }

    /// GPU time used so far by a process with these contexts, on the current device.
    pub(crate) fn used_on(&self, contexts: &[usize]) -> u64 {
        let (device, now) = (self.device.get(), self.now());
        let world = &self.task.world;
        world.device(device, |held| held.used_so_far(contexts[device], now))
    }

    /// When an event was passed, if this process can see that by now; `Err`: it was never recorded.
    fn passed_at(&self, event: usize) -> Result<Option<u64>, ()> {
        let device = self.task.world.device_of(event);
        let done_at = self.process.done_at.get(device).map_or(0, Cell::get);
        self.task.world.passed(event, self.now(), done_at)
    }

    fn record_on(&self, event: usize, device: usize, stream: usize) {
        let world = &self.task.world;
        self.task.pass(world.params.call);
        let recording = world.recording(event, device);
        let on = (device, self.process.contexts[device], stream);
        let arrives = self.task.now() + world.params.latency;
        world.push(on, arrives, 0, What::Event(event, recording));
    }
}

impl Gpu for Host<'_> {
    fn quietly<R>(&self, calls: impl FnOnce() -> R) -> R {
        // Two calls to the driver, and what the refill itself takes.
        self.task.pass(200);
        self.task.catch_up();
        calls()
    }

    fn now(&self) -> u64 {
        self.task.pass(20);
        self.task.now()
    }

    fn sleep_until(&self, at: u64, word: &AtomicU32, seen: u32) {
        self.task.catch_up();
        if self.task.now() < at && word.load(Relaxed) == seen {
            self.task.sleep_on(core::ptr::from_ref(word).addr(), at);
        }
    }

    fn ring(&self, word: &AtomicU32) {
        self.task.wake(core::ptr::from_ref(word).addr());
    }

    fn current(&self) -> Option<(Context, usize)> {
        let device = self.device.get();
        Some((Context(device + 1), device))
    }

    fn captures(&self, _stream: Stream) -> bool {
        false
    }

    fn create(&self) -> Option<Event> {
        self.task.pass(self.task.world.params.call);
        Some(Event(self.task.world.event()))
    }

    fn destroy(&self, _event: Event) {}

    fn record(&self, event: Event, stream: Stream) -> bool {
        let (device, place) = (stream.handle / DEVICE - 1, stream.handle % DEVICE);
        self.record_on(event.0, device, (place - STREAMS) / STREAM);
        true
    }

    fn passed(&self, event: Event) -> Passed {
        self.task.pass(self.task.world.params.call);
        self.task.catch_up();
        match self.passed_at(event.0) {
            Ok(Some(_)) => Passed::Yes,
            Ok(None) => Passed::No,
            Err(()) => Passed::Never,
        }
    }

    fn elapsed(&self, from: Event, to: Event) -> Option<i64> {
        self.task.pass(self.task.world.params.call);
        let at = |event: Event| {
            let passed = self.task.world.passed(event.0, u64::MAX, 0);
            passed.ok().flatten()
        };
        let (from, to) = (at(from)?, at(to)?);
        Some(told(to.cast_signed() - from.cast_signed()))
    }
}

/// Half a microsecond of resolution, told in a float of milliseconds.
#[expect(
    clippy::cast_possible_truncation,
    reason = "times of a few hours in floats of milliseconds, as the driver tells them"
)]
fn told(ns: i64) -> i64 {
    let half_us = ns / 500;
    let told = half_us as f32 / 2000.0;
    (f64::from(told) * 1e6) as i64
}
