//! What goes wrong on purpose: words of `GPU_SIM_FAULTS`, read at every first `nvmlInit`. A word that ends in `@PATH` holds
//! while there is a file at that path, so that things can go wrong, and right again, while a program runs.

use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use cuda_headers::nvml::nvmlReturn_t;

use crate::entry::Outcome;

static WORDS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Words that begin with this are NVML's.
const MINE: &str = "nvml-";
/// `nvml-missing:NAME`
const MISSING: &str = "nvml-missing:";
/// `nvml-gpu-lost:INDEX`
const LOST: &str = "nvml-gpu-lost:";
const KNOWN: &[&str] = &[
    "nvml-no-driver",
    "nvml-version-mismatch",
    "nvml-unknown-error",
    "nvml-gpu-lost",
    "nvml-hang",
    "nvml-no-processes",
    "nvml-processes-unsupported",
    "nvml-no-utilization",
    "nvml-all-lists",
    "nvml-accounting",
];

/// Takes the words of a new session; unknown ones are reported, once, and ignored.
pub(crate) fn set(words: &[String]) {
    let mine: Vec<String> = words
        .iter()
        .filter(|w| w.starts_with(MINE))
        .cloned()
        .collect();
    for word in &mine {
        let (name, _) = split(word);
        if !KNOWN.contains(&name) && !name.starts_with(MISSING) && !name.starts_with(LOST) {
            eprintln!(
                "gpu-sim: GPU_SIM_FAULTS: {word:?} is not known; known are {}, {MISSING}NAME and {LOST}INDEX",
                KNOWN.join(", ")
            );
        }
    }
    *WORDS.write().unwrap_or_else(PoisonError::into_inner) = mine;
}

/// A word, and the file without which it does not hold.
fn split(word: &str) -> (&str, Option<&Path>) {
    match word.split_once('@') {
        Some((name, path)) => (name, Some(Path::new(path))),
        None => (word, None),
    }
}

/// Whether a fault that is spelt so is asked for, now.
fn holds(is_meant: impl Fn(&str) -> bool) -> bool {
    let words = WORDS.read().unwrap_or_else(PoisonError::into_inner);
    words
        .iter()
        .map(|word| split(word))
        .any(|(name, path)| is_meant(name) && path.is_none_or(Path::exists))
}

/// Whether a fault is asked for.
pub(crate) fn asked(word: &str) -> bool {
    holds(|name| name == word)
}

/// Whether the GPU of this index is lost.
pub(crate) fn lost(index: usize) -> bool {
    holds(|name| name.strip_prefix(LOST) == Some(&index.to_string()))
}

/// What `nvmlInit` answers.
pub(crate) fn at_init() -> Outcome {
    if asked("nvml-no-driver") {
        return Err(nvmlReturn_t::NVML_ERROR_DRIVER_NOT_LOADED);
    }
    if asked("nvml-version-mismatch") {
        return Err(nvmlReturn_t::NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    }
    Ok(())
}

/// What a function answers instead of doing anything.
pub(crate) fn check(name: &str) -> Outcome {
    if WORDS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .is_empty()
    {
        return Ok(());
    }
    if holds(|word| word.strip_prefix(MISSING) == Some(name)) {
        return Err(nvmlReturn_t::NVML_ERROR_FUNCTION_NOT_FOUND);
    }
    while asked("nvml-hang") {
        thread::sleep(Duration::from_millis(10));
    }
    // Handles are still given out: it is the device that answers so.
    if !name.starts_with("nvmlDeviceGet") || name.contains("Handle") || name.contains("Count") {
        return Ok(());
    }
    if asked("nvml-gpu-lost") {
        return Err(nvmlReturn_t::NVML_ERROR_GPU_IS_LOST);
    }
    if asked("nvml-unknown-error") {
        return Err(nvmlReturn_t::NVML_ERROR_UNKNOWN);
    }
    Ok(())
}
