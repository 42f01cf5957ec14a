//! Putting work into streams.

use std::collections::VecDeque;
use std::sync::Arc;

use cuda_headers::driver::CUresult;
use gpu_sim_core::now_ns;

use super::drive::{Act, Agenda, drive, drive_if_free, drive_soon, wake_executor_by};
use super::mark::Mark;
use super::queue::{Head, Kind, Stream, StreamKey, Work};
use super::wait::{progress, wait_for_progress};
use super::{Device, Engine, GONE, lock};
use crate::state;

/// Launches that may be pending in a stream; one more waits, as on real devices.
const DEPTH: usize = 1024;

/// How much GPU time a launch that waits for a place lets pass, at most, after the first is free.
const REFILL_NS: u64 = 100_000;

/// What became of an attempt to enqueue.
pub(super) enum Attempt {
    Done,
    /// Something is due first that may change what this depends on.
    DriveFirst(Work),
    /// Enqueued; to be looked at now.
    DriveAfter,
}

/// Makes a stream of a context on a device.
pub(crate) fn create_stream(
    context: u64,
    device: usize,
    kind: Kind,
) -> Result<StreamKey, CUresult> {
    let member = state::member()?;
    let mut engine = lock();
    if engine.devices.len() <= device {
        engine.devices.resize_with(device + 1, || None);
    }
    engine.devices[device].get_or_insert_with(|| Device {
        timeline: member.timeline(device),
        end: 0,
        spinning: 0,
        acts: Default::default(),
        stamps: Default::default(),
        copies: [0; 2],
    });
    engine.remove_finished();
    engine.generation += 1;
    let generation = engine.generation;
    let tail = 0;
    let stream = Stream {
        generation,
        context,
        device,
        kind,
        tail,
        queue: VecDeque::new(),
        head: Head::Ready,
        ends: VecDeque::new(),
        queued_launches: 0,
        effects: 0,
        holding: false,
    };
    let index = engine.free.pop().unwrap_or(engine.streams.len());
    if index == engine.streams.len() {
        engine.streams.push(Some(stream));
    } else {
        engine.streams[index] = Some(stream);
    }
    let key = StreamKey { index, generation };
    let order = engine.orders.entry(context).or_default();
    match kind {
        Kind::Legacy => order.legacy = Some(key),
        Kind::Blocking => order.blocking.push(key),
        Kind::NonBlocking => {}
    }
    Ok(key)
}

/// Whether everything in the stream is done.
pub(crate) fn is_idle(key: StreamKey) -> Result<bool, CUresult> {
    drive_if_free();
    let mut engine = lock();
    let device = engine.stream(key).ok_or(GONE)?.device;
    let consumed = engine.device(device).timeline.consumed();
    Ok(engine.stream(key).ok_or(GONE)?.idle_at(consumed))
}

/// A kernel of known duration with no effect.
#[inline]
pub(crate) fn launch(key: StreamKey, duration: u64) -> Result<(), CUresult> {
    let effects = Vec::new();
    enqueue(key, Work::Kernel { duration, effects })
}

/// Marks the present end of a stream.
pub(crate) fn mark(key: StreamKey) -> Result<Arc<Mark>, CUresult> {
    let device = lock().stream(key).ok_or(GONE)?.device;
    let mark = Arc::new(Mark::new(device));
    enqueue(key, Work::Mark(Arc::clone(&mark)))?;
    Ok(mark)
}

/// Makes a stream wait for a mark.
pub(crate) fn wait_for_mark(key: StreamKey, mark: &Arc<Mark>) -> Result<(), CUresult> {
    if mark.done() {
        return Ok(());
    }
    enqueue(key, Work::WaitFor(Arc::clone(mark)))
}

/// Puts work at the end of a stream.
pub(crate) fn enqueue(key: StreamKey, mut work: Work) -> Result<(), CUresult> {
    let launches = matches!(work, Work::Kernel { .. } | Work::Spin(_));
    let mut others_drive = false;
    loop {
        let seen = progress();
        let mut engine = lock();
        let now = now_ns();
        if launches && let Some(deadline) = engine.full_until(key, now)? {
            drop(engine);
            wait_for_progress(seen, deadline);
            drive();
            continue;
        }
        let waits = engine.keep_order(key, now);
        match engine.try_enqueue(key, work, now, others_drive)? {
            Attempt::Done => {
                drop(engine);
                if waits {
                    drive_soon();
                }
                return Ok(());
            }
            Attempt::DriveFirst(back) => {
                work = back;
                drop(engine);
                others_drive = !drive_if_free();
            }
            Attempt::DriveAfter => {
                drop(engine);
                drive_soon();
                return Ok(());
            }
        }
    }
}

impl Engine {
    fn try_enqueue(
        &mut self,
        key: StreamKey,
        work: Work,
        now: u64,
        others_drive: bool,
    ) -> Result<Attempt, CUresult> {
        let stream = self.stream(key).ok_or(GONE)?;
        let (device, tail) = (stream.device, stream.tail);
        if !stream.queue.is_empty() {
            stream.push(work);
            return Ok(Attempt::Done);
        }
        let surely_busy = tail > self.device(device).timeline.at_most(now);
        if !surely_busy {
            if !others_drive && self.is_due(now) {
                return Ok(Attempt::DriveFirst(work));
            }
            self.device(device).timeline.advance(now, None);
        }
        match work {
            Work::Kernel { duration, effects } => {
                let effective = !effects.is_empty();
                self.schedule(key, duration, effects);
                let device = self.device(device);
                let horizon = device.horizon();
                if !surely_busy || !device.timeline.extend(horizon, now) {
                    device.timeline.advance(now, None);
                    device.timeline.submit(horizon);
                }
                if effective {
                    wake_executor_by(self.next_wake(now));
                }
                Ok(Attempt::Done)
            }
            Work::Mark(mark) => {
                self.place_mark(key, &mark, now);
                Ok(Attempt::Done)
            }
            Work::WaitFor(mark) => {
                let consumed = self.device(device).timeline.consumed();
                if self.wait_is_over(key, &mark, consumed) {
                    return Ok(Attempt::Done);
                }
                Ok(self.push_and_look(key, Work::WaitFor(mark), now))
            }
            other => Ok(self.push_and_look(key, other, now)),
        }
    }

    pub(super) fn push_and_look(&mut self, key: StreamKey, work: Work, now: u64) -> Attempt {
        let sequence = self.next_sequence();
        if let Some(stream) = self.stream(key) {
            stream.head = Head::Ready;
            stream.push(work);
        }
        let look = Agenda::new(now, sequence, Act::Look(key));
        self.real.push(look);
        Attempt::DriveAfter
    }

    /// When there will be room for another launch, if there is none now.
    fn full_until(&mut self, key: StreamKey, now: u64) -> Result<Option<u64>, CUresult> {
        let stream = self.stream(key).ok_or(GONE)?;
        if stream.ends.len() + stream.queued_launches < DEPTH {
            return Ok(None);
        }
        let device = stream.device;
        let timeline = &mut self.device(device).timeline;
        if timeline.consumed() < timeline.at_most(now) && !self.is_due(now) {
            self.device(device).timeline.advance(now, None);
        }
        let consumed = self.device(device).timeline.consumed();
        let stream = self.stream(key).ok_or(GONE)?;
        while stream.ends.front().is_some_and(|end| *end <= consumed) {
            stream.ends.pop_front();
        }
        if stream.ends.len() + stream.queued_launches < DEPTH {
            return Ok(None);
        }
        // Not for the first place alone: a sleep per launch would cost more than the launch.
        let room = stream.ends.front().map(|first| {
            let soon = first.saturating_add(REFILL_NS);
            let batch = stream.ends.iter().take(DEPTH / 16);
            batch
                .copied()
                .take_while(|end| *end <= soon)
                .last()
                .unwrap_or(*first)
        });
        let next = self.next_wake(now);
        let timeline = &self.device(device).timeline;
        let deadline = room.map_or(next, |end| next.min(timeline.earliest(end)));
        Ok(Some(deadline))
    }
}

impl Stream {
    pub(super) fn push(&mut self, work: Work) {
        if matches!(work, Work::Kernel { .. } | Work::Spin(_)) {
            self.queued_launches += 1;
        }
        self.queue.push_back(work);
    }
}
