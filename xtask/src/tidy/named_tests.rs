//! A test that `tests/README.md` names is one that there is.

use std::path::Path;

use super::{File, Finding};

/// Where rows of reported behaviours name the tests that show them, as `` `file::function` ``.
const TABLE: &str = "tests/README.md";

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let Some(table) = files.iter().find(|file| file.path == Path::new(TABLE)) else {
        return Vec::new();
    };
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
            path: TABLE.into(),
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
                TABLE,
                "| 1 | `memory::there`, `memory::gone` |\n| 2 | `folder::deep` |\n",
            ),
            file("tests/tests/memory.rs", "#[test]\nfn there() {}\n"),
            file("tests/tests/folder/part.rs", "#[test]\nfn deep() {}\n"),
        ];
        let findings = check(&files);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].line, 1);
        assert_eq!(findings[0].what, "there is no test memory::gone");
    }
}
