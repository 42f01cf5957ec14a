//! A stream: its tail, and what is queued behind something whose end is not known yet.

use std::collections::VecDeque;
use std::sync::Arc;

use super::drive::{Act, Agenda};
use super::mark::Mark;
use super::{Engine, host};

/// Something that happens at its place in a stream. Must not wait for the GPU.
pub(crate) type Effect = Box<dyn FnOnce() + Send>;

/// Asked again and again until it says true.
pub(crate) type Condition = Box<dyn Fn() -> bool + Send>;

/// A spinning kernel that finds its condition fulfilled at once still lasts this long.
const SPIN_AT_LEAST: u64 = 2_000;

/// Names a stream; unlike the handle never the same for two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StreamKey {
    pub(super) index: usize,
    pub(super) generation: u64,
}

/// How a stream is ordered with the legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Legacy,
    Blocking,
    NonBlocking,
}

/// The direction of a copy over the bus; each has an engine of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyEngine {
    ToDevice = 0,
    ToHost = 1,
}

/// What is put into a stream.
pub(crate) enum Work {
    /// So many nanoseconds of GPU time, then effects (each after so many).
    Kernel {
        duration: u64,
        effects: Vec<(u64, Effect)>,
    },
    /// GPU time until a condition holds, or for ever.
    Spin(Option<Condition>),
    /// So many real nanoseconds of a copy engine, then an effect.
    Copy {
        engine: CopyEngine,
        duration: u64,
        effect: Effect,
    },
    /// Nothing but an effect.
    Action(Effect),
    /// A host function; the stream goes on when it has returned.
    Host(Effect),
    /// Waits for a condition without using GPU time.
    Poll(Condition),
    /// Waits for a point in another stream.
    WaitFor(Arc<Mark>),
    /// A point that others wait for.
    Mark(Arc<Mark>),
}

/// What the first queued item of a stream is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// To be looked at.
    Ready,
    /// Waits for what is before it in the stream.
    Due,
    /// Holds the GPU since this `tau`.
    Spinning(u64),
    /// In progress elsewhere (copy engine, host thread), or waiting for a mark or a condition.
    Away,
}

pub(super) struct Stream {
    pub(super) generation: u64,
    pub(super) context: u64,
    pub(super) device: usize,
    pub(super) kind: Kind,
    /// `tau` at which everything is done whose end is known.
    pub(super) tail: u64,
    /// What comes after, from the first item whose end is not known.
    pub(super) queue: VecDeque<Work>,
    pub(super) head: Head,
    /// Ends of launches, oldest first, for the limit on how many may be pending.
    pub(super) ends: VecDeque<u64>,
    /// Launches in `queue`.
    pub(super) queued_launches: usize,
    /// Effects that have been scheduled and not yet run.
    pub(super) effects: usize,
    /// The first item is a spinning kernel that holds the device, or will once its turn comes.
    pub(super) holding: bool,
}

impl Stream {
    pub(super) fn idle_at(&self, consumed: u64) -> bool {
        self.queue.is_empty() && self.tail <= consumed && self.effects == 0
    }
}

/// What the driving thread has to do with the engine unlocked.
pub(super) enum Outside {
    Nothing,
    Run(Effect),
}

impl Engine {
    /// Goes on with a stream's queue, its device's time standing at real time `at`. Returns an
    /// effect to run before going on.
    pub(super) fn pump(&mut self, key: StreamKey, at: u64) -> Outside {
        loop {
            let Some(stream) = self.stream(key) else {
                return Outside::Nothing;
            };
            if !matches!(stream.head, Head::Ready) {
                return Outside::Nothing;
            }
            let (device, tail) = (stream.device, stream.tail);
            let Some(first) = stream.queue.front() else {
                return Outside::Nothing;
            };
            let spins = matches!(first, Work::Spin(_));
            let known = is_known(first);
            let pending = stream.effects > 0;
            if spins && !std::mem::replace(&mut stream.holding, true) {
                // It takes the GPU from the end of what is before it, whenever that is looked at.
                self.device(device).spinning += 1;
                self.device(device).publish();
            }
            let consumed = self.device(device).timeline.consumed();
            if !known && (tail > consumed || pending) {
                self.wait_until_due(key, tail);
                return Outside::Nothing;
            }
            let Some(first) = self.stream(key).and_then(|stream| stream.queue.pop_front()) else {
                return Outside::Nothing;
            };
            match first {
                Work::Kernel { duration, effects } => {
                    if let Some(stream) = self.stream(key) {
                        stream.queued_launches -= 1;
                    }
                    self.schedule(key, duration, effects);
                    self.device(device).publish();
                }
                Work::Mark(mark) => self.place_mark(key, &mark, at),
                Work::WaitFor(mark) => {
                    if self.wait_is_over(key, &mark, consumed) {
                        continue;
                    }
                    self.add_waiter(key, &mark);
                    self.put_back(key, Work::WaitFor(mark), Head::Away);
                    return Outside::Nothing;
                }
                Work::Spin(condition) => {
                    let start = tail.max(consumed);
                    let may_end = condition.is_some();
                    self.put_back(key, Work::Spin(condition), Head::Spinning(start));
                    if may_end {
                        self.polled.push(key);
                    }
                    return Outside::Nothing;
                }
                Work::Poll(condition) => {
                    if !condition() {
                        self.put_back(key, Work::Poll(condition), Head::Away);
                        self.polled.push(key);
                        return Outside::Nothing;
                    }
                }
                Work::Copy {
                    engine,
                    duration,
                    effect,
                } => {
                    let free = &mut self.device(device).copies[engine as usize];
                    let end = at.max(*free) + duration;
                    *free = end;
                    let done = Agenda::new(end, self.next_sequence(), Act::Copied(key, effect));
                    self.real.push(done);
                    self.hold(key);
                    return Outside::Nothing;
                }
                Work::Host(function) => {
                    self.hold(key);
                    host::run(key, function);
                    return Outside::Nothing;
                }
                Work::Action(effect) => {
                    if let Some(stream) = self.stream(key) {
                        stream.effects += 1;
                    }
                    return Outside::Run(effect);
                }
            }
        }
    }

    /// Looks at the conditions of all polled streams at real time `at`. Returns those that may go on.
    pub(super) fn poll(&mut self, at: u64) -> Vec<StreamKey> {
        let polled = std::mem::take(&mut self.polled);
        let mut ready = Vec::new();
        for key in polled {
            let Some(stream) = self.stream(key) else {
                continue;
            };
            let device = stream.device;
            let fulfilled = match stream.queue.front() {
                Some(Work::Spin(Some(condition)) | Work::Poll(condition)) => condition(),
                _ => continue,
            };
            if !fulfilled {
                self.polled.push(key);
                continue;
            }
            self.bring(key, at);
            let consumed = self.device(device).timeline.consumed();
            let Some(stream) = self.stream(key) else {
                continue;
            };
            stream.queue.pop_front();
            if let Head::Spinning(start) = stream.head {
                let end = consumed.max(start + SPIN_AT_LEAST);
                stream.tail = end;
                stream.holding = false;
                stream.queued_launches -= 1;
                stream.ends.push_back(end);
                let device = self.device(device);
                device.spinning -= 1;
                device.end = device.end.max(end);
                device.publish();
            }
            self.release(key);
            ready.push(key);
        }
        ready
    }

    /// Gives a launch its place behind the stream's tail.
    pub(super) fn schedule(&mut self, key: StreamKey, duration: u64, effects: Vec<(u64, Effect)>) {
        let Some(stream) = self.stream(key) else {
            return;
        };
        let device = stream.device;
        let consumed = self.device(device).timeline.consumed();
        let Some(stream) = self.stream(key) else {
            return;
        };
        let start = stream.tail.max(consumed);
        let end = start + duration;
        stream.tail = end;
        stream.ends.push_back(end);
        stream.effects += effects.len();
        for (after, effect) in effects {
            let sequence = self.next_sequence();
            let act = Agenda::new(start + after, sequence, Act::Effect(key, effect));
            self.device(device).acts.push(act);
        }
        let device = self.device(device);
        device.end = device.end.max(end);
    }

    /// Puts a mark at the stream's tail.
    pub(super) fn place_mark(&mut self, key: StreamKey, mark: &Arc<Mark>, at: u64) {
        let Some(stream) = self.stream(key) else {
            return;
        };
        let (device, tail) = (stream.device, stream.tail);
        let idle = stream.effects == 0;
        let sequence = self.next_sequence();
        let device = self.device(device);
        mark.resolve(tail.max(device.timeline.consumed()));
        if tail <= device.timeline.consumed() && idle {
            mark.reach(at);
        } else if idle {
            let stamp = Act::Reached(Arc::clone(mark));
            device.stamps.push(Agenda::new(tail, sequence, stamp));
        } else {
            // Behind an effect: reached when that has been run.
            let stamp = Act::Reached(Arc::clone(mark));
            device.acts.push(Agenda::new(tail, sequence, stamp));
        }
        // Who waited for the mark's place to become known can go on; who waits for it to be
        // reached, on another device, registers again.
        for waiter in mark.take_waiters() {
            let sequence = self.next_sequence();
            self.real.push(Agenda::new(at, sequence, Act::Look(waiter)));
        }
    }

    /// Whether a stream's wait for `mark` needs nothing more than its tail moved.
    pub(super) fn wait_is_over(&mut self, key: StreamKey, mark: &Mark, consumed: u64) -> bool {
        if mark.done() {
            return true;
        }
        let Some(stream) = self.stream(key) else {
            return true;
        };
        match mark.tau() {
            Some(tau) if stream.device == mark.device && tau > consumed => {
                stream.tail = stream.tail.max(tau);
                true
            }
            _ => false,
        }
    }

    /// Lets a stream that waits be looked at when `mark` is reached, or its place known.
    fn add_waiter(&mut self, key: StreamKey, mark: &Arc<Mark>) {
        mark.add_waiter(key);
        if let Some(tau) = mark.tau() {
            let reached = Agenda::new(tau, self.next_sequence(), Act::Reached(Arc::clone(mark)));
            self.device(mark.device).acts.push(reached);
        }
    }

    fn wait_until_due(&mut self, key: StreamKey, tail: u64) {
        let sequence = self.next_sequence();
        let Some(stream) = self.stream(key) else {
            return;
        };
        stream.head = Head::Due;
        let device = stream.device;
        let act = Agenda::new(tail, sequence, Act::Due(key));
        self.device(device).acts.push(act);
    }

    fn put_back(&mut self, key: StreamKey, work: Work, head: Head) {
        if let Some(stream) = self.stream(key) {
            stream.queue.push_front(work);
            stream.head = head;
        }
    }

    /// Something of this stream is in progress elsewhere: nothing else is looked at meanwhile.
    fn hold(&mut self, key: StreamKey) {
        if let Some(stream) = self.stream(key) {
            stream.head = Head::Away;
            // The item itself is gone from the queue; an empty action keeps its place.
            stream.queue.push_front(Work::Action(Box::new(|| ())));
        }
    }

    /// What the first item waited for has come.
    pub(super) fn release(&mut self, key: StreamKey) {
        if let Some(stream) = self.stream(key) {
            stream.head = Head::Ready;
        }
    }

    /// What was in progress elsewhere is over.
    pub(super) fn finish(&mut self, key: StreamKey) {
        if let Some(stream) = self.stream(key) {
            stream.queue.pop_front();
            stream.head = Head::Ready;
        }
    }

    /// An effect of this stream has been run.
    pub(super) fn effect_done(&mut self, key: StreamKey) {
        if let Some(stream) = self.stream(key) {
            stream.effects = stream.effects.saturating_sub(1);
        }
    }
}

/// Whether its end follows from the stream's tail. Other items are looked at when everything
/// before them is done.
fn is_known(work: &Work) -> bool {
    matches!(work, Work::Kernel { .. } | Work::Mark(_) | Work::WaitFor(_))
}
