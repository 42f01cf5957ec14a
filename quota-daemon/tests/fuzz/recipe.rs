//! How a usage region is spoilt: words written over, the file cut or extended. As text, one change a line, so that what did
//! harm once can be kept and read.

use std::fmt;
use std::mem::offset_of;

use quota_abi::layout::{Region, SLOTS};

use crate::corpus;
use crate::random::Random;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A word at this offset.
    Poke(u64, u64),
    /// The file's size.
    Size(u64),
}

/// All changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recipe(pub(crate) Vec<Change>);

const END: usize = size_of::<Region>();

/// Where the parts begin; the last is the end.
const PARTS: [usize; 9] = [
    0,
    offset_of!(Region, devices),
    offset_of!(Region, buckets),
    offset_of!(Region, slots),
    offset_of!(Region, memory),
    offset_of!(Region, exports),
    offset_of!(Region, refusals),
    offset_of!(Region, waits),
    END,
];

impl Recipe {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut changes = Vec::new();
        let bits = random.below(7);
        for _ in 0..1 + random.below(1 << bits) {
            changes.push(match random.below(200) {
                0 => Change::Size(random.next() % (2 * END as u64)),
                1 => Change::Size(*random.pick(&PARTS) as u64),
                _ => Change::Poke(place(random), value(random)),
            });
        }
        Self(changes)
    }

    fn parse(text: &str) -> Self {
        let number = |word: Option<&str>| {
            u64::from_str_radix(word.unwrap().trim_start_matches("0x"), 16).unwrap()
        };
        let change = |line: &str| {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("poke") => Change::Poke(number(words.next()), number(words.next())),
                Some("size") => Change::Size(number(words.next())),
                other => panic!("{other:?} is no change"),
            }
        };
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(change).collect())
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.0 {
            match change {
                Change::Poke(offset, value) => writeln!(f, "poke {offset:#x} {value:#x}")?,
                Change::Size(bytes) => writeln!(f, "size {bytes:#x}")?,
            }
        }
        Ok(())
    }
}

/// What the repository keeps.
pub(crate) fn kept() -> Vec<Recipe> {
    let folder = corpus::folder().join("region");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let recipes = files
        .iter()
        .map(|file| Recipe::parse(&std::fs::read_to_string(file).unwrap()));
    recipes.collect()
}

/// The beginning of a part is where most of it is used.
fn place(random: &mut Random) -> u64 {
    let part = random.below(PARTS.len() - 1);
    let words = (PARTS[part + 1] - PARTS[part]) / 8;
    let near = words.min(1 << random.below(13));
    let word = random.below(near.max(1));
    // The ledger is rows of slots: the beginning of any row.
    let row = if part == 4 {
        random.below(4) * SLOTS
    } else {
        0
    };
    // The header's first words decide whether anything is read at all.
    let word = if part == 0 && random.below(4) > 0 {
        word + 3
    } else {
        word
    };
    let offset = PARTS[part] + (word + row) * 8;
    u64::try_from(offset.min(END - 8)).unwrap()
}

fn value(random: &mut Random) -> u64 {
    match random.below(3) {
        // Two fields of the ledger, or a pid, or flags.
        0 => random.word() << 32 | random.word() & 0xffff_ffff,
        _ => random.word(),
    }
}
