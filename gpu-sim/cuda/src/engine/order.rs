//! The order between a context's legacy default stream and its blocking streams.

use std::sync::Arc;

use super::Engine;
use super::mark::Mark;
use super::queue::{Kind, StreamKey, Work};

impl Engine {
    /// The legacy stream comes after what the context's blocking streams hold, and they after it.
    /// Returns whether the stream was given something to wait for that is to be looked at.
    pub(super) fn keep_order(&mut self, key: StreamKey, now: u64) -> bool {
        let Some(stream) = self.stream(key) else {
            return false;
        };
        let (context, kind) = (stream.context, stream.kind);
        if kind == Kind::NonBlocking {
            return false;
        }
        let Some(order) = self.orders.get_mut(&context) else {
            return false;
        };
        match kind {
            Kind::NonBlocking => false,
            Kind::Blocking => match order.legacy {
                Some(legacy) => self.join(key, legacy, now),
                None => false,
            },
            Kind::Legacy => {
                let blocking = std::mem::take(&mut order.blocking);
                let mut waits = false;
                for other in &blocking {
                    waits |= self.join(key, *other, now);
                }
                if let Some(order) = self.orders.get_mut(&context) {
                    order.blocking = blocking;
                }
                waits
            }
        }
    }

    /// Makes `key` wait for everything that is in `other` now.
    fn join(&mut self, key: StreamKey, other: StreamKey, now: u64) -> bool {
        let Some(before) = self.stream(other) else {
            return false;
        };
        let (device, tail) = (before.device, before.tail);
        let simple = before.queue.is_empty() && before.effects == 0;
        let consumed = self.device(device).timeline.consumed();
        if simple && tail <= consumed {
            return false;
        }
        let Some(stream) = self.stream(key) else {
            return false;
        };
        if simple && stream.queue.is_empty() {
            stream.tail = stream.tail.max(tail);
            return false;
        }
        let mark = Arc::new(Mark::new(device));
        match self.stream(other) {
            Some(before) if !before.queue.is_empty() => {
                before.push(Work::Mark(Arc::clone(&mark)));
            }
            _ => self.place_mark(other, &mark, now),
        }
        let empty = self
            .stream(key)
            .is_some_and(|stream| stream.queue.is_empty());
        if empty {
            self.push_and_look(key, Work::WaitFor(mark), now);
        } else if let Some(stream) = self.stream(key) {
            stream.push(Work::WaitFor(mark));
        }
        empty
    }

    /// A stream is gone.
    pub(super) fn leave_order(&mut self, context: u64, key: StreamKey) {
        if let Some(order) = self.orders.get_mut(&context) {
            order.blocking.retain(|other| *other != key);
            order.legacy = order.legacy.filter(|other| *other != key);
        }
    }
}
