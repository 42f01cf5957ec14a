//! Bare and hooked in turns, and what the turns say.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

/// How long the sampling goes on.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Turns of each kind.
    pub(crate) rounds: usize,
    /// Calls in a turn: enough to hold refills and whatever else comes now and then.
    pub(crate) calls: usize,
}

/// Nanoseconds a call, one for each turn.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) bare: Vec<f64>,
    pub(crate) hooked: Vec<f64>,
}

/// A call in one of its two forms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Bare,
    Hooked,
}

/// Times `call` on this thread, by the wall clock: a call that waits is slow.
pub(crate) fn alone(effort: Effort, mut call: impl FnMut(Form)) -> Samples {
    let mut samples = Samples::default();
    for round in 0..=effort.rounds {
        // The first form in a round alternates, so that neither always finds the caches warm.
        let forms = if round % 2 == 0 {
            [Form::Bare, Form::Hooked]
        } else {
            [Form::Hooked, Form::Bare]
        };
        for form in forms {
            let per_call = turn(libc::CLOCK_MONOTONIC, effort.calls, || call(form));
            if round > 0 {
                samples.push(form, per_call);
            }
        }
    }
    samples
}

/// Times `call` on `threads` threads at once, by each thread's CPU clock: with fewer cores than
/// threads the wall clock would count the others' work. `prepare` makes a thread's own call.
pub(crate) fn together<C: FnMut(Form)>(
    threads: usize,
    effort: Effort,
    prepare: impl Fn() -> C + Sync,
) -> Samples {
    let barrier = Barrier::new(threads);
    let work = || {
        let mut call = prepare();
        let mut samples = Samples::default();
        for round in 0..=effort.rounds {
            for form in [Form::Bare, Form::Hooked] {
                barrier.wait();
                let per_call = turn(libc::CLOCK_THREAD_CPUTIME_ID, effort.calls, || call(form));
                if round > 0 {
                    samples.push(form, per_call);
                }
            }
        }
        samples
    };
    let mut all = Samples::default();
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for handle in handles {
            if let Ok(samples) = handle.join() {
                all.bare.extend(samples.bare);
                all.hooked.extend(samples.hooked);
            }
        }
    });
    all
}

impl Samples {
    fn push(&mut self, form: Form, per_call: f64) {
        match form {
            Form::Bare => self.bare.push(per_call),
            Form::Hooked => self.hooked.push(per_call),
        }
    }

    /// One line of JSON. What the hook adds is taken turn by turn, so that a drift of the
    /// machine's speed cancels out.
    pub(crate) fn print(&self, row: &str, threads: usize) {
        let added: Vec<_> = self
            .hooked
            .iter()
            .zip(&self.bare)
            .map(|(hooked, bare)| hooked - bare)
            .collect();
        println!(
            r#"{{"row":"{row}","threads":{threads},"turns":{},"bare":{},"hooked":{},"added":{}}}"#,
            added.len(),
            quartiles(&self.bare),
            quartiles(&self.hooked),
            quartiles(&added)
        );
    }
}

/// The mean time of a call in nanoseconds by `clock`.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a few seconds")]
fn turn(clock: libc::clockid_t, calls: usize, mut call: impl FnMut()) -> f64 {
    let start = now(clock);
    for _ in 0..calls {
        black_box(&mut call)();
    }
    (now(clock) - start) as f64 / calls as f64
}

fn now(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the out-pointer is valid; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn quartiles(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| {
        let index = (sorted.len().saturating_sub(1) * quarter + 2) / 4;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    };
    format!(
        r#"{{"p25":{:.2},"median":{:.2},"p75":{:.2}}}"#,
        at(1),
        at(2),
        at(3)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_order_statistics() {
        let text = quartiles(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(text, r#"{"p25":2.00,"median":3.00,"p75":4.00}"#);
    }

    #[test]
    fn both_forms_are_called_equally_often() {
        let (mut bare, mut hooked) = (0, 0);
        let effort = Effort {
            rounds: 3,
            calls: 10,
        };
        let samples = alone(effort, |form| match form {
            Form::Bare => bare += 1,
            Form::Hooked => hooked += 1,
        });
        assert_eq!((bare, hooked), (40, 40), "one round warms up");
        assert_eq!((samples.bare.len(), samples.hooked.len()), (3, 3));
    }
}
