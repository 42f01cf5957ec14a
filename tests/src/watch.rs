//! Who had how much of a simulated device's time, between which moments: a process that reads the simulator's account at short
//! distances while a test goes on.

use std::time::{Duration, Instant};

use crate::account::Account;
use crate::client::Running;
use crate::sim::Sim;

/// A moment of the clock that the simulation and all its processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Now, by the clock of the simulation.
    #[must_use]
    pub fn now() -> Self {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: a live out-pointer.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        Self(u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap())
    }

    /// As a program told it.
    #[must_use]
    pub fn at(clock_ns: u64) -> Self {
        Self(clock_ns)
    }

    /// So much earlier.
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        Self(self.0 - u64::try_from(time.as_nanos()).unwrap())
    }

    /// So much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0 + u64::try_from(time.as_nanos()).unwrap())
    }

    /// How long after another moment it is.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The account, being read.
#[derive(Debug)]
pub struct Watch {
    client: Running,
}

/// All that was read.
#[derive(Debug)]
pub struct Seen {
    looks: Vec<Account>,
}

impl Sim {
    /// Reads the account from now on, so often.
    #[must_use]
    pub fn watch(&self, every: Duration) -> Watch {
        let client = self.client("watch").bare();
        let mut client = client.arg(every.as_micros().to_string()).spawn();
        client.line("{");
        Watch { client }
    }
}

impl Watch {
    /// Waits until a look after `moment` has been taken, and answers with all there were.
    #[must_use]
    #[track_caller]
    pub fn end_after(self, moment: Moment) -> Seen {
        let begin = Instant::now();
        while Moment::now() <= moment.after(Duration::from_millis(20)) {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "watched too long"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let finished = self.client.finish().ok();
        let looks = finished.stdout.lines();
        let looks = looks.map(|line| serde_json::from_str(line).unwrap());
        Seen {
            looks: looks.collect(),
        }
    }
}

impl Seen {
    /// GPU time that `label` had had on a device by some moment, ns: between two looks, in proportion.
    fn busy(&self, device: usize, label: &str, moment: Moment) -> f64 {
        let of = |look: &Account| {
            let tenants = &look.devices[device].tenants;
            let found = tenants.iter().find(|tenant| tenant.label == label);
            found.map_or(0, |tenant| tenant.busy_ns) as f64
        };
        let later = self
            .looks
            .partition_point(|look| look.clock_ns < moment.0)
            .clamp(1, self.looks.len() - 1);
        let (before, after) = (&self.looks[later - 1], &self.looks[later]);
        let part = (moment.0 as f64 - before.clock_ns as f64)
            / (after.clock_ns - before.clock_ns).max(1) as f64;
        of(before) + (of(after) - of(before)) * part.clamp(0.0, 1.0)
    }

    /// The percentage of a device's time that `label` had from one moment to another.
    #[must_use]
    pub fn percent(&self, device: usize, label: &str, from: Moment, to: Moment) -> f64 {
        let busy = self.busy(device, label, to) - self.busy(device, label, from);
        busy * 100.0 / (to.0 - from.0) as f64
    }

    /// How long after `from` the first `window` began in which `label` had a percentage that suits.
    #[must_use]
    pub fn comes_to(
        &self,
        label: &str,
        from: Moment,
        window: Duration,
        suits: impl Fn(f64) -> bool,
    ) -> Option<Duration> {
        let last = Moment(self.looks.last()?.clock_ns);
        let mut at = from;
        while at.after(window).0 <= last.0 {
            if suits(self.percent(0, label, at, at.after(window))) {
                return Some(at.since(from));
            }
            at = at.after(Duration::from_micros(500));
        }
        None
    }
}
