//! `docs/shared-memory.md` draws the bytes that `quota-abi/src/layout.rs` asserts.

use std::path::Path;

use super::{File, Finding};

const LAYOUT: &str = "quota-abi/src/layout.rs";
const MAP: &str = "docs/shared-memory.md";

/// Every offset and size that the layout asserts and the document does not tell.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let text = |path: &str| {
        files
            .iter()
            .find(|file| file.path.as_path() == Path::new(path))
            .map(|file| file.text.as_str())
    };
    let Some(layout) = text(LAYOUT) else {
        return Vec::new();
    };
    let finding = |what: String| Finding {
        error: true,
        path: MAP.into(),
        line: 0,
        what,
    };
    let Some(map) = text(MAP) else {
        return vec![finding(format!(
            "is missing: it draws the bytes of {LAYOUT}"
        ))];
    };
    facts(layout)
        .into_iter()
        .filter(|(name, value)| !tells(map, name, *value))
        .map(|(name, value)| {
            finding(format!(
                "has no line with {name} and {value:#x} (or {value}), as {LAYOUT} asserts"
            ))
        })
        .collect()
}

/// The asserted numbers: the offset of a field under its own name, the size of a type under its.
fn facts(layout: &str) -> Vec<(String, u64)> {
    let mut facts = Vec::new();
    for line in layout.lines() {
        let Some(rest) = line.trim().strip_prefix("assert!(") else {
            continue;
        };
        let Some((left, right)) = rest.split_once("==") else {
            continue;
        };
        let Some(value) = number(right.trim_end_matches([';', ')']).trim()) else {
            continue;
        };
        let name = if let Some(arguments) = left.trim().strip_prefix("offset_of!(") {
            arguments.split(',').nth(1)
        } else {
            left.trim()
                .strip_prefix("size_of::<")
                .and_then(|rest| rest.split('>').next())
        };
        if let Some(name) = name {
            facts.push((name.trim().trim_end_matches(')').to_string(), value));
        }
    }
    facts
}

/// Whether one line names both.
fn tells(map: &str, name: &str, value: u64) -> bool {
    map.lines().any(|line| {
        let words: Vec<_> = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|w| !w.is_empty())
            .collect();
        words.contains(&name) && words.iter().any(|word| number(word) == Some(value))
    })
}

fn number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSERTS: &str = "
    assert!(size_of::<Header>() == 128);
    assert!(offset_of!(Region, held) == 0xa080);
";

    fn findings(map: &str) -> Vec<Finding> {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        check(&[file(LAYOUT, ASSERTS), file(MAP, map)])
    }

    #[test]
    fn a_map_that_tells_every_number_passes_in_either_base() {
        assert_eq!(
            findings("| `Header` | 0x80 bytes |\n| `held` | 0xa080 |\n"),
            []
        );
    }

    #[test]
    fn a_number_that_moved_is_found() {
        let found = findings("`Header` is 128 bytes\n`held` at 0xa000\n");
        assert_eq!(found.len(), 1);
        assert!(
            found[0].what.contains("held and 0xa080"),
            "{}",
            found[0].what
        );
    }

    #[test]
    fn a_missing_map_is_found() {
        let layout = File {
            path: LAYOUT.into(),
            text: ASSERTS.into(),
        };
        assert_eq!(check(&[layout]).len(), 1);
    }
}
