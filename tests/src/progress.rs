//! The program `load`, and the account that it keeps while it runs: how far it has come, and the word that holds it still.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use crate::client::{Client, Finished, Running};

const BYTES: usize = 4096;
/// How long it may take to do the next thing.
const WATCHDOG: Duration = Duration::from_secs(30);

/// As in `programs/load.c`.
#[repr(C)]
struct Words {
    command: AtomicU64,
    held_still: AtomicU64,
    launches: AtomicU64,
    allocations: AtomicU64,
    refusals: AtomicU64,
    held: AtomicU64,
    longest_ns: AtomicU64,
    ready: AtomicU64,
}

const RUN: u64 = 0;
const HOLD: u64 = 1;
const END: u64 = 2;

/// What a `load` has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Launches that succeeded.
    pub launches: u64,
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Allocations that were refused.
    pub refusals: u64,
    /// Bytes held, as the driver rounds them.
    pub held: u64,
    /// The longest launch since [`Load::forget_longest`].
    pub longest: Duration,
}

/// What a `load` does.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Decides on sizes.
    pub seed: u64,
    /// Length of a kernel; 0: none.
    pub kernel_ns: u64,
    /// The most that it holds; 0: nothing.
    pub most_mib: u64,
}

/// A running `load`.
#[derive(Debug)]
pub struct Load {
    client: Running,
    words: NonNull<Words>,
    file: NamedTempFile,
}

impl Load {
    /// Starts one, and waits until its first call has succeeded.
    ///
    /// # Panics
    /// It does not get so far.
    #[must_use]
    #[track_caller]
    pub fn start(client: Client, work: Work) -> Self {
        let load = Self::begin(client, work);
        load.await_ready();
        load
    }

    /// Starts one, and waits for nothing.
    #[must_use]
    pub fn begin(client: Client, work: Work) -> Self {
        Self::begin_in(&std::env::temp_dir(), client, work)
    }

    /// The same, with its account in a directory that it sees.
    #[must_use]
    pub fn begin_in(dir: &Path, client: Client, work: Work) -> Self {
        let file = NamedTempFile::new_in(dir).unwrap();
        file.as_file().set_len(BYTES as u64).unwrap();
        let words = map(file.as_file());
        let client = client
            .arg(file.path())
            .arg(work.seed.to_string())
            .arg(work.kernel_ns.to_string())
            .arg(work.most_mib.to_string())
            .watchdog(600)
            .spawn();
        Self {
            client,
            words,
            file,
        }
    }

    /// Waits until its first call has succeeded.
    #[track_caller]
    pub fn await_ready(&self) {
        self.wait("to begin", |words| words.ready.load(Ordering::Acquire) == 1);
    }

    fn words(&self) -> &Words {
        // SAFETY: a page of a file that nobody makes smaller, never unmapped. Atomics only.
        unsafe { self.words.as_ref() }
    }

    /// The file that the account is in.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.client.pid()
    }

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let words = self.words();
        Progress {
            launches: words.launches.load(Ordering::Acquire),
            allocations: words.allocations.load(Ordering::Acquire),
            refusals: words.refusals.load(Ordering::Acquire),
            held: words.held.load(Ordering::Acquire),
            longest: Duration::from_nanos(words.longest_ns.load(Ordering::Acquire)),
        }
    }

    /// Forgets the longest launch so far.
    pub fn forget_longest(&self) {
        self.words().longest_ns.store(0, Ordering::Release);
    }

    /// Holds it still between two calls, and waits until it is.
    #[track_caller]
    pub fn hold_still(&self) {
        self.words().command.store(HOLD, Ordering::Release);
        self.wait("to hold still", |words| {
            words.held_still.load(Ordering::Acquire) == 1
        });
    }

    /// Lets it go on.
    #[track_caller]
    pub fn go_on(&self) {
        self.words().command.store(RUN, Ordering::Release);
        self.wait("to go on", |words| {
            words.held_still.load(Ordering::Acquire) == 0
        });
    }

    /// Waits until it has launched, or where it launches nothing allocated or tried to, so often more.
    #[track_caller]
    pub fn goes_on(&self, more: u64) {
        let count = |words: &Words| {
            let [launches, allocations, refusals] =
                [&words.launches, &words.allocations, &words.refusals]
                    .map(|word| word.load(Ordering::Acquire));
            if launches > 0 {
                launches
            } else {
                allocations + refusals
            }
        };
        let before = count(self.words());
        self.wait("to go on", |words| count(words) >= before + more);
    }

    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn(&Words) -> bool) {
        let begin = Instant::now();
        while !holds(self.words()) {
            assert!(
                begin.elapsed() < WATCHDOG && self.client.alive(),
                "waited in vain for pid {} {what}: {:?}\n{}",
                self.pid(),
                self.progress(),
                self.client.stderr()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What it or the library has complained of.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.client.stderr()
    }

    /// Asks it to end, and waits until it has.
    #[must_use]
    pub fn end(self) -> Finished {
        self.words().command.store(END, Ordering::Release);
        self.client.finish()
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.client.kill();
    }
}

fn map(file: &File) -> NonNull<Words> {
    // SAFETY: a new mapping of an open file, as long as the file.
    let pages = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(pages, libc::MAP_FAILED);
    NonNull::new(pages.cast()).unwrap()
}
