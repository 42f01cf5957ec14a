//! Local links in Markdown lead somewhere.

use std::path::Path;

use super::{File, Finding};

/// Every link of a Markdown file whose target does not exist.
pub(super) fn check(root: &Path, file: &File) -> Vec<Finding> {
    if file
        .path
        .extension()
        .is_none_or(|extension| extension != "md")
    {
        return Vec::new();
    }
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(line) {
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !root.join(folder).join(path).exists() {
                findings.push(Finding {
                    error: true,
                    path: file.path.clone(),
                    line: index + 1,
                    what: format!("links to {path}, which does not exist"),
                });
            }
        }
    }
    findings
}

/// The local targets of `[text](target)` links in a line.
fn targets(line: &str) -> Vec<&str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target.trim()))
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_targets_count() {
        let line = "see [a](docs/a.md#part), [b](https://example.org) and [c](#here)";
        assert_eq!(targets(line), ["docs/a.md#part", "#here"]);
    }

    #[test]
    fn a_dead_link_is_found_and_one_in_code_is_not() {
        let text = "[x](no-such-file.md)\n```\n[y](nor-this.md)\n```\n[z](#anchor)\n".to_string();
        let file = File {
            path: "docs/a.md".into(),
            text,
        };
        let findings = check(Path::new("/nonexistent"), &file);
        assert_eq!((findings.len(), findings[0].line), (1, 1));
    }
}
