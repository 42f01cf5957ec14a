//! How fast device memory is: what copies and fills take, and what libcuda and NVML state as clock and width, must be one thing.

use std::sync::OnceLock;

use crate::config::variable;

/// A card of recent years, in GB/s.
const DEFAULT_GBPS: u64 = 3352;

/// Bits that memory moves at each of its two transfers a clock.
pub const MEMORY_BUS_BITS: u32 = 5120;

/// The bandwidth of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    gbps: u64,
}

impl Bandwidth {
    /// As `GPU_SIM_MEMORY_GBPS` says. A value that is no whole number is told once on stderr.
    #[must_use]
    pub fn from_env() -> Self {
        static BANDWIDTH: OnceLock<Bandwidth> = OnceLock::new();
        *BANDWIDTH.get_or_init(|| Self::from_lookup(variable))
    }

    /// The same from any source of variables.
    #[must_use]
    pub fn from_lookup(get: impl Fn(&str) -> Option<String>) -> Self {
        let asked = get("GPU_SIM_MEMORY_GBPS").map(|text| {
            text.trim().parse().unwrap_or_else(|_| {
                eprintln!("gpu-sim: GPU_SIM_MEMORY_GBPS={text:?} is not a whole number; {DEFAULT_GBPS} is used");
                DEFAULT_GBPS
            })
        });
        // The stated clock has to be one that an integer of the driver's holds.
        let gbps = asked.unwrap_or(DEFAULT_GBPS).clamp(1, 1_000_000);
        Self { gbps }
    }

    /// The clock that makes it so, in kHz.
    #[must_use]
    pub fn clock_khz(self) -> u32 {
        // GB/s to bytes per millisecond, by what one clock moves.
        let khz = self.gbps * 1_000_000 / u64::from(2 * MEMORY_BUS_BITS / 8);
        u32::try_from(khz).unwrap_or(u32::MAX)
    }

    /// How long so many bytes take, in nanoseconds.
    #[must_use]
    pub fn time(self, bytes: u64) -> u64 {
        // GB/s are bytes per nanosecond.
        bytes / self.gbps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stated_is_what_it_takes() {
        for gbps in [1_u64, 200, 3352, 8000] {
            let bandwidth = Bandwidth::from_lookup(|_| Some(gbps.to_string()));
            let stated = u64::from(bandwidth.clock_khz()) * 2 * u64::from(MEMORY_BUS_BITS) / 8;
            let bytes = 1_u64 << 30;
            // Bytes per millisecond.
            let by_statement = bytes * 1_000_000 / stated;
            let takes = bandwidth.time(bytes);
            assert!(
                takes.abs_diff(by_statement) * 200 <= takes,
                "{gbps}: {takes} {by_statement}"
            );
        }
        let nonsense = Bandwidth::from_lookup(|_| Some("fast".into()));
        assert_eq!(nonsense, Bandwidth::from_lookup(|_| None));
        assert_eq!(nonsense.clock_khz() / 1000, 2618);
    }
}
