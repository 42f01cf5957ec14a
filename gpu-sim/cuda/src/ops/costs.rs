//! How long things take. All of it can be set by the environment; the defaults are those of a
//! data-centre GPU of recent years, rounded.

use std::sync::OnceLock;

use gpu_sim_core::Bandwidth;

/// Durations and bandwidths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Costs {
    /// A kernel that is not a built-in, in nanoseconds: at least this, ...
    kernel_ns: u64,
    /// ... and this many picoseconds more per thread.
    thread_ps: u64,
    /// Device memory.
    memory: Bandwidth,
    /// The bus, per direction, in bytes per microsecond.
    bus: u64,
    /// What a copy over the bus takes before its first byte.
    copy_ns: u64,
}

/// The costs that the environment asks for.
pub(crate) fn costs() -> &'static Costs {
    static COSTS: OnceLock<Costs> = OnceLock::new();
    COSTS.get_or_init(|| Costs::from_lookup(|name| std::env::var(name).ok()))
}

impl Costs {
    fn from_lookup(get: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str, default: u64| match get(name) {
            None => default,
            Some(text) => text.trim().parse().unwrap_or_else(|_| {
                eprintln!("gpu-sim: {name}={text:?} is not a whole number; {default} is used");
                default
            }),
        };
        Self {
            kernel_ns: number("GPU_SIM_KERNEL_NS", 2_000),
            thread_ps: number("GPU_SIM_THREAD_PS", 10),
            memory: Bandwidth::from_lookup(&get),
            // GB/s are thousands of bytes per microsecond.
            bus: number("GPU_SIM_BUS_GBPS", 25).max(1) * 1_000,
            copy_ns: number("GPU_SIM_COPY_NS", 1_500),
        }
    }

    /// A kernel of which nothing is known but its threads.
    pub(crate) fn kernel(&self, threads: u64) -> u64 {
        self.kernel_ns
            .saturating_add(threads.saturating_mul(self.thread_ps) / 1_000)
    }

    /// Reading and writing so many bytes of device memory.
    pub(crate) fn memory(&self, bytes: u64) -> u64 {
        self.kernel_ns.saturating_add(self.memory.time(bytes))
    }

    /// A copy over the bus.
    pub(crate) fn bus(&self, bytes: u64) -> u64 {
        self.copy_ns
            .saturating_add(bytes.saturating_mul(1_000) / self.bus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_follow_the_environment() {
        let default = Costs::from_lookup(|_| None);
        assert_eq!(default.kernel(1_000_000), 12_000);
        assert_eq!(default.bus(25_000_000), 1_001_500);
        assert_eq!(default.memory(3_352_000), 3_000);
        let slow = Costs::from_lookup(|name| (name == "GPU_SIM_BUS_GBPS").then(|| "1".to_owned()));
        assert_eq!(slow.bus(25_000_000), 25_001_500);
    }
}
