//! A change that a document shows applies to the file as it is: whoever follows the document can hand it to `git apply`.

use std::path::Path;

use super::{File, Finding};

/// What is wrong with the diffs of the documents among `files`.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let documents = files
        .iter()
        .filter(|file| file.path.extension().is_some_and(|kind| kind == "md"));
    documents
        .flat_map(|document| {
            let found = blocks(&document.text).into_iter();
            found.filter_map(|(line, diff)| {
                Some(Finding {
                    error: true,
                    path: document.path.clone(),
                    line,
                    what: problem(&diff, files)?,
                })
            })
        })
        .collect()
}

/// Every block of kind `diff`, with the line that it begins in.
fn blocks(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, Vec<&str>)> = None;
    for (index, line) in text.lines().enumerate() {
        match &mut open {
            None if line == "```diff" => open = Some((index + 1, Vec::new())),
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some((_, diff)) => diff.push(line),
            None => {}
        }
    }
    blocks
}

fn problem(diff: &[&str], files: &[File]) -> Option<String> {
    let Some(path) = diff.iter().find_map(|line| line.strip_prefix("+++ b/")) else {
        return Some("this diff names no file".into());
    };
    let Some(file) = files.iter().find(|file| file.path == Path::new(path)) else {
        return Some(format!("this diff is of {path}, which is not there"));
    };
    let current: Vec<_> = file.text.lines().collect();
    let mut hunks = diff.split(|line| line.starts_with("@@")).skip(1).peekable();
    if hunks.peek().is_none() {
        return Some("this diff changes nothing".into());
    }
    let heads = diff.iter().filter(|line| line.starts_with("@@"));
    for (head, hunk) in heads.zip(hunks) {
        let side = |added: char| -> Vec<&str> {
            let kept = hunk
                .iter()
                .filter(|line| line.is_empty() || line.starts_with([' ', added]));
            kept.map(|line| line.get(1..).unwrap_or_default()).collect()
        };
        let (old, new) = (side('-'), side('+'));
        if !current.windows(old.len().max(1)).any(|lines| lines == old) {
            return Some(format!("this diff does not apply to {path}: {head}"));
        }
        let says = |sign: &str, lines: &[&str]| {
            let count = format!(",{} ", lines.len());
            head.split_once(sign).is_some_and(|(_, rest)| {
                rest.split_inclusive(' ')
                    .next()
                    .is_some_and(|range| range.ends_with(&count))
            })
        };
        if !says("-", &old) || !says("+", &new) {
            return Some(format!(
                "this diff has {} lines that become {}, which {head} does not say",
                old.len(),
                new.len()
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &str, context: &str) -> Vec<Finding> {
        let document = format!(
            "text\n```diff\n--- a/x/a.rs\n+++ b/x/a.rs\n{head}\n {context}\n+new\n \n```\n"
        );
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        check(&[
            file("a.md", &document),
            file("x/a.rs", "one\ntwo\n\nfour\n"),
        ])
    }

    #[test]
    fn a_diff_that_applies_is_well() {
        assert_eq!(of("@@ -2,2 +2,3 @@", "two"), []);
    }

    #[test]
    fn a_diff_of_what_is_no_longer_there_is_found_with_its_line() {
        let findings = of("@@ -2,2 +2,3 @@", "three");
        assert_eq!((findings.len(), findings[0].line), (1, 2));
        assert!(findings[0].what.contains("does not apply"));
    }

    #[test]
    fn a_head_that_git_would_not_take_is_found() {
        assert!(of("@@ -2,2 +2,2 @@", "two")[0].what.contains("become 3"));
        assert!(of("@@ hooks! ...", "two")[0].what.contains("become 3"));
    }
}
