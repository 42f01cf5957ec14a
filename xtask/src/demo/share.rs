//! What part of the GPU's time was somebody's, by two readings of (clock, busy).

/// The percentage of the clock that was spent busy between two figures.
#[expect(clippy::cast_precision_loss, reason = "a share of a few seconds")]
pub(super) fn share(start: (u64, u64), end: (u64, u64)) -> f64 {
    let elapsed = end.0.saturating_sub(start.0);
    if elapsed == 0 {
        return 0.0;
    }
    100.0 * end.1.saturating_sub(start.1) as f64 / elapsed as f64
}

/// The same over the last moments; `None` where they are too few to tell: in a few milliseconds a single kernel is half of it.
pub(super) fn recent(start: (u64, u64), end: (u64, u64)) -> Option<f64> {
    const ENOUGH_NS: u64 = 100_000_000;
    (end.0.saturating_sub(start.0) >= ENOUGH_NS).then(|| share(start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_busy_time_over_the_clock() {
        assert!((share((100, 50), (200, 80)) - 30.0).abs() < 1e-9);
        assert!(share((100, 50), (100, 50)).abs() < 1e-9);
    }

    #[test]
    fn a_few_milliseconds_are_no_share() {
        assert_eq!(recent((0, 0), (99_999_999, 50_000_000)), None);
        assert_eq!(recent((0, 0), (100_000_000, 50_000_000)), Some(50.0));
    }
}
