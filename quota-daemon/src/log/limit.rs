//! Lines that a tenant can cause come at most so often, of each kind and container: whoever fills the log hides in it.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// So many lines at once, ...
const BURST: u32 = 5;
/// ... and then one in this time.
const EVERY: Duration = Duration::from_secs(10);
/// Containers and kinds that are told apart; beyond that they share.
const MOST: usize = 4096;

static LINES: LazyLock<Mutex<Limiter>> = LazyLock::new(Mutex::default);

/// Whether a line of this kind about this container may be written now; then how many could not since the last one.
#[must_use]
pub fn allowed(container: &str, kind: &'static str) -> Option<u64> {
    LINES.lock().allowed_at(Instant::now(), container, kind)
}

/// How many lines could not be written.
#[must_use]
pub fn suppressed() -> u64 {
    LINES.lock().suppressed
}

/// Counts lines by container and kind.
#[derive(Default)]
pub struct Limiter {
    kinds: HashMap<(String, &'static str), Kind>,
    suppressed: u64,
}

struct Kind {
    left: u32,
    filled: Instant,
    suppressed: u64,
}

impl Limiter {
    /// As [`allowed`], at this moment.
    pub fn allowed_at(&mut self, now: Instant, container: &str, kind: &'static str) -> Option<u64> {
        let mut key = (container.to_owned(), kind);
        if self.kinds.len() >= MOST && !self.kinds.contains_key(&key) {
            self.forget(now);
            if self.kinds.len() >= MOST {
                key = (String::new(), "others");
            }
        }
        let lines = self.kinds.entry(key).or_insert(Kind {
            left: BURST,
            filled: now,
            suppressed: 0,
        });
        while lines.left < BURST && now.saturating_duration_since(lines.filled) >= EVERY {
            lines.left += 1;
            lines.filled += EVERY;
        }
        if lines.left == BURST {
            lines.filled = now;
        }
        match lines.left.checked_sub(1) {
            Some(left) => {
                lines.left = left;
                Some(std::mem::take(&mut lines.suppressed))
            }
            None => {
                lines.suppressed += 1;
                self.suppressed += 1;
                None
            }
        }
    }

    /// Those that have been silent for long enough are as good as new.
    fn forget(&mut self, now: Instant) {
        let silence = EVERY * BURST;
        self.kinds
            .retain(|_, kind| now.saturating_duration_since(kind.filled) < silence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_a_count() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        let mut lines = 0;
        for _ in 0..1000 {
            lines += u32::from(limiter.allowed_at(start, "a", "frame").is_some());
        }
        assert_eq!(lines, BURST);
        assert_eq!(limiter.suppressed, 1000 - u64::from(BURST));
        let later = start + EVERY;
        assert_eq!(limiter.allowed_at(later, "a", "frame"), Some(995));
        assert_eq!(limiter.allowed_at(later, "a", "frame"), None);
        let much_later = later + EVERY * 1000;
        assert_eq!(limiter.allowed_at(much_later, "a", "frame"), Some(1));
        assert_eq!(limiter.allowed_at(much_later, "a", "frame"), Some(0));
    }

    #[test]
    fn one_container_does_not_silence_another() {
        let mut limiter = Limiter::default();
        let now = Instant::now();
        while limiter.allowed_at(now, "a", "frame").is_some() {}
        assert_eq!(limiter.allowed_at(now, "b", "frame"), Some(0));
        assert_eq!(limiter.allowed_at(now, "a", "other"), Some(0));
    }

    #[test]
    fn names_without_end_take_no_memory_without_end() {
        let mut limiter = Limiter::default();
        let now = Instant::now();
        for number in 0..MOST * 2 {
            let _ = limiter.allowed_at(now, &number.to_string(), "frame");
        }
        assert!(limiter.kinds.len() <= MOST + 1, "{}", limiter.kinds.len());
        let later = now + EVERY * BURST;
        assert_eq!(limiter.allowed_at(later, "new", "frame"), Some(0));
        assert!(limiter.kinds.len() < 3, "{}", limiter.kinds.len());
    }
}
