//! The thread that reads, and what it last read.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::text::clock;
use super::{Detail, Reading, Source};

/// How often to look.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two readings while NVML answers: a process is seen twice within the time in which it must be known.
    pub often: Duration,
    /// Between two tries while it does not.
    pub seldom: Duration,
    /// Between two readings that somebody asked for, at least.
    pub least: Duration,
    /// Who asks is thought to look on for so long.
    pub attention: Duration,
    /// A reading that takes longer than this hangs.
    pub patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            often: Duration::from_millis(800),
            seldom: Duration::from_secs(5),
            least: Duration::from_millis(100),
            attention: Duration::from_secs(60),
            patience: Duration::from_secs(3),
        }
    }
}

struct State {
    last: Arc<Reading>,
    /// When the reading that is under way began, on both clocks.
    begun: Option<(Instant, u64)>,
    /// When somebody last asked.
    asked: Option<Instant>,
    /// Whether nobody has read since.
    poked: bool,
    stopped: bool,
}

struct Shared {
    state: Mutex<State>,
    /// Something has changed for the reader, or for who waits for the first reading.
    changed: Condvar,
    pace: Pace,
}

/// Reads the GPUs, now and then, on a thread of its own.
pub struct Watcher {
    shared: Arc<Shared>,
}

impl Watcher {
    /// Starts reading. `ring` is called after each reading, on the reading thread.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(
        source: impl Source + 'static,
        pace: Pace,
        ring: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let none = Reading::none(Some("NVML has not answered yet".to_owned()));
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                last: Arc::new(none),
                begun: None,
                asked: None,
                poked: false,
                stopped: false,
            }),
            changed: Condvar::new(),
            pace,
        });
        let readers = Arc::clone(&shared);
        thread::Builder::new()
            .name("gpu-watcher".to_owned())
            .spawn(move || readers.run(source, ring))?;
        Ok(Self { shared })
    }

    /// The last reading; where the next one hangs, the devices of the last with the trouble. Never waits.
    #[must_use]
    pub fn latest(&self) -> Arc<Reading> {
        self.shared.latest(&self.shared.state.lock())
    }

    /// The first reading, or what is known after so long. For the start, when limits need devices.
    #[must_use]
    pub fn first(&self, most: Duration) -> Arc<Reading> {
        let mut state = self.shared.state.lock();
        let wanted = |state: &mut State| state.last.number == 0;
        let _ = self.shared.changed.wait_while_for(&mut state, wanted, most);
        self.shared.latest(&state)
    }

    /// Asks for a reading soon, and for full ones for a while.
    pub fn poke(&self) {
        let mut state = self.shared.state.lock();
        state.asked = Some(Instant::now());
        state.poked = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Not joined: it may hang in the driver.
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn latest(&self, state: &MutexGuard<'_, State>) -> Arc<Reading> {
        match state.begun {
            Some((begun, unix)) if begun.elapsed() > self.pace.patience => {
                let text = format!(
                    "NVML has not answered since {}: it hangs in the driver; see `dmesg`",
                    clock(unix)
                );
                Arc::new(state.last.blind(&text))
            }
            _ => Arc::clone(&state.last),
        }
    }

    fn run(&self, mut source: impl Source, ring: impl Fn()) {
        let mut state = self.state.lock();
        while !state.stopped {
            let detail = self.detail(&state);
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            state.begun = Some((Instant::now(), now.map_or(0, |time| time.as_secs())));
            state.poked = false;
            drop(state);

            let read = catch_unwind(AssertUnwindSafe(|| source.read(detail)));

            state = self.state.lock();
            state.begun = None;
            let number = state.last.number + 1;
            let reading = match read {
                Ok(reading) => Reading { number, ..reading },
                Err(_) => Reading {
                    number,
                    ..state
                        .last
                        .blind("the reading of NVML failed half-way, which is a bug")
                },
            };
            let pause = if reading.sees() {
                self.pace.often
            } else {
                self.pace.seldom
            };
            state.last = Arc::new(reading);
            self.changed.notify_all();
            let until = Instant::now() + pause;
            drop(state);
            ring();
            state = self.pause(until);
        }
    }

    /// Sleeps until it is time, or somebody asks.
    fn pause(&self, until: Instant) -> MutexGuard<'_, State> {
        let least = (Instant::now() + self.pace.least).min(until);
        let mut state = self.state.lock();
        let early = |state: &mut State| !state.stopped && Instant::now() < least;
        let _ = self.changed.wait_while_until(&mut state, early, least);
        let idle = |state: &mut State| !state.stopped && !state.poked;
        let _ = self.changed.wait_while_until(&mut state, idle, until);
        state
    }

    fn detail(&self, state: &MutexGuard<'_, State>) -> Detail {
        let heeded = |asked: Instant| asked.elapsed() < self.pace.attention;
        if state.asked.is_some_and(heeded) || state.last.number == 0 {
            Detail::Full
        } else {
            Detail::Glance
        }
    }
}

#[cfg(test)]
mod tests;
