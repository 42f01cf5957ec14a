//! The common design: tokens are blocks of the grid, and how many there are is corrected by what NVML calls utilisation.
//!
//! A launch takes as many tokens as its grid has blocks, and waits while there are none. Every 120 ms the container's utilisation
//! is compared with its limit, and tokens come faster or slower. Graphs are not limited. What the common implementations do
//! worse than this is left out: that they poll, count processes apart, and see a utilisation that is a second old.

use core::cell::RefCell;

use super::{Launch, Scheme};
use crate::host::Host;
use crate::params::MS;

/// How often the utilisation is looked at.
const LOOK: u64 = 120 * MS;
/// Over how long NVML looks back.
const SAMPLE: u64 = 167 * MS;
/// Tokens a second at first: what a large GPU runs of small kernels.
const FIRST: f64 = 1e7;

struct State {
    contexts: Vec<Vec<usize>>,
    tokens: f64,
    filled_at: u64,
    /// Tokens a nanosecond.
    rate: f64,
    looked_at: u64,
    /// GPU time used until some moments, to see what was used in the last sample.
    used: Vec<(u64, u64)>,
}

/// Tokens of one container.
pub struct Blocks {
    share: f64,
    state: RefCell<State>,
}

impl Blocks {
    /// With a limit in ppm.
    #[must_use]
    pub fn new(ppm: u32) -> Self {
        Self {
            share: f64::from(ppm) / 1e6,
            state: RefCell::new(State {
                contexts: Vec::new(),
                tokens: 0.0,
                filled_at: 0,
                rate: FIRST / 1e9,
                looked_at: 0,
                used: Vec::new(),
            }),
        }
    }

    /// Brings tokens up to now; when the next look is due.
    fn refill(&self, host: &Host<'_>) -> u64 {
        let now = host.now();
        let state = &mut *self.state.borrow_mut();
        if state.filled_at == 0 {
            (state.filled_at, state.looked_at) = (now, now);
        }
        if now >= state.looked_at + LOOK {
            state.looked_at = now;
            let used = state.contexts.iter().map(|of| host.used_on(of)).sum();
            state.used.push((now, used));
            while state.used.len() > 2 && state.used[1].0 + SAMPLE <= now {
                state.used.remove(0);
            }
            let (since, before) = state.used[0];
            if since < now {
                // Whole per cent, as NVML tells it.
                let busy = used.saturating_sub(before) as f64 / (now - since) as f64;
                let busy = (busy * 100.0).round() / 100.0;
                let change = self.share / busy.max(0.005);
                state.rate *= change.clamp(0.7, 1.4);
            }
        }
        let filled = (now - state.filled_at.min(now)) as f64 * state.rate;
        // No more is saved up than comes between two looks.
        state.tokens = (state.tokens + filled).min(state.rate * LOOK as f64);
        state.filled_at = now;
        state.looked_at + LOOK
    }
}

impl Scheme for Blocks {
    fn launch(&self, host: &Host<'_>, _stream: usize, work: Launch, put: &dyn Fn()) {
        if let Some(blocks) = work.blocks {
            host.task.catch_up();
            loop {
                let looks_at = self.refill(host);
                let (tokens, rate) = {
                    let state = self.state.borrow();
                    (state.tokens, state.rate)
                };
                if tokens > 0.0 {
                    break;
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a time that is not negative; what is too long ends with the next look"
                )]
                let wait = ((1.0 - tokens) / rate) as u64;
                host.task
                    .sleep_until(host.now().saturating_add(wait).min(looks_at));
            }
            self.state.borrow_mut().tokens -= blocks as f64;
        }
        put();
    }

    fn joins(&self, contexts: &[usize]) {
        self.state.borrow_mut().contexts.push(contexts.to_vec());
    }

    fn rests(&self, _host: &Host<'_>) {}
}
