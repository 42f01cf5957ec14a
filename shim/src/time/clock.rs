//! The host's monotonic clock, and sleeping by it.

use quota_abi::sync::{AtomicI64, AtomicU32, Ordering::Relaxed};

const SECOND: i64 = 1_000_000_000;

/// What this process's time namespace adds to the host's clock, ns.
static OFFSET: AtomicI64 = AtomicI64::new(0);

/// Learns the offset of the time namespace: times in the region are the host's.
pub(super) fn begin() {
    // Linux 5.6; older kernels have one clock for all.
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    OFFSET.store(monotonic_offset(&offsets), Relaxed);
}

/// Nanoseconds of the host's `CLOCK_MONOTONIC`.
#[inline]
pub(super) fn now() -> u64 {
    u64::try_from(own().saturating_sub(OFFSET.load(Relaxed))).unwrap_or(0)
}

/// The same clock as this process sees it: for times that nobody else is told.
#[inline]
pub(crate) fn own() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a live out-pointer; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec
        .saturating_mul(SECOND)
        .saturating_add(time.tv_nsec)
}

/// Sleeps until `at`, or until somebody changes `word` from what was `seen` and wakes its sleepers. The word may be mapped for
/// reading only.
pub(super) fn sleep_until(at: u64, word: &AtomicU32, seen: u32) {
    let own = i64::try_from(at)
        .unwrap_or(i64::MAX)
        .saturating_add(OFFSET.load(Relaxed));
    let deadline = libc::timespec {
        tv_sec: own / SECOND,
        tv_nsec: own % SECOND,
    };
    // SAFETY: this thread's error number, which the application may be about to read.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    // A signal ends the sleep early; the application's handler has run by then.
    while now() < at && word.load(Relaxed) == seen {
        // SAFETY: a live word and a live deadline; the other two arguments are not used by this operation,
        // whose deadline is a time of CLOCK_MONOTONIC.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT_BITSET,
                seen,
                &raw const deadline,
                core::ptr::null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            );
        }
    }
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

/// Wakes whoever sleeps on a word, in whatever process. It may be mapped for reading only.
pub(super) fn wake_all(word: &AtomicU32) {
    // SAFETY: this thread's error number, which the application may be about to read.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; a live word.
    unsafe {
        let before = errno.read();
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
        errno.write(before);
    }
}

/// The line `monotonic SECONDS NANOSECONDS` of the kernel's file.
fn monotonic_offset(offsets: &str) -> i64 {
    offsets
        .lines()
        .find_map(|line| {
            let mut words = line.split_whitespace();
            // Older kernels name the clocks by number.
            let clock = words.next()?;
            (clock == "monotonic" || clock == "1").then_some(())?;
            let seconds: i64 = words.next()?.parse().ok()?;
            let nanoseconds: i64 = words.next()?.parse().ok()?;
            Some(seconds.saturating_mul(SECOND).saturating_add(nanoseconds))
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_the_kernel_writes_them() {
        let text = "monotonic           0         0\nboottime            0         0\n";
        assert_eq!(monotonic_offset(text), 0);
        let text = "monotonic      -86400 500000000\nboottime      7     0\n";
        assert_eq!(monotonic_offset(text), -86_400 * SECOND + SECOND / 2);
        assert_eq!(monotonic_offset("1 3 4\n7 0 0\n"), 3 * SECOND + 4);
        assert_eq!(monotonic_offset(""), 0);
    }

    #[test]
    fn a_sleep_ends_at_its_time_or_when_the_word_changes() {
        let word = AtomicU32::new(0);
        let begin = now();
        sleep_until(begin + 3_000_000, &word, 0);
        assert!(now() >= begin + 3_000_000);

        let begin = now();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleep_until(begin + 60_000_000_000, &word, 0));
            while !sleeper.is_finished() {
                word.fetch_add(1, Relaxed);
                wake_all(&word);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        assert!(now() < begin + 60_000_000_000);
    }
}
