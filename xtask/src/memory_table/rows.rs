//! The rows of `tests/data/families.toml`, as far as the document shows them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Where they are.
pub(super) const FILE: &str = "tests/data/families.toml";

#[derive(Debug, Deserialize)]
struct File {
    row: Vec<Row>,
}

/// One row; the head of the file explains the fields.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) symbols: Vec<String>,
    pub(super) charged: String,
    pub(super) back: String,
    #[serde(default)]
    pub(super) takes: bool,
    #[serde(default)]
    pub(super) before: u64,
    pub(super) after: u64,
    #[serde(default)]
    pub(super) tests: Vec<String>,
}

impl Row {
    pub(super) fn names(&self, symbol: &str) -> bool {
        self.symbols.iter().any(|name| name == symbol)
    }
}

/// Reads them, and makes sure that the tests exist that they name.
pub(super) fn read(root: &Path) -> Result<Vec<Row>> {
    let path = root.join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let file: File = toml::from_str(&text).with_context(|| FILE.to_owned())?;
    for row in &file.row {
        for test in &row.tests {
            if !exists(root, test) {
                bail!("{FILE} names {test}, and there is no such test");
            }
        }
    }
    Ok(file.row)
}

/// Whether `file::name` is a test of tests/tests.
fn exists(root: &Path, test: &str) -> bool {
    let Some((file, name)) = test.split_once("::") else {
        return false;
    };
    let text = ["", "/main"].into_iter().find_map(|rest| {
        fs::read_to_string(root.join(format!("tests/tests/{file}{rest}.rs"))).ok()
    });
    text.is_some_and(|text| text.contains(&format!("#[test]\nfn {name}()")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_looked_for() {
        let root = crate::workspace::root();
        assert!(exists(&root, "memory::stream_ordered_memory"));
        assert!(exists(&root, "random_memory::one_process"));
        assert!(!exists(&root, "memory::quota"), "a helper is no test");
        assert!(!exists(&root, "memory::nothing"));
        assert!(!exists(&root, "nowhere::at_all"));
    }
}
