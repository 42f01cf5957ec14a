//! Bells: a process that becomes active on a device wakes the word `bell` of its container's policy, on which a thread of the
//! daemon sleeps. The word lies in a file, so that a process of the container needs no descriptor, and a bell that rings for
//! the next daemon is the same bell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use quota_abi::policy::map;
use rustix::thread::futex;

/// Nobody is heard more often than this.
const PAUSE: Duration = Duration::from_micros(100);
/// Who rings more often than [`OFTEN`] times in a second is heard less and less often, down to each so much: a container that takes
/// turns may tell of the end of each, and one that floods gains nothing.
const LONGEST: Duration = Duration::from_millis(50);
const OFTEN: u32 = 1000;
/// Nobody sleeps longer in one go, whatever a tenant does.
const ASLEEP: futex::Timespec = futex::Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
const STACK: usize = 64 * 1024;

/// Whether anything has happened that those who share out time should look at.
#[derive(Debug, Default)]
pub(super) struct Signal {
    rung: Mutex<bool>,
    waiting: Condvar,
}

impl Signal {
    /// Something has happened.
    pub(super) fn ring(&self) {
        *self.rung.lock() = true;
        self.waiting.notify_all();
    }

    /// Waits until something has happened, or for this long.
    pub(super) fn wait(&self, most: Option<Duration>) {
        let mut rung = self.rung.lock();
        match most {
            Some(most) if !*rung => {
                let _ = self.waiting.wait_for(&mut rung, most);
            }
            None => {
                while !*rung {
                    self.waiting.wait(&mut rung);
                }
            }
            Some(_) => {}
        }
        *rung = false;
    }
}

/// A container's bell. Its thread ends soon after this is dropped; nobody waits for it, because a tenant can keep it asleep
/// for a while (whoever can read a futex word can have its sleepers moved to another, see `FUTEX_REQUEUE`).
#[derive(Debug)]
pub(super) struct Bell {
    policy: Arc<map::Write>,
    ended: Arc<AtomicBool>,
}

impl Bell {
    /// Begins to listen. Without a thread to spare nobody is woken early, which costs lent time and nothing else.
    #[must_use]
    pub(super) fn hang(policy: &Arc<map::Write>, signal: &Arc<Signal>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (its_policy, its_end, signal) = (policy.clone(), ended.clone(), signal.clone());
        let thread = thread::Builder::new()
            .name("bell".into())
            .stack_size(STACK)
            .spawn(move || listen(&its_policy, &its_end, &signal));
        if let Err(error) = thread {
            tracing::warn!("no thread for a container's bell: {error}");
        }
        Self {
            policy: policy.clone(),
            ended,
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // SYNC POINT with `listen`, which reads the word before it asks whether to end: it sees the end, or does not sleep.
        let bell = &self.policy.header.bell;
        bell.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(bell, futex::Flags::empty(), u32::MAX >> 1);
    }
}

fn listen(policy: &map::Write, ended: &AtomicBool, signal: &Signal) {
    let bell = &policy.header.bell;
    let mut pause = PAUSE;
    let (mut second, mut heard) = (Instant::now(), 0_u32);
    loop {
        let value = bell.load(Ordering::SeqCst);
        if ended.load(Ordering::SeqCst) {
            return;
        }
        match futex::wait(bell, futex::Flags::empty(), value, Some(&ASLEEP)) {
            Ok(()) => signal.ring(),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::TIMEDOUT) => continue,
            Err(error) => {
                tracing::error!("a bell cannot be listened to: {error}");
                return;
            }
        }
        heard += 1;
        if second.elapsed() >= Duration::from_secs(1) {
            (second, heard) = (Instant::now(), 0);
            pause /= 2;
        }
        pause = if heard > OFTEN {
            (pause * 2).min(LONGEST)
        } else {
            pause.max(PAUSE)
        };
        thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn who_wakes_the_word_is_heard() {
        let file = tempfile::tempfile().unwrap();
        let policy = Arc::new(map::Write::from_file(file.as_fd()).unwrap());
        let signal = Arc::new(Signal::default());
        let bell = Bell::hang(&policy, &signal);
        // The tenant's side can only read.
        let reader = map::Read::from_file(file.as_fd()).unwrap();
        let heard = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                signal.wait(Some(Duration::from_secs(20)));
                heard.store(true, Ordering::SeqCst);
            });
            let start = Instant::now();
            while !heard.load(Ordering::SeqCst) && start.elapsed() < Duration::from_secs(10) {
                let _ = futex::wake(&reader.get().header.bell, futex::Flags::empty(), 1);
                thread::sleep(Duration::from_millis(1));
            }
            assert!(heard.load(Ordering::SeqCst));
        });
        drop(bell);
    }

    #[test]
    fn who_moves_the_sleeper_elsewhere_does_not_hold_up_the_daemon() {
        let file = tempfile::tempfile().unwrap();
        let policy = Arc::new(map::Write::from_file(file.as_fd()).unwrap());
        let signal = Arc::new(Signal::default());
        let bell = Bell::hang(&policy, &signal);
        let reader = map::Read::from_file(file.as_fd()).unwrap();
        let elsewhere = std::sync::atomic::AtomicU32::new(0);
        let start = Instant::now();
        let flags = futex::Flags::empty();
        while futex::requeue(&reader.get().header.bell, flags, 0, 1, &elsewhere) != Ok(1) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "nobody sleeps there"
            );
            thread::sleep(Duration::from_millis(1));
        }
        // Returns; the thread ends when it has slept.
        drop(bell);
        let _ = futex::wake(&elsewhere, flags, 1);
    }
}
