//! Own wall time charged: a bucket of time, and launches are charged what lies between events of one's own, whoever ran then.
//!
//! Each function has a moving average; what is in flight is bounded; a span of about a millisecond is corrected when its events
//! have passed.

use core::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use super::{Launch, Scheme};
use crate::host::Host;
use crate::params::{MS, US};

/// What a function costs that was never seen, ns.
const GUESS: f64 = 1e6;
/// A span is closed at so much work, ns.
const SPAN: f64 = 1e6;
/// Work in flight, ns.
const BOUND: f64 = 4e6;
/// What is saved up, ns.
const BURST: f64 = 5e6;

struct Span {
    begin: usize,
    end: usize,
    estimate: f64,
    launches: f64,
    /// The only function in it.
    name: Option<usize>,
}

#[derive(Default)]
struct Own {
    open: Option<Span>,
    pending: VecDeque<Span>,
    flying: f64,
}

#[derive(Default)]
struct State {
    level: f64,
    filled_at: u64,
    costs: HashMap<usize, f64>,
    threads: HashMap<usize, Own>,
}

/// The bucket of one container.
pub struct Wall {
    share: f64,
    state: RefCell<State>,
}

impl Wall {
    /// With a limit in ppm.
    #[must_use]
    pub fn new(ppm: u32) -> Self {
        Self {
            share: f64::from(ppm) / 1e6,
            state: RefCell::default(),
        }
    }

    fn settle(&self, host: &Host<'_>) {
        let now = host.now();
        let state = &mut *self.state.borrow_mut();
        if state.filled_at != 0 {
            let earned = now.saturating_sub(state.filled_at) as f64 * self.share;
            state.level = (state.level + earned).min(BURST);
        }
        state.filled_at = now;
        let own = state.threads.entry(host.task.number).or_default();
        while let Some(span) = own.pending.front() {
            let Some(took) = host.between(span.begin, span.end) else {
                break;
            };
            state.level += span.estimate - took;
            own.flying -= span.estimate;
            if let Some(name) = span.name {
                let each = took / span.launches;
                let cost = state.costs.entry(name).or_insert(each);
                *cost += (each - *cost) / 4.0;
            }
            own.pending.pop_front();
        }
    }

    fn close(&self, host: &Host<'_>, stream: usize) {
        let number = host.task.number;
        let open = {
            let mut state = self.state.borrow_mut();
            state.threads.entry(number).or_default().open.take()
        };
        if let Some(mut span) = open {
            span.end = host.record_own(stream);
            let mut state = self.state.borrow_mut();
            let own = state.threads.entry(number).or_default();
            own.flying += span.estimate;
            own.pending.push_back(span);
        }
    }

    /// How long to wait before a launch; `None`: not at all.
    fn wait(&self, host: &Host<'_>) -> Option<u64> {
        let state = self.state.borrow();
        if state.level <= 0.0 {
            let wait = (100e3 - state.level) / self.share;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a time that is not negative and is cut off"
            )]
            return Some((wait as u64).clamp(20 * US, 100 * MS));
        }
        let own = state.threads.get(&host.task.number)?;
        (own.flying > BOUND).then_some(200 * US)
    }
}

impl Scheme for Wall {
    fn launch(&self, host: &Host<'_>, stream: usize, work: Launch, put: &dyn Fn()) {
        host.task.catch_up();
        self.settle(host);
        while let Some(wait) = self.wait(host) {
            self.close(host, stream);
            host.task.sleep(wait);
            self.settle(host);
        }
        let number = host.task.number;
        let opened = {
            let mut state = self.state.borrow_mut();
            state.threads.entry(number).or_default().open.is_some()
        };
        let begin = if opened { 0 } else { host.record_own(stream) };
        let full = {
            let state = &mut *self.state.borrow_mut();
            let cost = state.costs.get(&work.name).copied().unwrap_or(GUESS);
            state.level -= cost;
            let own = state.threads.entry(number).or_default();
            let span = own.open.get_or_insert(Span {
                begin,
                end: 0,
                estimate: 0.0,
                launches: 0.0,
                name: Some(work.name),
            });
            span.estimate += cost;
            span.launches += 1.0;
            span.name = span.name.filter(|name| *name == work.name);
            span.estimate >= SPAN
        };
        put();
        if full {
            self.close(host, stream);
        }
    }

    fn joins(&self, _contexts: &[usize]) {}

    fn rests(&self, host: &Host<'_>) {
        self.close(host, 0);
    }
}
