//! The end of streams, and of everything in a context.

use std::collections::VecDeque;
use std::sync::PoisonError;

use gpu_sim_core::now_ns;

use super::drive::{Act, Agenda, drive};
use super::queue::{StreamKey, Work};
use super::wait::notify_progress;
use super::{DRIVING, Engine, lock};

/// Lets a stream go when its work is done.
pub(crate) fn destroy_stream(key: StreamKey) {
    let mut engine = lock();
    engine.leaving.push(key);
    engine.remove_finished();
}

/// The streams of a context, destroyed ones with work included.
pub(crate) fn streams_of(context: u64) -> Vec<StreamKey> {
    let engine = lock();
    let streams = engine.streams.iter().enumerate();
    streams
        .filter_map(|(index, stream)| {
            let stream = stream.as_ref()?;
            let generation = stream.generation;
            (stream.context == context).then_some(StreamKey { index, generation })
        })
        .collect()
}

/// Drops all work of a context, finished or not, and its streams.
pub(crate) fn abandon_context(context: u64) {
    let keys = streams_of(context);
    drive();
    // No effect of the context is being run from here on, and none will be.
    let _driving = DRIVING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut engine = lock();
    let mut dropped = Vec::new();
    for key in keys {
        dropped.extend(engine.abandon(key));
    }
    engine.orders.remove(&context);
    let devices: Vec<usize> = engine.used_devices().map(|(index, _)| index).collect();
    let mut acts = Vec::new();
    for device in devices {
        acts.extend(engine.shorten(device));
    }
    drop(engine);
    // Effects and closures are dropped with the engine unlocked: they may own anything.
    drop((dropped, acts));
    notify_progress();
}

impl Engine {
    /// Frees the slots of destroyed streams that have become idle.
    pub(super) fn remove_finished(&mut self) {
        let leaving = std::mem::take(&mut self.leaving);
        for key in leaving {
            let Some(stream) = self.stream(key) else {
                continue;
            };
            let (device, context) = (stream.device, stream.context);
            let consumed = self.device(device).timeline.consumed();
            if self
                .stream(key)
                .is_some_and(|stream| stream.idle_at(consumed))
            {
                self.streams[key.index] = None;
                self.free.push(key.index);
                self.leave_order(context, key);
            } else {
                self.leaving.push(key);
            }
        }
    }

    /// Drops a stream with its work. Whoever waits for it goes on.
    fn abandon(&mut self, key: StreamKey) -> VecDeque<Work> {
        let now = now_ns();
        let Some(stream) = self.stream(key) else {
            return VecDeque::new();
        };
        let (device, context, holding) = (stream.device, stream.context, stream.holding);
        let queue = std::mem::take(&mut stream.queue);
        for work in &queue {
            if let Work::Mark(mark) = work {
                mark.reach(now);
                for waiter in mark.take_waiters() {
                    let sequence = self.next_sequence();
                    self.real
                        .push(Agenda::new(now, sequence, Act::Look(waiter)));
                }
            }
        }
        if holding {
            self.device(device).spinning -= 1;
        }
        self.streams[key.index] = None;
        self.free.push(key.index);
        self.leave_order(context, key);
        queue
    }

    /// Lets a device's work end with what the remaining streams hold. Returns what was to happen
    /// later and no longer will.
    fn shorten(&mut self, device: usize) -> Vec<Agenda> {
        let now = now_ns();
        let tails = self.streams.iter().flatten();
        let end = tails
            .filter(|stream| stream.device == device)
            .map(|stream| stream.tail)
            .max()
            .unwrap_or(0);
        let device = self.device(device);
        device.timeline.advance(now, None);
        device.end = end.max(device.timeline.consumed());
        device.publish();
        let end = device.end;
        let mut later = Vec::new();
        for heap in [&mut device.acts, &mut device.stamps] {
            let items = std::mem::take(heap).into_vec();
            let (kept, dropped): (Vec<_>, Vec<_>) =
                items.into_iter().partition(|item| item.when <= end);
            *heap = kept.into();
            later.extend(dropped);
        }
        for item in &later {
            if let Some(mark) = item.mark() {
                mark.reach(now);
                for waiter in mark.take_waiters() {
                    let sequence = self.next_sequence();
                    self.real
                        .push(Agenda::new(now, sequence, Act::Look(waiter)));
                }
            }
        }
        later
    }
}
