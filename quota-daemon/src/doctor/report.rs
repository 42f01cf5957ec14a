//! Findings for people and for programs.

use serde::Serialize;

use super::finding::{Findings, Status};
use crate::output::print;
use crate::table::Screen;

/// The JSON form; `version` changes when a field changes its meaning.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    ok: bool,
    #[serde(flatten)]
    findings: &'a Findings,
}

pub(super) fn json(findings: &Findings) -> anyhow::Result<()> {
    let report = Report {
        version: 1,
        ok: !findings.failed(),
        findings,
    };
    print(&format!("{}\n", serde_json::to_string_pretty(&report)?))
}

pub(super) fn text(findings: &Findings) -> anyhow::Result<()> {
    print(&format(findings, Screen::stdout().colour))
}

fn format(findings: &Findings, colour: bool) -> String {
    let mut lines = String::new();
    for finding in &findings.findings {
        let (word, code) = match finding.status {
            Status::Ok => ("ok  ", "32"),
            Status::Info => ("--  ", "0"),
            Status::Warning => ("warn", "33"),
            Status::Failure => ("FAIL", "31"),
        };
        let word = if colour {
            format!("\x1b[{code}m{word}\x1b[0m")
        } else {
            word.into()
        };
        let text = finding.text.replace('\n', "\n                ");
        lines.push_str(&format!("{word}  {:<9} {text}\n", finding.check));
        if let Some(mend) = &finding.mend {
            lines.push_str(&format!("                -> {mend}\n"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_its_mend_and_no_colour_off_a_terminal() {
        let mut findings = Findings::default();
        findings.ok("library", "found");
        findings.failure("driver", "none", "install one");
        let text = format(&findings, false);
        assert_eq!(
            text,
            "ok    library   found\nFAIL  driver    none\n                -> install one\n"
        );
        assert!(findings.failed());
    }
}
