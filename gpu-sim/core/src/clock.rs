//! The one clock that all processes of a simulation share, in whatever time namespaces they are.

use std::sync::OnceLock;

/// The host's `CLOCK_MONOTONIC` in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to; the clock id always exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // A monotonic clock counts from boot: neither part is ever negative.
    let own = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
    own.saturating_add_signed(-offset())
}

/// The same moment by the clock of this process, which the kernel's calls go by.
#[must_use]
pub fn own_ns(host: u64) -> u64 {
    host.saturating_add_signed(offset())
}

/// What this process's time namespace adds to the host's clock.
fn offset() -> i64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        // Since Linux 5.6; without the file there is one clock for all.
        let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        monotonic(&offsets).unwrap_or(0)
    })
}

/// The line `monotonic SECONDS NANOSECONDS`.
fn monotonic(offsets: &str) -> Option<i64> {
    let line = offsets
        .lines()
        .find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_ascii_whitespace();
    let seconds: i64 = numbers.next()?.parse().ok()?;
    let nanoseconds: i64 = numbers.next()?.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_line_counts() {
        let offsets = "monotonic           -2         5\nboottime             7         0\n";
        assert_eq!(monotonic(offsets), Some(-1_999_999_995));
        assert_eq!(monotonic(""), None);
    }
}
