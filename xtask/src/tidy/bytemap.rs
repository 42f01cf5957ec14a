//! `docs/shared-memory.md` draws the bytes that the code asserts, and those that the two sides of the exchange send.

mod asserts;
mod wire;

use std::path::Path;

use super::{File, Finding};

const MAP: &str = "docs/shared-memory.md";

/// A number that the document has to tell, on one line with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fact {
    name: String,
    value: u64,
}

/// Where the asserted numbers are, and the headings under which they are told.
const ASSERTED: [(&str, &str); 3] = [
    ("quota-abi/src/layout.rs", "## Usage region"),
    ("quota-abi/src/bucket.rs", "## Usage region"),
    ("quota-abi/src/policy.rs", "## Policy region"),
];

/// Every number of the code that the document does not tell.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let text = |path: &str| {
        files
            .iter()
            .find(|file| file.path.as_path() == Path::new(path))
            .map(|file| file.text.as_str())
    };
    let sources: Vec<_> = ASSERTED
        .iter()
        .filter_map(|(path, heading)| Some((*path, *heading, asserts::facts(text(path)?))))
        .collect();
    if sources.is_empty() {
        return Vec::new();
    }
    let Some(map) = text(MAP) else {
        return vec![finding(
            "is missing: it draws the bytes of quota-abi".into(),
        )];
    };
    let exchange = ("quota-abi/src/wire.rs", "## Exchange", wire::facts());
    let mut findings = Vec::new();
    for (path, heading, facts) in sources.into_iter().chain([exchange]) {
        let section = section(map, heading);
        if section.is_empty() {
            findings.push(finding(format!(
                "has no part `{heading}`, where {path} is drawn"
            )));
            continue;
        }
        let missing = facts.into_iter().filter(|fact| !tells(section, fact));
        findings.extend(missing.map(|Fact { name, value }| {
            finding(format!(
                "has no line with {name} and {value:#x} (or {value}) under `{heading}`, as {path} has it"
            ))
        }));
    }
    findings
}

fn finding(what: String) -> Finding {
    Finding {
        error: true,
        path: MAP.into(),
        line: 0,
        what,
    }
}

/// From a heading to the next of its level.
fn section<'a>(map: &'a str, heading: &str) -> &'a str {
    let Some(begin) = map
        .match_indices(heading)
        .find(|(at, _)| *at == 0 || map.get(..*at).is_some_and(|before| before.ends_with('\n')))
        .map(|(at, _)| at)
    else {
        return "";
    };
    let rest = map.get(begin..).unwrap_or_default();
    let end = rest.match_indices("\n## ").next().map(|(at, _)| at);
    rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
}

/// Whether one line names both.
fn tells(section: &str, fact: &Fact) -> bool {
    section.lines().any(|line| {
        let words: Vec<_> = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|w| !w.is_empty())
            .collect();
        words.contains(&fact.name.as_str())
            && words.iter().any(|word| number(word) == Some(fact.value))
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

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    /// What is found in a map of these asserts and of the exchange as it is.
    fn findings(map: &str) -> Vec<Finding> {
        let exchange: String = wire::facts()
            .iter()
            .map(|fact| format!("{} {}\n", fact.name, fact.value))
            .collect();
        let map = format!("# Map\n## Usage region\n{map}\n## Exchange\n{exchange}");
        check(&[file(ASSERTED[0].0, ASSERTS), file(MAP, &map)])
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
    fn a_number_under_another_heading_is_not_told() {
        let found = findings("`Header` is 128 bytes\n## Other\n`held` at 0xa080\n");
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_missing_map_or_part_is_found() {
        let layout = || file(ASSERTED[0].0, ASSERTS);
        assert_eq!(check(&[layout()]).len(), 1);
        let found = check(&[layout(), file(MAP, "# Map\n")]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_field_of_the_exchange_that_moved_is_found() {
        let map = "# Map\n## Usage region\nHeader 128\nheld 0xa080\n## Exchange\nstart 32\n";
        let found = check(&[file(ASSERTED[0].0, ASSERTS), file(MAP, map)]);
        let start = found.iter().filter(|f| f.what.contains("start and 0x18"));
        assert_eq!(start.count(), 1, "{found:?}");
    }
}
