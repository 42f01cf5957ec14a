//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// Line and column, both counted from 1; the column in characters. `None`: the file as a whole.
    pub at: Option<(usize, usize)>,
    /// What is wrong, with the key, and the mend.
    pub text: String,
}

impl Problem {
    /// Of a file as a whole.
    #[must_use]
    pub fn of_file(file: &Path, text: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            at: None,
            text: text.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some((line, column)) = self.at {
            write!(f, "{line}:{column}:")?;
        }
        write!(f, " {}", self.text)
    }
}

/// Everything that is wrong, by file and line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Notes one.
    pub fn add(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Good only if there is none.
    ///
    /// # Errors
    /// All of them, sorted.
    pub fn none(mut self) -> Result<(), Self> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort();
        self.0.dedup();
        Err(self)
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
