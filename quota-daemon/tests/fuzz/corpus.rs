//! The valid inputs, and those that were answered as none before. In the repository they lie in `tests/data/fuzz`, frames as
//! hexadecimal digits, texts as they are.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use crate::mutate::mutate;
use crate::random::Random;
use crate::targets::Target;

/// What joins during a run is forgotten beyond this.
const MOST: usize = 2_000;
/// An input that is longer does not join.
const LONG: usize = 4_096;

/// Of one target.
pub(crate) struct Corpus {
    target: Target,
    inputs: Vec<Vec<u8>>,
    answers: HashSet<u64>,
}

/// Where all of it lies.
pub(crate) fn folder() -> PathBuf {
    quota_tests::workspace().join("tests/data/fuzz")
}

impl Corpus {
    /// What is kept, and what the target calls valid.
    pub(crate) fn load(target: Target) -> Self {
        let mut inputs = target.valid();
        let mut files: Vec<_> = fs::read_dir(folder().join(target.name()))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        for file in files {
            let bytes = fs::read(&file).unwrap();
            inputs.push(if target.is_text() {
                bytes
            } else {
                from_hex(&bytes)
            });
        }
        Self {
            target,
            inputs,
            answers: HashSet::new(),
        }
    }

    pub(crate) fn inputs(&self) -> &[Vec<u8>] {
        &self.inputs
    }

    /// A new input.
    pub(crate) fn draw(&self, random: &mut Random) -> Vec<u8> {
        let mut input = random.pick(&self.inputs).clone();
        let other = random.pick(&self.inputs);
        mutate(&mut input, other, self.target.is_text(), random);
        input
    }

    /// Takes note of an answer; an input whose answer is new joins.
    pub(crate) fn answered(&mut self, answer: &str, input: &[u8], keep: bool) {
        // Numbers and quoted words differ without being another answer.
        let mut hasher = DefaultHasher::new();
        let mut quoted = false;
        for byte in answer.bytes() {
            quoted ^= matches!(byte, b'"' | b'`');
            if !quoted && !byte.is_ascii_digit() {
                byte.hash(&mut hasher);
            }
        }
        let hash = hasher.finish();
        let is_new = self.answers.insert(hash);
        if !is_new || self.inputs.iter().any(|known| known == input) {
            return;
        }
        // Long ones say little that is new, and take the time of many.
        if self.inputs.len() < MOST && input.len() < LONG {
            self.inputs.push(input.to_vec());
        }
        if keep && input.len() < LONG {
            let folder = folder().join(self.target.name());
            fs::create_dir_all(&folder).unwrap();
            let bytes = if self.target.is_text() {
                input.to_vec()
            } else {
                to_hex(input)
            };
            fs::write(folder.join(format!("{hash:016x}")), bytes).unwrap();
        }
    }

    /// How many different ones there were.
    pub(crate) fn answers(&self) -> usize {
        self.answers.len()
    }
}

fn to_hex(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.chunks(32).map(|line| {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    });
    lines.collect::<String>().into_bytes()
}

fn from_hex(text: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = text
        .iter()
        .filter_map(|byte| char::from(*byte).to_digit(16))
        .map(|digit| u8::try_from(digit).unwrap())
        .collect();
    digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
