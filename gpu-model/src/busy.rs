//! When a container had a GPU: sums over short windows.

use crate::params::MS;

/// The length of a window, ns.
pub const WINDOW: u64 = 10 * MS;

/// GPU time that was used, window by window since time zero.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    windows: Vec<u64>,
    total: u64,
}

impl Busy {
    /// It was used from `begin` to `end`.
    pub fn add(&mut self, mut begin: u64, end: u64) {
        self.total += end.saturating_sub(begin);
        while begin < end {
            let index = usize::try_from(begin / WINDOW).unwrap_or(usize::MAX);
            let until = ((begin / WINDOW + 1) * WINDOW).min(end);
            if self.windows.len() <= index {
                self.windows.resize(index + 1, 0);
            }
            self.windows[index] += until - begin;
            begin = until;
        }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds what another one was used.
    pub fn merge(&mut self, other: &Self) {
        if self.windows.len() < other.windows.len() {
            self.windows.resize(other.windows.len(), 0);
        }
        for (window, more) in self.windows.iter_mut().zip(&other.windows) {
            *window += more;
        }
        self.total += other.total;
    }

    /// How much of `begin..end` it was used, to whole windows.
    #[must_use]
    pub fn between(&self, begin: u64, end: u64) -> u64 {
        let index = |at: u64| usize::try_from(at / WINDOW).unwrap_or(usize::MAX);
        let windows = self.windows.iter().take(index(end)).skip(index(begin));
        windows.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_split_where_windows_meet() {
        let mut busy = Busy::default();
        busy.add(WINDOW / 2, 3 * WINDOW + 5);
        assert_eq!(busy.between(0, WINDOW), WINDOW / 2);
        assert_eq!(busy.between(WINDOW, 3 * WINDOW), 2 * WINDOW);
        assert_eq!(busy.between(0, 4 * WINDOW), 5 * WINDOW / 2 + 5);
        assert_eq!(busy.between(4 * WINDOW, 9 * WINDOW), 0);
    }
}
