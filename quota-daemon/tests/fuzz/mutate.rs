//! Changes of an input: of bytes anywhere, and of words where it is text.

use crate::random::Random;

/// No input grows beyond this: more than any reader takes.
const MOST: usize = 70_000;

/// Words that mean something somewhere, or nothing anywhere.
const WORDS: &[&str] = &[
    "null",
    "true",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "[[",
    "]]",
    ",",
    ":",
    "=",
    "\n",
    "\r\n",
    "\0",
    "#",
    "'''",
    "\"\"\"",
    "-",
    "-0",
    "1e999",
    "1e-999",
    "0x",
    "inf",
    "nan",
    "4294967296",
    "18446744073709551616",
    "-9223372036854775809",
    "99999999999999999999999999999999",
    "0.1",
    "\\u0000",
    "\\ud800",
    "\u{feff}",
    "ä",
    "\u{202e}",
    "4GiB",
    "8 GB",
    "none",
    "50%",
    "0%",
    "100.00001%",
    "../..",
    "*",
    "**",
    "/**",
    "GPU-",
    "00000000-0000-0000-0000-000000000000",
    "weight",
    "memory",
    "compute",
    "device",
    "container",
    "request",
    "set",
    "status",
];

/// One to several changes of `input`; `other` is another valid one, `text` whether it is text.
pub(crate) fn mutate(input: &mut Vec<u8>, other: &[u8], text: bool, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        match random.below(if text { 12 } else { 8 }) {
            0 => overwrite(input, &[1 << random.below(8)], random, |old, new| old ^ new),
            1 => overwrite(
                input,
                &random.word().to_le_bytes()[..1 << random.below(4)],
                random,
                |_, new| new,
            ),
            2 => insert(
                input,
                &random.next().to_le_bytes()[..1 + random.below(8)],
                random,
            ),
            3 => {
                let cut = range(input, random);
                input.drain(cut);
            }
            4 => {
                let again = input[range(input, random)].to_vec();
                insert(input, &again, random);
            }
            5 => {
                let part = &other[range(other, random)];
                insert(input, part, random);
            }
            6 => input.truncate(random.below(input.len() + 1)),
            7 => {
                let at = random.below(input.len() + 1);
                input.truncate(at);
                input.extend(&other[at.min(other.len())..]);
            }
            8 => {
                let word = random.pick(WORDS).repeat(1 << (random.below(40) / 3));
                insert(input, word.as_bytes(), random);
            }
            9 | 10 => replace_token(input, random),
            _ => {
                let token = token(other, random);
                let token = other[token].to_vec();
                insert(input, &token, random);
            }
        }
        input.truncate(MOST);
    }
}

fn overwrite(input: &mut [u8], bytes: &[u8], random: &mut Random, change: impl Fn(u8, u8) -> u8) {
    let at = random.below(input.len() + 1);
    for (old, new) in input[at..].iter_mut().zip(bytes) {
        *old = change(*old, *new);
    }
}

fn insert(input: &mut Vec<u8>, bytes: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    input.splice(at..at, bytes.iter().copied());
}

fn range(input: &[u8], random: &mut Random) -> std::ops::Range<usize> {
    let begin = random.below(input.len() + 1);
    let most = (input.len() - begin).min(1 << random.below(12));
    begin..begin + random.below(most + 1)
}

/// A number, name or sign of a text.
fn token(input: &[u8], random: &mut Random) -> std::ops::Range<usize> {
    let at = random.below(input.len() + 1);
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-%".contains(byte);
    let begin = input[..at]
        .iter()
        .rposition(|byte| !is_word(byte))
        .map_or(0, |before| before + 1);
    let end = input[at..]
        .iter()
        .position(|byte| !is_word(byte))
        .map_or(input.len(), |length| at + length);
    begin..end
}

fn replace_token(input: &mut Vec<u8>, random: &mut Random) {
    let token = token(input, random);
    let by = match random.below(3) {
        0 => random.word().to_string(),
        1 => (random.word().cast_signed()).to_string(),
        _ => (*random.pick(WORDS)).to_owned(),
    };
    input.splice(token, by.bytes());
}
