//! What goes wrong on purpose: words of `GPU_SIM_FAULTS`, read at every first `nvmlInit`.

use std::sync::{PoisonError, RwLock};

use cuda_headers::nvml::nvmlReturn_t;

use crate::entry::Outcome;

static WORDS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Words that begin with this are NVML's.
const MINE: &str = "nvml-";
/// `nvml-missing:NAME`
const MISSING: &str = "nvml-missing:";
const KNOWN: &[&str] = &[
    "nvml-no-driver",
    "nvml-version-mismatch",
    "nvml-unknown-error",
    "nvml-gpu-lost",
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
        if !KNOWN.contains(&word.as_str()) && !word.starts_with(MISSING) {
            eprintln!(
                "gpu-sim: GPU_SIM_FAULTS: {word:?} is not known; known are {} and {MISSING}NAME",
                KNOWN.join(", ")
            );
        }
    }
    *WORDS.write().unwrap_or_else(PoisonError::into_inner) = mine;
}

/// Whether a fault is asked for.
pub(crate) fn asked(word: &str) -> bool {
    WORDS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .any(|known| known == word)
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
    let words = WORDS.read().unwrap_or_else(PoisonError::into_inner);
    if words.is_empty() {
        return Ok(());
    }
    if words
        .iter()
        .any(|word| word.strip_prefix(MISSING) == Some(name))
    {
        return Err(nvmlReturn_t::NVML_ERROR_FUNCTION_NOT_FOUND);
    }
    drop(words);
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
