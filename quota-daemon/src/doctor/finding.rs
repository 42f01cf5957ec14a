//! What was found.

use serde::Serialize;

/// How good or bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// As it must be.
    Ok,
    /// Neither good nor bad.
    Info,
    /// Works, but perhaps not as meant.
    Warning,
    /// Keeps a quota from being enforced.
    Failure,
}

/// One thing that was examined.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// What was examined: one word, stable for scripts.
    pub(super) check: &'static str,
    pub(super) status: Status,
    /// What was found, in a sentence.
    pub(super) text: String,
    /// What to do about it; given for every warning and failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mend: Option<String>,
}

/// Everything found, in the order of examination.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Findings {
    pub(super) findings: Vec<Finding>,
}

impl Findings {
    pub(super) fn ok(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(check, Status::Ok, text.into(), None);
    }

    pub(super) fn info(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(check, Status::Info, text.into(), None);
    }

    pub(super) fn warning(
        &mut self,
        check: &'static str,
        text: impl Into<String>,
        mend: impl Into<String>,
    ) {
        self.add(check, Status::Warning, text.into(), Some(mend.into()));
    }

    pub(super) fn failure(
        &mut self,
        check: &'static str,
        text: impl Into<String>,
        mend: impl Into<String>,
    ) {
        self.add(check, Status::Failure, text.into(), Some(mend.into()));
    }

    /// Whether anything keeps a quota from being enforced.
    pub(super) fn failed(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.status == Status::Failure)
    }

    fn add(&mut self, check: &'static str, status: Status, text: String, mend: Option<String>) {
        self.findings.push(Finding {
            check,
            status,
            text,
            mend,
        });
    }
}
