//! Saves the input that does harm, and ends the run when one takes too long.

use std::fmt::Debug;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// No input may take longer, on a machine that has much else to do.
const LONGEST: Duration = Duration::from_secs(60);

type Running = Mutex<Option<(Instant, String, Vec<u8>)>>;

/// What is being read at this moment.
pub(crate) struct Watch(Arc<Running>);

impl Watch {
    /// Watches from a thread of its own until it is dropped.
    pub(crate) fn start() -> Self {
        let running = Arc::new(Running::default());
        let seen = Arc::downgrade(&running);
        thread::spawn(move || {
            while let Some(running) = seen.upgrade() {
                let guard = running.lock().unwrap();
                if let Some((since, target, input)) = &*guard
                    && since.elapsed() > LONGEST
                {
                    save(target, input);
                    eprintln!("{target}: no answer within {LONGEST:?}");
                    std::process::abort();
                }
                drop(guard);
                drop(running);
                thread::sleep(Duration::from_millis(500));
            }
        });
        Self(running)
    }

    /// Runs `read` on an input; a panic goes on once the input is saved.
    pub(crate) fn run<T>(&self, target: impl Debug, input: &[u8], read: impl FnOnce() -> T) -> T {
        let name = format!("{target:?}").replace('"', "");
        *self.0.lock().unwrap() = Some((Instant::now(), name.clone(), input.to_vec()));
        let result = catch_unwind(AssertUnwindSafe(read));
        *self.0.lock().unwrap() = None;
        result.unwrap_or_else(|panic| {
            save(&name, input);
            resume_unwind(panic)
        })
    }
}

fn save(target: &str, input: &[u8]) {
    let folder = quota_tests::workspace().join("target/fuzz");
    let file = folder.join(format!("{target}.{}", std::process::id()));
    let saved = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, input));
    let begin = String::from_utf8_lossy(input.get(..200).unwrap_or(input));
    let file = file.display();
    eprintln!("{target}: the input is in {file} ({saved:?}): {begin:?}");
}
