//! What the driver, the GPU and the host are like: every number that is not known for certain is one of these.

/// Nanoseconds in a microsecond.
pub const US: u64 = 1_000;
/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// From one number to another, in ns, each as likely.
#[derive(Clone, Copy, Debug)]
pub struct Spread(pub u64, pub u64);

impl Spread {
    /// One of its numbers.
    pub fn draw(self, rng: &mut fastrand::Rng) -> u64 {
        if self.0 >= self.1 {
            return self.0;
        }
        rng.u64(self.0..=self.1)
    }
}

/// The world's parameters.
#[derive(Clone, Debug)]
pub struct Params {
    /// How long a context has the GPU while another one has work too.
    pub slice: u64,
    /// What the change from one context to another takes.
    pub switch: u64,
    /// Streams of one context whose kernels run side by side.
    pub side_by_side: usize,
    /// Launches that a stream holds before the next one blocks.
    pub depth: u64,
    /// What a launch takes of the host's time.
    pub launch: Spread,
    /// From the end of the call to the start on an idle GPU.
    pub latency: u64,
    /// What an event takes of its stream's time on the GPU.
    pub event: u64,
    /// Whether an event on an idle stream passes at once while another context has the GPU, as in the simulator.
    pub idle_events_pass: bool,
    /// How long after an event has passed the host can see that.
    pub seen_after: Spread,
    /// What a short driver call (record, query) takes of the host's time.
    pub call: u64,
    /// How late a sleeper runs whose timer or futex has ended its sleep.
    pub wake: Spread,
    /// How late a thread goes on that waited for the GPU.
    pub synchronised: Spread,
    /// How long a thread runs on average before it loses its processor; 0: it never does.
    pub stall_every: u64,
    /// And for how long.
    pub stall: Spread,
    /// What the daemon's look at one container takes.
    pub look: u64,
    /// What it takes to write a row and wake its sleepers.
    pub write: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            slice: 1_024 * US,
            switch: 5 * US,
            side_by_side: 8,
            depth: 1024,
            launch: Spread(1_200, 2_000),
            latency: 5 * US,
            event: US,
            idle_events_pass: true,
            seen_after: Spread(10 * US, 30 * US),
            call: 600,
            wake: Spread(30 * US, 90 * US),
            synchronised: Spread(6 * US, 12 * US),
            stall_every: 2 * SECOND,
            stall: Spread(MS, 3 * MS),
            look: 8 * US,
            write: 2 * US,
        }
    }
}

impl Params {
    /// Changes one of them, as `slice=2000us` or `idle-events-pass=0`; a spread becomes one number.
    ///
    /// # Errors
    /// There is no such parameter, or the number is none.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is not NAME=VALUE"))?;
        let value =
            duration(value).ok_or_else(|| format!("{value:?} is no number of ns, us, ms or s"))?;
        match name {
            "slice" => self.slice = value.max(1),
            "switch" => self.switch = value,
            "side-by-side" => self.side_by_side = usize::try_from(value).unwrap_or(1),
            "depth" => self.depth = value.max(1),
            "launch" => self.launch = Spread(value, value),
            "latency" => self.latency = value,
            "event" => self.event = value,
            "idle-events-pass" => self.idle_events_pass = value != 0,
            "seen-after" => self.seen_after = Spread(value, value),
            "call" => self.call = value,
            "wake" => self.wake = Spread(value, value),
            "synchronised" => self.synchronised = Spread(value, value),
            "stall-every" => self.stall_every = value,
            "stall" => self.stall = Spread(value, value),
            "look" => self.look = value,
            "write" => self.write = value,
            _ => return Err(format!("no parameter is called {name:?}")),
        }
        Ok(())
    }
}

/// A time with its unit, or a plain number.
fn duration(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match text.get(digits.len()..)? {
        "" | "ns" => 1,
        "us" => US,
        "ms" => MS,
        "s" => SECOND,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_by_name() {
        let mut params = Params::default();
        params.set("slice=2ms").unwrap();
        params.set("wake=50us").unwrap();
        params.set("idle-events-pass=0").unwrap();
        assert_eq!(params.slice, 2 * MS);
        assert_eq!((params.wake.0, params.wake.1), (50 * US, 50 * US));
        assert!(!params.idle_events_pass);
        for wrong in ["slice", "slice=2h", "slices=1", "slice=ms"] {
            assert!(params.set(wrong).is_err(), "{wrong}");
        }
    }
}
