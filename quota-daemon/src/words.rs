//! The words of a command line, where people write them otherwise than the parser reads them.

use std::ffi::OsString;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The words with `--memory -4GiB` as `--memory=-4GiB`: no flag begins with a digit, so this is a value, and the reason for which
/// it is refused is its own. What stands after `--` belongs to the program.
#[must_use]
pub fn join(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut words = words.into_iter();
    for word in words.by_ref() {
        if word == "--" {
            joined.push(word);
            break;
        }
        match joined.last_mut() {
            Some(flag) if is_bare_flag(flag) && is_negative(&word) => {
                flag.push("=");
                flag.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined.extend(words);
    joined
}

fn is_bare_flag(word: &OsString) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.starts_with(b"-") && !bytes.contains(&b'=') && !is_negative(word)
}

fn is_negative(word: &OsString) -> bool {
    matches!(word.as_encoded_bytes(), [b'-', b'0'..=b'9' | b'.', ..])
}

/// Adds to `error` what a person who wrote `words` most likely meant.
#[must_use]
pub fn hint(mut error: Error, words: &[OsString]) -> Error {
    let run = words.get(1).is_some_and(|command| command == "run");
    if run && let Some(program) = stray_word(&error) {
        let tip = format!(
            "put the program and its arguments after `--`: quota-daemon run ... -- {program} ..."
        );
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// A word that stands where only flags may: the program, without the `--` before it.
fn stray_word(error: &Error) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word)))
            if !word.starts_with('-') =>
        {
            Some(word.clone())
        }
        _ => None,
    }
}

/// The one of `known` that was most likely meant, if it is not too far off.
#[must_use]
pub fn nearest<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
    slips: usize,
) -> Option<&'a str> {
    known
        .map(|known| (distance(name.as_bytes(), known.as_bytes()), known))
        .filter(|(distance, known)| *distance <= slips && *distance < known.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Letters to change, add or leave out to make one of the other.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.iter().enumerate() {
        let mut next = vec![index + 1];
        for ((column, theirs), above) in other.iter().enumerate().zip(row.windows(2)) {
            let (Some(diagonal), Some(up)) = (above.first(), above.last()) else {
                continue;
            };
            let left = next.get(column).copied().unwrap_or(usize::MAX - 1);
            let change = diagonal + usize::from(letter != theirs);
            next.push(change.min(up + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_letters() {
        assert_eq!(distance(b"abc", b"abc"), 0);
        assert_eq!(distance(b"abc", b"axc"), 1);
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"bcd", b"abc"), 2);
    }

    #[test]
    fn only_a_number_behind_a_bare_flag_is_joined_to_it() {
        for (line, expected) in [
            ("q run --memory -4GiB -- p", "q run --memory=-4GiB -- p"),
            ("q run -m -.5 -- p", "q run -m=-.5 -- p"),
            ("q run --memory -c 30% -- p", "q run --memory -c 30% -- p"),
            ("q run --memory -- p -9", "q run --memory -- p -9"),
            ("q run -m 1g -- p -n -9", "q run -m 1g -- p -n -9"),
            ("q run -m=1g -9 -8", "q run -m=1g -9 -8"),
        ] {
            let words = join(line.split(' ').map(OsString::from));
            let expected: Vec<_> = expected.split(' ').map(OsString::from).collect();
            assert_eq!(words, expected);
        }
    }
}
