//! How long, and from which seed.

use std::time::{SystemTime, UNIX_EPOCH};

/// Of one run.
pub(crate) struct Settings {
    pub(crate) frames: u64,
    pub(crate) regions: u64,
    /// Regions that a whole daemon reads, a quarter as many questions, and a twentieth of rebirths.
    pub(crate) daemon: u64,
    pub(crate) seed: u64,
    /// Whether inputs that are answered as none before are added to the corpus in the repository.
    pub(crate) keep: bool,
}

impl Settings {
    /// From the variables that `cargo xtask fuzz` sets.
    pub(crate) fn get() -> Self {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(
                text.parse()
                    .unwrap_or_else(|_| panic!("{name}={text} is no number")),
            )
        };
        let clock = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_nanos()
        };
        let settings = Self {
            frames: number("FUZZ_FRAMES").unwrap_or(20_000),
            regions: number("FUZZ_REGIONS").unwrap_or(400),
            daemon: number("FUZZ_DAEMON").unwrap_or(100),
            seed: number("FUZZ_SEED")
                .unwrap_or_else(|| u64::try_from(clock() & u128::from(u64::MAX)).unwrap()),
            keep: std::env::var_os("FUZZ_KEEP").is_some(),
        };
        eprintln!(
            "FUZZ_SEED={} FUZZ_FRAMES={} FUZZ_REGIONS={} FUZZ_DAEMON={}",
            settings.seed, settings.frames, settings.regions, settings.daemon
        );
        settings
    }
}
