//! Time, and who is next.
//!
//! Each thread of a host is a coroutine with a clock of its own, which runs ahead of the others' as long as the thread
//! observes nothing. Before it does, it lets everything happen that happens earlier ([`World::catch_up`]). So what it
//! observes is what there was at its time, and a launch costs no change of coroutines.

use core::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::device::{Device, NEVER, Notice, What};
use crate::params::{Params, SECOND};

/// When the world begins: not at zero, which means never in many words.
pub const START: u64 = 1_000 * SECOND;

/// What a coroutine is woken with: the time.
pub type Yield = Yielder<u64, ()>;
type Body = Coroutine<u64, (), ()>;

/// An event of the driver.
#[derive(Clone, Copy, Debug, Default)]
struct EventState {
    recording: u32,
    device: usize,
    passed_at: Option<u64>,
    seen_at: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Barrier {
    needed: usize,
    ns: u64,
    here: [(usize, usize, usize); 4],
    count: usize,
}

/// Everything that there is.
pub struct World {
    /// Its parameters.
    pub params: Params,
    until: Cell<u64>,
    ready: RefCell<BinaryHeap<Reverse<(u64, usize, u64)>>>,
    /// For each thread, the number of the sleep that it is in; entries of the heap with another are stale.
    sleeps: RefCell<Vec<u64>>,
    sleepers: RefCell<Vec<(usize, usize)>>,
    devices: RefCell<Vec<Device>>,
    events: RefCell<Vec<EventState>>,
    barriers: RefCell<Vec<Barrier>>,
    notices: RefCell<Vec<Notice>>,
    rng: RefCell<fastrand::Rng>,
}

impl World {
    /// One with so many devices.
    #[must_use]
    pub fn new(params: Params, devices: usize, seed: u64) -> Self {
        let devices = (0..devices).map(|_| Device::new(&params)).collect();
        Self {
            params,
            until: Cell::new(START),
            ready: RefCell::default(),
            sleeps: RefCell::default(),
            sleepers: RefCell::default(),
            devices: RefCell::new(devices),
            // 0 is no event.
            events: RefCell::new(vec![EventState::default()]),
            barriers: RefCell::default(),
            notices: RefCell::default(),
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
        }
    }

    /// One of its devices.
    pub fn device<R>(&self, index: usize, look: impl FnOnce(&mut Device) -> R) -> R {
        look(&mut self.devices.borrow_mut()[index])
    }

    /// A new thread; its number.
    pub(crate) fn thread(&self, begins: u64) -> usize {
        let mut sleeps = self.sleeps.borrow_mut();
        sleeps.push(0);
        let thread = sleeps.len() - 1;
        self.ready.borrow_mut().push(Reverse((begins, thread, 0)));
        thread
    }

    /// The thread goes on at this time, if nothing wakes it before.
    pub(crate) fn resume_at(&self, thread: usize, at: u64) {
        let sleep = {
            let mut sleeps = self.sleeps.borrow_mut();
            sleeps[thread] += 1;
            sleeps[thread]
        };
        if at != NEVER {
            self.ready.borrow_mut().push(Reverse((at, thread, sleep)));
        }
    }

    /// A sleep that is cut short.
    fn wake_at(&self, thread: usize, at: u64) {
        let sleep = self.sleeps.borrow()[thread];
        self.ready.borrow_mut().push(Reverse((at, thread, sleep)));
    }

    /// Notes that a thread sleeps on a word.
    pub(crate) fn sleeps_on(&self, word: usize, thread: usize) {
        self.sleepers.borrow_mut().push((word, thread));
    }

    /// It does no more.
    pub(crate) fn woke(&self, thread: usize) {
        self.sleepers
            .borrow_mut()
            .retain(|(_, other)| *other != thread);
    }

    /// Wakes all that sleep on a word, at `now`.
    pub fn wake(&self, word: usize, now: u64) {
        let mut woken = Vec::new();
        self.sleepers.borrow_mut().retain(|(at, thread)| {
            if *at == word {
                woken.push(*thread);
            }
            *at != word
        });
        for thread in woken {
            let late = self.params.wake.draw(&mut self.rng.borrow_mut());
            self.wake_at(thread, now + late);
        }
    }

    /// A new event.
    pub(crate) fn event(&self) -> usize {
        let mut events = self.events.borrow_mut();
        events.push(EventState::default());
        events.len() - 1
    }

    /// It is about to be recorded on a device; the number of the recording.
    pub(crate) fn recording(&self, event: usize, device: usize) -> u32 {
        let state = &mut self.events.borrow_mut()[event];
        state.recording += 1;
        state.device = device;
        state.passed_at = None;
        state.recording
    }

    /// Where it was recorded last.
    pub(crate) fn device_of(&self, event: usize) -> usize {
        self.events.borrow()[event].device
    }

    /// When the GPU has passed it, as far as a host sees that at `now` that has found everything done at `done_at`. `Err`: it was
    /// never recorded.
    pub(crate) fn passed(&self, event: usize, now: u64, done_at: u64) -> Result<Option<u64>, ()> {
        let state = self.events.borrow()[event];
        if state.recording == 0 {
            return Err(());
        }
        Ok(state
            .passed_at
            .filter(|at| state.seen_at <= now || *at <= done_at))
    }

    /// A barrier of so many kernels, each of which takes `ns` once all have begun.
    pub fn barrier(&self, needed: usize, ns: u64) -> usize {
        let mut barriers = self.barriers.borrow_mut();
        barriers.push(Barrier {
            needed,
            ns,
            ..Barrier::default()
        });
        barriers.len() - 1
    }

    /// Puts something on a stream.
    pub(crate) fn push(&self, on: (usize, usize, usize), arrives: u64, ns: u64, what: What) {
        let (device, context, stream) = on;
        self.devices.borrow_mut()[device].push(context, stream, arrives, ns, what);
    }

    /// When the next thread goes on.
    fn top(&self) -> u64 {
        let mut ready = self.ready.borrow_mut();
        let sleeps = self.sleeps.borrow();
        while let Some(Reverse((at, thread, sleep))) = ready.peek() {
            if sleeps[*thread] == *sleep {
                return *at;
            }
            ready.pop();
        }
        NEVER
    }

    fn pop(&self) -> Option<(u64, usize)> {
        self.top();
        let Reverse((at, thread, _)) = self.ready.borrow_mut().pop()?;
        // What else would have woken it is too late.
        self.sleeps.borrow_mut()[thread] += 1;
        Some((at, thread))
    }

    /// The device on which something happens next.
    fn next_device(&self) -> (u64, usize) {
        let devices = self.devices.borrow();
        let next = devices.iter().map(Device::next).zip(0..);
        next.min().unwrap_or((NEVER, 0))
    }

    fn step(&self, at: u64, device: usize) {
        let mut notices = self.notices.take();
        self.devices.borrow_mut()[device].step(&mut notices);
        for notice in notices.drain(..) {
            match notice {
                Notice::Done(thread) => {
                    let late = self.params.synchronised.draw(&mut self.rng.borrow_mut());
                    self.wake_at(thread, at + late);
                }
                Notice::Passed(event, recording) => {
                    let late = self.params.seen_after.draw(&mut self.rng.borrow_mut());
                    let state = &mut self.events.borrow_mut()[event];
                    if state.recording == recording {
                        state.passed_at = Some(at);
                        state.seen_at = at + late;
                    }
                }
                Notice::Arrived(barrier, context, stream) => {
                    self.arrived(barrier, (device, context, stream), at);
                }
            }
        }
        self.notices.replace(notices);
    }

    fn arrived(&self, barrier: usize, kernel: (usize, usize, usize), at: u64) {
        let full = {
            let state = &mut self.barriers.borrow_mut()[barrier];
            state.here[state.count] = kernel;
            state.count += 1;
            *state
        };
        if full.count == full.needed {
            for (device, context, stream) in full.here.into_iter().take(full.count) {
                self.devices.borrow_mut()[device].release(context, stream, full.ns, at);
            }
        }
    }

    /// Lets devices go on until `now`, as long as no thread is due before. False if one is, or the world is to stop.
    fn advance(&self, now: u64) -> bool {
        if now > self.until.get() {
            return false;
        }
        loop {
            let top = self.top();
            let (at, device) = self.next_device();
            if at <= now && at <= top {
                self.step(at, device);
            } else {
                return top >= now;
            }
        }
    }

    /// Lets everything happen that happens before `now`; returns the time.
    pub(crate) fn catch_up(&self, thread: usize, now: u64, yielder: &Yield) -> u64 {
        if self.advance(now) {
            return now;
        }
        self.resume_at(thread, now);
        yielder.suspend(()).max(now)
    }
}

/// The world with its threads.
pub struct Run {
    world: Rc<World>,
    bodies: Vec<Option<Body>>,
}

impl Run {
    /// One without threads.
    #[must_use]
    pub fn new(world: Rc<World>) -> Self {
        Self {
            world,
            bodies: Vec::new(),
        }
    }

    /// A thread that begins at `begins`; it is told its number.
    pub fn spawn(&mut self, begins: u64, body: impl FnOnce(usize, u64, &Yield) + 'static) -> usize {
        let thread = self.world.thread(begins);
        let body = Coroutine::new(move |yielder: &Yield, now| body(thread, now, yielder));
        self.bodies.push(Some(body));
        thread
    }

    /// Ends a thread where it is.
    pub fn kill(&mut self, thread: usize) {
        self.world.woke(thread);
        self.world.resume_at(thread, NEVER);
        if let Some(body) = self.bodies.get_mut(thread) {
            drop(body.take());
        }
    }

    /// Lets everything happen until `until`.
    pub fn until(&mut self, until: u64) {
        self.world.until.set(until);
        loop {
            let top = self.world.top();
            let (at, device) = self.world.next_device();
            if top.min(at) > until {
                return;
            }
            if at <= top {
                self.world.step(at, device);
                continue;
            }
            let Some((at, thread)) = self.world.pop() else {
                return;
            };
            let place = &mut self.bodies[thread];
            let ended = match place {
                Some(body) => matches!(body.resume(at), CoroutineResult::Return(())),
                None => false,
            };
            if ended {
                *place = None;
            }
        }
    }
}
