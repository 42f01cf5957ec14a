//! Writing results.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

use anyhow::Context;

/// Writes to stdout. A reader that has read enough is no error.
///
/// # Errors
/// Any other that the writing meets.
pub fn print(text: &str) -> anyhow::Result<()> {
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to stdout"),
    }
}

/// Writes the JSON form of something to stdout.
///
/// # Errors
/// Any that the writing meets, but a reader that has read enough.
pub fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// A number of things, as a person writes it: `1 process`, `2 processes`.
#[must_use]
pub fn count<N: Display + PartialEq + From<u8>>(number: N, one: &str, more: &str) -> String {
    let what = if number == N::from(1) { one } else { more };
    format!("{number} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(count(1_usize, "process", "processes"), "1 process");
        assert_eq!(count(0_usize, "process", "processes"), "0 processes");
    }
}
