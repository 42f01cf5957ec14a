//! A test that a table of the documentation names is one that there is.

use std::path::Path;

use super::{File, Finding};

/// Where rows name the tests that show them, as `` `file::function` ``: reported behaviours, and what tenants have tried.
const TABLES: [&str; 3] = [
    "tests/README.md",
    "docs/threat-model.md",
    "docs/gpu-time-tests.md",
];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let tables = TABLES
        .iter()
        .filter_map(|path| files.iter().find(|file| file.path == Path::new(path)));
    tables.flat_map(|table| gone(table, files)).collect()
}

/// The tests that one table names and that there are not.
fn gone(table: &File, files: &[File]) -> Vec<Finding> {
    let exists = |file: &str, function: &str| {
        let definition = format!("fn {function}(");
        files.iter().any(|source| {
            let name = source.path.strip_prefix("tests/tests");
            let first = name.ok().and_then(|name| name.iter().next());
            let first = first.and_then(|name| Path::new(name).file_stem());
            first.is_some_and(|stem| stem == file) && source.text.contains(&definition)
        })
    };
    let rows = table.text.lines().enumerate();
    rows.filter(|(_, line)| line.starts_with('|'))
        .flat_map(|(index, line)| {
            let names = line.split('`').skip(1).step_by(2);
            names.filter_map(move |name| Some((index + 1, name.split_once("::")?)))
        })
        .filter(|(_, (file, function))| !exists(file, function))
        .map(|(line, (file, function))| Finding {
            error: true,
            path: table.path.clone(),
            line,
            what: format!("there is no test {file}::{function}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_test_that_is_gone_is_named_by_its_line() {
        let files = [
            file(
                TABLES[0],
                "| 1 | `memory::there`, `memory::gone` |\n| 2 | `folder::deep` |\n",
            ),
            file(TABLES[1], "| all | `memory::never` |\n"),
            file("tests/tests/memory.rs", "#[test]\nfn there() {}\n"),
            file("tests/tests/folder/part.rs", "#[test]\nfn deep() {}\n"),
        ];
        let findings = check(&files);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert_eq!(findings[0].line, 1);
        assert_eq!(findings[0].what, "there is no test memory::gone");
        assert_eq!(findings[1].path, Path::new(TABLES[1]));
    }
}
