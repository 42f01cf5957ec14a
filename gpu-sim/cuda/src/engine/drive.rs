//! Going through what has happened, in order.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, PoisonError, TryLockError};

use gpu_sim_core::now_ns;

use super::mark::Mark;
use super::queue::{Effect, Head, Outside, StreamKey};
use super::wait::{Futex, notify_progress};
use super::{DRIVING, Engine, Locked, lock};

/// How often a condition that nobody announces is looked at.
const POLL_NS: u64 = 100_000;

/// A process with work looks at its time at least this often, so that the record of when it was
/// dealt what does not overflow.
const LOOK_NS: u64 = 100_000_000;

/// Wakes the executor, which sleeps until [`EXECUTOR_DEADLINE`].
static EXECUTOR: Futex = Futex::new();
static EXECUTOR_DEADLINE: AtomicU64 = AtomicU64::new(0);

/// Something that is to happen at a time, on whichever axis the heap that holds it is about.
pub(super) struct Agenda {
    pub(super) when: u64,
    sequence: u64,
    act: Act,
}

pub(super) enum Act {
    /// A kernel of this stream has an effect.
    Effect(StreamKey, Effect),
    /// Everything before the stream's first queued item is done.
    Due(StreamKey),
    /// A mark is reached.
    Reached(Arc<Mark>),
    /// A copy is complete.
    Copied(StreamKey, Effect),
    /// A host function has returned.
    HostDone(StreamKey),
    /// A stream's first item is to be looked at again.
    Look(StreamKey),
}

impl Agenda {
    pub(super) fn new(when: u64, sequence: u64, act: Act) -> Self {
        Self {
            when,
            sequence,
            act,
        }
    }

    /// The mark that this is about.
    pub(super) fn mark(&self) -> Option<&Arc<Mark>> {
        match &self.act {
            Act::Reached(mark) => Some(mark),
            _ => None,
        }
    }
}

// Reversed: a BinaryHeap yields its greatest element, which is to be the earliest.
impl Ord for Agenda {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.when, other.sequence).cmp(&(self.when, self.sequence))
    }
}

impl PartialOrd for Agenda {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Agenda {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Agenda {}

/// Makes everything happen that is due by now.
pub(super) fn drive() {
    let driving = DRIVING.lock().unwrap_or_else(PoisonError::into_inner);
    drive_locked();
    drop(driving);
}

/// The same unless somebody else is at it, who may be in the middle of a long effect: what only
/// asks, or only adds, does not wait for that. Returns whether it was done.
pub(crate) fn drive_if_free() -> bool {
    match DRIVING.try_lock() {
        Ok(_driving) => drive_locked(),
        Err(TryLockError::Poisoned(_driving)) => drive_locked(),
        Err(TryLockError::WouldBlock) => return false,
    }
    true
}

/// The same, and if somebody else is at it, the executor follows.
pub(super) fn drive_soon() {
    if !drive_if_free() {
        EXECUTOR.wake();
    }
}

fn drive_locked() {
    let mut engine = lock();
    let now = now_ns();
    let mut happened = false;
    loop {
        if let Some((item, at)) = engine.next_due(now) {
            engine = perform(engine, item, at);
            happened = true;
            continue;
        }
        happened |= engine.settle(now);
        let ready = engine.poll(now);
        if ready.is_empty() {
            break;
        }
        happened = true;
        for key in ready {
            engine = pump(engine, key, now);
        }
    }
    let next = engine.next_wake(now);
    drop(engine);
    wake_executor_by(next);
    if happened {
        notify_progress();
    }
}

fn perform(mut engine: Locked, item: Agenda, at: u64) -> Locked {
    match item.act {
        Act::Effect(key, effect) => {
            engine = run(engine, key, effect);
            let ready = engine.poll(at);
            for ready in ready {
                engine = pump(engine, ready, at);
            }
            engine
        }
        Act::Due(key) => {
            let due = engine
                .stream(key)
                .is_some_and(|stream| stream.head == Head::Due);
            if due {
                engine.release(key);
                engine = pump(engine, key, at);
            }
            engine
        }
        Act::Reached(mark) => {
            if !mark.done() {
                mark.reach(at);
            }
            for waiter in mark.take_waiters() {
                engine.release(waiter);
                engine = pump(engine, waiter, at);
            }
            engine
        }
        Act::Copied(key, effect) => {
            if engine.stream(key).is_some() {
                drop(engine);
                effect();
                engine = lock();
            }
            engine.finish(key);
            pump(engine, key, at)
        }
        Act::HostDone(key) => {
            engine.finish(key);
            pump(engine, key, at)
        }
        Act::Look(key) => {
            engine.look(key);
            pump(engine, key, at)
        }
    }
}

/// Runs an effect that was counted, with the engine unlocked.
fn run(mut engine: Locked, key: StreamKey, effect: Effect) -> Locked {
    if engine.stream(key).is_none() {
        // The context is gone, and with it the memory that this was about.
        return engine;
    }
    drop(engine);
    effect();
    let mut engine = lock();
    engine.effect_done(key);
    engine
}

fn pump(mut engine: Locked, key: StreamKey, at: u64) -> Locked {
    loop {
        engine.bring(key, at);
        match engine.pump(key, at) {
            Outside::Nothing => return engine,
            Outside::Run(effect) => engine = run(engine, key, effect),
        }
    }
}

/// Makes sure that the executor looks no later than at `deadline`.
pub(super) fn wake_executor_by(deadline: u64) {
    if deadline < EXECUTOR_DEADLINE.load(SeqCst) {
        EXECUTOR.wake();
    }
}

/// The executor's life.
pub(crate) fn run_executor() -> ! {
    loop {
        let seen = EXECUTOR.value();
        EXECUTOR_DEADLINE.store(0, SeqCst);
        drive();
        let deadline = {
            let mut engine = lock();
            let deadline = engine.next_wake(now_ns());
            // With the engine locked: whoever adds something later sees this deadline.
            EXECUTOR_DEADLINE.store(deadline, SeqCst);
            deadline
        };
        EXECUTOR.wait(seen, deadline);
    }
}

impl Engine {
    /// Takes the next thing that has happened by `limit`, with the time at which it did.
    fn next_due(&mut self, limit: u64) -> Option<(Agenda, u64)> {
        loop {
            let real = self.real.peek().map_or(u64::MAX, |item| item.when);
            let mut first = (real, None);
            let mut second = limit;
            for (index, device) in self.used_devices() {
                let Some(item) = device.acts.peek() else {
                    continue;
                };
                let passed = item.when <= device.timeline.consumed();
                let earliest = if passed {
                    0
                } else {
                    device.timeline.earliest(item.when)
                };
                if earliest < first.0 {
                    second = second.min(first.0);
                    first = (earliest, Some(index));
                } else {
                    second = second.min(earliest);
                }
            }
            let (earliest, source) = first;
            if earliest > limit {
                return None;
            }
            let Some(index) = source else {
                return Some((self.real.pop()?, earliest));
            };
            let device = self.device(index);
            let tau = device.acts.peek()?.when;
            if tau <= device.timeline.consumed() {
                let at = device.timeline.real_of(tau);
                return Some((device.acts.pop()?, at));
            }
            device.timeline.advance(second.max(earliest), Some(tau));
        }
    }

    /// Deals the time of a stream's device up to `at`, so that what is enqueued now starts then.
    /// Nothing that others depend on lies between: the earliest such thing is always taken first.
    pub(super) fn bring(&mut self, key: StreamKey, at: u64) {
        let Some(device) = self.stream(key).map(|stream| stream.device) else {
            return;
        };
        let timeline = &mut self.device(device).timeline;
        if timeline.computed_at() < at {
            timeline.advance(at, None);
        }
    }

    /// Deals every device's time up to `now`, and reaches the marks that have been passed.
    fn settle(&mut self, now: u64) -> bool {
        let mut reached = false;
        for device in self.devices.iter_mut().flatten() {
            if device.horizon() > device.timeline.consumed() {
                device.timeline.advance(now, None);
            }
            let consumed = device.timeline.consumed();
            while device
                .stamps
                .peek()
                .is_some_and(|item| item.when <= consumed)
            {
                let Some(item) = device.stamps.pop() else {
                    break;
                };
                if let Act::Reached(mark) = item.act {
                    if !mark.done() {
                        mark.reach(device.timeline.real_of(item.when));
                    }
                    reached = true;
                }
            }
        }
        reached
    }

    /// Whether something is due by `now` that others depend on.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.real.peek().is_some_and(|item| item.when <= now)
            || self.used_devices().any(|(_, device)| {
                let act = device.acts.peek();
                act.is_some_and(|item| device.timeline.earliest(item.when) <= now)
            })
    }

    /// When there may be something to do next.
    pub(super) fn next_wake(&mut self, now: u64) -> u64 {
        let mut next = self.real.peek().map_or(u64::MAX, |item| item.when);
        for (_, device) in self.used_devices() {
            if let Some(item) = device.acts.peek() {
                next = next.min(device.timeline.earliest(item.when));
            }
            if device.horizon() > device.timeline.consumed() {
                next = next.min(now + LOOK_NS);
            }
        }
        if !self.polled.is_empty() {
            next = next.min(now + POLL_NS);
        }
        next
    }

    /// Lets a waiting first item be looked at again, unless it is in progress.
    fn look(&mut self, key: StreamKey) {
        if let Some(stream) = self.stream(key)
            && stream.head == Head::Away
            && matches!(stream.queue.front(), Some(super::Work::WaitFor(_)))
        {
            stream.head = Head::Ready;
        }
    }
}
