//! One GPU: streams in order, contexts in slices.
//!
//! A context that has work keeps the GPU for a slice while others have work too; then it is the next one's. What runs when a
//! slice ends goes on where it stopped. Inside a context kernels of several streams run side by side.

use std::collections::VecDeque;

use crate::busy::Busy;
use crate::params::Params;

/// Later than anything.
pub const NEVER: u64 = u64::MAX;

/// Something on a stream.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// A kernel or a graph.
    Kernel,
    /// A kernel that spins until all kernels of this barrier have begun, and then takes its time.
    Barrier(usize),
    /// An event, in its so-manieth recording.
    Event(usize, u32),
}

#[derive(Clone, Copy, Debug)]
struct Item {
    arrives: u64,
    left: u64,
    what: What,
    begun: bool,
}

#[derive(Debug, Default)]
struct Stream {
    items: VecDeque<Item>,
    submitted: u64,
    done: u64,
    running: bool,
    /// Who waits, and for how many to be done.
    watchers: Vec<(u64, usize)>,
}

/// The work of one process on the device.
#[derive(Debug, Default)]
struct Context {
    streams: Vec<Stream>,
    kernels: usize,
    since: u64,
    busy: Busy,
    events: u64,
    event_time: u64,
    launches: u64,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    stream: usize,
    begun: u64,
    end: u64,
}

/// What others have to be told.
#[derive(Clone, Copy, Debug)]
pub enum Notice {
    /// What this thread waits for is done.
    Done(usize),
    /// An event has passed.
    Passed(usize, u32),
    /// A kernel of this barrier has begun, on this context and stream.
    Arrived(usize, usize, usize),
}

/// One GPU.
#[derive(Debug)]
pub struct Device {
    slice: u64,
    switch: u64,
    side_by_side: usize,
    event: u64,
    idle_events_pass: bool,
    contexts: Vec<Context>,
    current: usize,
    ready_at: u64,
    slice_end: u64,
    running: Vec<Running>,
    next: u64,
    idle: bool,
    /// Changes from one context to another.
    pub switches: u64,
}

impl Device {
    /// One without contexts.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        Self {
            slice: params.slice,
            switch: params.switch,
            side_by_side: params.side_by_side.max(1),
            event: params.event,
            idle_events_pass: params.idle_events_pass,
            contexts: Vec::new(),
            current: 0,
            ready_at: 0,
            slice_end: 0,
            running: Vec::new(),
            next: NEVER,
            idle: true,
            switches: 0,
        }
    }

    /// A new context with so many streams; its number.
    pub fn context(&mut self, streams: usize) -> usize {
        let streams = (0..streams).map(|_| Stream::default()).collect();
        self.contexts.push(Context {
            streams,
            ..Context::default()
        });
        self.contexts.len() - 1
    }

    /// A process has ended: what it had is gone.
    pub fn destroy(&mut self, context: usize, now: u64) {
        if context == self.current {
            self.stop(now);
        }
        let gone = &mut self.contexts[context];
        for stream in &mut gone.streams {
            stream.items.clear();
            stream.watchers.clear();
        }
        self.plan(now);
    }

    /// When something happens next.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Puts something on a stream that gets there at `arrives`.
    pub fn push(&mut self, context: usize, stream: usize, arrives: u64, ns: u64, what: What) {
        let event = self.event;
        let place = &mut self.contexts[context];
        let left = match what {
            What::Event(..) => {
                place.events += 1;
                place.event_time += event;
                event
            }
            _ => {
                place.launches += 1;
                ns
            }
        };
        let stream = &mut place.streams[stream];
        stream.submitted += 1;
        stream.items.push_back(Item {
            arrives,
            left,
            what,
            begun: false,
        });
        if stream.items.len() == 1 {
            // The earliest that anything can come of it; looked at closely then.
            self.next = self.next.min(arrives);
        }
    }

    /// How many were put on a stream.
    #[must_use]
    pub fn submitted(&self, context: usize, stream: usize) -> u64 {
        self.contexts[context].streams[stream].submitted
    }

    /// How many of them are done, as far as the device has come.
    #[must_use]
    pub fn done(&self, context: usize, stream: usize) -> u64 {
        self.contexts[context].streams[stream].done
    }

    /// How many streams a context has.
    #[must_use]
    pub fn streams(&self, context: usize) -> usize {
        self.contexts[context].streams.len()
    }

    /// Tells this thread when so many of a stream are done.
    pub fn watch(&mut self, context: usize, stream: usize, done: u64, thread: usize) {
        let stream = &mut self.contexts[context].streams[stream];
        stream.watchers.push((done, thread));
    }

    /// GPU time that a context used until `now`.
    #[must_use]
    pub fn used(&self, context: usize, now: u64) -> Busy {
        let place = &self.contexts[context];
        let mut busy = place.busy.clone();
        if place.kernels > 0 {
            busy.add(place.since.min(now), now);
        }
        busy
    }

    /// The sum of it.
    #[must_use]
    pub fn used_so_far(&self, context: usize, now: u64) -> u64 {
        let place = &self.contexts[context];
        let running = if place.kernels > 0 {
            now.saturating_sub(place.since)
        } else {
            0
        };
        place.busy.total() + running
    }

    /// Events and launches that a context had, and the time of the events, ns.
    #[must_use]
    pub fn counts(&self, context: usize) -> (u64, u64, u64) {
        let place = &self.contexts[context];
        (place.events, place.launches, place.event_time)
    }

    /// All kernels of a barrier have begun: this one takes its time from now on.
    pub fn release(&mut self, context: usize, stream: usize, ns: u64, now: u64) {
        if let Some(item) = self.contexts[context].streams[stream].items.front_mut() {
            item.left = ns;
        }
        if context == self.current {
            for running in self.running.iter_mut().filter(|run| run.stream == stream) {
                running.end = now.max(running.begun) + ns;
            }
        }
        self.plan(now);
    }

    /// What happens at [`Self::next`].
    pub fn step(&mut self, notices: &mut Vec<Notice>) {
        let now = self.next;
        self.complete(now, notices);
        if self.idle_events_pass {
            self.pass_idle_events(now, notices);
        }
        self.schedule(now, notices);
        self.plan(now);
    }

    fn complete(&mut self, now: u64, notices: &mut Vec<Notice>) {
        let mut index = 0;
        while index < self.running.len() {
            let run = self.running[index];
            if run.end > now {
                index += 1;
                continue;
            }
            self.running.swap_remove(index);
            let place = &mut self.contexts[self.current];
            place.streams[run.stream].running = false;
            if place.finish(run.stream, notices) {
                place.kernels -= 1;
                if place.kernels == 0 {
                    place.busy.add(place.since, run.end);
                }
            }
        }
    }

    fn pass_idle_events(&mut self, now: u64, notices: &mut Vec<Notice>) {
        for (index, place) in self.contexts.iter_mut().enumerate() {
            if index == self.current {
                continue;
            }
            for stream in 0..place.streams.len() {
                while let Some(item) = place.streams[stream].items.front()
                    && matches!(item.what, What::Event(..))
                    && item.arrives <= now
                {
                    place.finish(stream, notices);
                }
            }
        }
    }

    fn schedule(&mut self, now: u64, notices: &mut Vec<Notice>) {
        let Some(here) = self.contexts.get(self.current) else {
            return;
        };
        let nothing = self.running.is_empty() && !here.has_work(now);
        // Who comes to an idle GPU begins a slice.
        if nothing || now >= self.slice_end && !self.idle {
            let count = self.contexts.len();
            let other = (1..count)
                .map(|step| (self.current + step) % count)
                .find(|other| self.contexts[*other].has_work(now));
            if let Some(other) = other {
                self.stop(now);
                self.current = other;
                self.ready_at = now + self.switch;
                self.slice_end = self.ready_at + self.slice;
                self.switches += 1;
            } else if now >= self.slice_end {
                let over = (now - self.slice_end) / self.slice + 1;
                self.slice_end += over * self.slice;
            }
        }
        self.start(now, notices);
    }

    /// The context loses the GPU.
    fn stop(&mut self, now: u64) {
        let place = &mut self.contexts[self.current];
        for run in self.running.drain(..) {
            let stream = &mut place.streams[run.stream];
            stream.running = false;
            if let Some(item) = stream.items.front_mut()
                && run.end != NEVER
            {
                item.left = run.end - now.max(run.begun);
            }
        }
        if place.kernels > 0 {
            place.kernels = 0;
            place.busy.add(place.since, now);
        }
    }

    fn start(&mut self, now: u64, notices: &mut Vec<Notice>) {
        let (event, at) = (self.event, now.max(self.ready_at));
        let place = &mut self.contexts[self.current];
        for (index, stream) in place.streams.iter_mut().enumerate() {
            if self.running.len() >= self.side_by_side {
                break;
            }
            if stream.running {
                continue;
            }
            let Some(item) = stream.items.front_mut().filter(|item| item.arrives <= now) else {
                continue;
            };
            stream.running = true;
            let mut end = at.saturating_add(item.left);
            match item.what {
                What::Event(..) => end = at + event,
                What::Kernel => {}
                What::Barrier(barrier) => {
                    if !item.begun {
                        notices.push(Notice::Arrived(barrier, self.current, index));
                        item.left = NEVER;
                        end = NEVER;
                    }
                }
            }
            item.begun = true;
            if !matches!(item.what, What::Event(..)) {
                if place.kernels == 0 {
                    place.since = at;
                }
                place.kernels += 1;
            }
            self.running.push(Running {
                stream: index,
                begun: at,
                end,
            });
        }
        if self.idle && !self.running.is_empty() {
            self.slice_end = at + self.slice;
        }
        self.idle = self.running.is_empty();
    }

    /// Finds out when something happens next.
    fn plan(&mut self, now: u64) {
        let mut next = NEVER;
        for run in &self.running {
            next = next.min(run.end);
        }
        let Some(here) = self.contexts.get(self.current) else {
            return;
        };
        if self.running.len() < self.side_by_side {
            next = next.min(here.arrival().max(self.ready_at));
        }
        for (index, place) in self.contexts.iter().enumerate() {
            if index == self.current {
                continue;
            }
            let arrival = place.arrival();
            if arrival == NEVER {
                continue;
            }
            if self.running.is_empty() && !here.has_work(now) {
                next = next.min(arrival);
            } else {
                next = next.min(self.end_of_slice(arrival));
            }
            if self.idle_events_pass {
                next = next.min(place.event_arrival());
            }
        }
        self.next = next.max(now);
    }

    /// When the current context gives way to one whose work gets there at `arrival`.
    fn end_of_slice(&self, arrival: u64) -> u64 {
        if arrival <= self.slice_end {
            return self.slice_end;
        }
        let over = (arrival - self.slice_end).div_ceil(self.slice);
        self.slice_end + over * self.slice
    }
}

impl Context {
    /// Whether anything could run now.
    fn has_work(&self, now: u64) -> bool {
        self.streams
            .iter()
            .any(|stream| stream.items.front().is_some_and(|item| item.arrives <= now))
    }

    /// When the next one that does not run can run.
    fn arrival(&self) -> u64 {
        self.streams
            .iter()
            .filter(|stream| !stream.running)
            .filter_map(|stream| Some(stream.items.front()?.arrives))
            .min()
            .unwrap_or(NEVER)
    }

    fn event_arrival(&self) -> u64 {
        self.streams
            .iter()
            .filter_map(|stream| stream.items.front())
            .filter(|item| matches!(item.what, What::Event(..)))
            .map(|item| item.arrives)
            .min()
            .unwrap_or(NEVER)
    }

    /// The first of a stream is done. Whether it was a kernel.
    fn finish(&mut self, stream: usize, notices: &mut Vec<Notice>) -> bool {
        let stream = &mut self.streams[stream];
        let Some(item) = stream.items.pop_front() else {
            return false;
        };
        stream.done += 1;
        if !stream.watchers.is_empty() {
            let done = stream.done;
            stream.watchers.retain(|(until, thread)| {
                if *until <= done {
                    notices.push(Notice::Done(*thread));
                }
                *until > done
            });
        }
        match item.what {
            What::Event(event, recording) => {
                notices.push(Notice::Passed(event, recording));
                false
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{MS, US};

    /// One with so many contexts of two streams.
    fn device(contexts: usize) -> Device {
        let params = Params {
            slice: 1_000 * US,
            switch: 10 * US,
            event: US,
            ..Params::default()
        };
        let mut device = Device::new(&params);
        for _ in 0..contexts {
            device.context(2);
        }
        device
    }

    /// When each event passed, of all that happens.
    fn run(device: &mut Device) -> Vec<(usize, u64)> {
        let (mut notices, mut passed) = (Vec::new(), Vec::new());
        while device.next() != NEVER {
            let now = device.next();
            device.step(&mut notices);
            for notice in notices.drain(..) {
                if let Notice::Passed(event, _) = notice {
                    passed.push((event, now));
                }
            }
        }
        passed
    }

    #[test]
    fn a_stream_runs_in_order_and_two_streams_side_by_side() {
        let mut device = device(1);
        for (stream, ns) in [(0, 300 * US), (0, 200 * US), (1, 400 * US)] {
            device.push(0, stream, 0, ns, What::Kernel);
        }
        device.push(0, 0, 0, 0, What::Event(1, 1));
        device.push(0, 1, 0, 0, What::Event(2, 1));
        assert_eq!(run(&mut device), [(2, 401 * US), (1, 501 * US)]);
        // A union, not a sum.
        assert_eq!(device.used_so_far(0, MS), 500 * US);
    }

    #[test]
    fn contexts_with_work_take_slices_and_idle_ones_none() {
        let mut device = device(3);
        device.push(0, 0, 0, 2_500 * US, What::Kernel);
        device.push(0, 0, 0, 0, What::Event(1, 1));
        device.push(2, 0, 0, 1_500 * US, What::Kernel);
        device.push(2, 0, 0, 0, What::Event(2, 1));
        // 1000 of the first, 1000 of the other, 1000, 500 and the event, 500; a change takes 10 each time.
        let changes = 10 * US;
        let other = 3_501 * US + 3 * changes;
        let first = other + changes + 501 * US;
        assert_eq!(run(&mut device), [(2, other), (1, first)]);
        assert_eq!(device.used_so_far(0, 10 * MS), 2_500 * US);
        assert_eq!(device.used_so_far(1, 10 * MS), 0);
    }

    #[test]
    fn an_event_on_an_idle_stream_passes_beside_anothers_work_or_waits_for_it() {
        for passes in [true, false] {
            let mut device = device(2);
            device.idle_events_pass = passes;
            device.push(0, 0, 0, 900 * US, What::Kernel);
            device.push(1, 0, 100 * US, 0, What::Event(1, 1));
            let at = if passes { 100 * US } else { 911 * US };
            assert_eq!(run(&mut device), [(1, at)]);
        }
    }

    #[test]
    fn a_barrier_spins_until_it_is_released_also_while_others_have_their_slices() {
        let mut device = device(2);
        device.push(0, 0, 0, 0, What::Barrier(7));
        device.push(0, 0, 0, 0, What::Event(1, 1));
        device.push(1, 0, 0, 1_500 * US, What::Kernel);
        let mut notices = Vec::new();
        while device.next() < 5 * MS {
            device.step(&mut notices);
        }
        assert!(
            notices
                .iter()
                .any(|notice| matches!(notice, Notice::Arrived(7, 0, 0)))
        );
        assert!(
            !notices
                .iter()
                .any(|notice| matches!(notice, Notice::Passed(..)))
        );
        device.release(0, 0, 100 * US, 5 * MS);
        assert_eq!(run(&mut device), [(1, 5_101 * US)]);
        // All but the other's work and the changes.
        assert_eq!(
            device.used_so_far(0, 6 * MS),
            5_100 * US - 1_500 * US - 40 * US
        );
    }
}
