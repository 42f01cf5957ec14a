//! The files of a configuration, and the places in them.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::problem::{Problem, Problems};

/// A configuration is written by people: a larger file is another one.
const LARGEST: u64 = 4 << 20;

/// Nobody reads more places than this in what is no TOML, and each takes a walk through the file to count lines.
const MOST: usize = 20;

/// A file and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it lies.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

impl File {
    fn open(path: &Path) -> Result<Self, Problem> {
        let trouble = |error: std::io::Error| Problem::of_file(path, error.to_string());
        let file = fs::File::open(path).map_err(trouble)?;
        let mut bytes = Vec::new();
        file.take(LARGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(trouble)?;
        if bytes.len() as u64 > LARGEST {
            let text = format!("is larger than {LARGEST} bytes: not a configuration");
            return Err(Problem::of_file(path, text));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self {
                path: path.into(),
                text,
            }),
            Err(error) => {
                let before = error.as_bytes().get(..error.utf8_error().valid_up_to());
                let before = String::from_utf8_lossy(before.unwrap_or_default()).into_owned();
                Err(Problem {
                    file: path.into(),
                    at: Some(position(&before, before.len())),
                    text: "is not UTF-8 here; save the file as UTF-8".into(),
                })
            }
        }
    }

    /// Its tables; none if it is no TOML, since what is missing then may only be hidden.
    pub(super) fn parse(&self, problems: &mut Problems) -> Option<DeTable<'_>> {
        let (table, errors) = DeTable::parse_recoverable(&self.text);
        for error in errors.iter().take(MOST) {
            let at = error.span().map_or(self.text.len(), |span| span.start);
            let text = error.message().replace('\n', ", ");
            problems.add(self.problem(at, format!("this is no TOML: {text}")));
        }
        errors.is_empty().then(|| table.into_inner())
    }

    /// Something wrong at a byte of the text.
    pub(super) fn problem(&self, at: usize, text: impl Into<String>) -> Problem {
        Problem {
            file: self.path.clone(),
            at: Some(position(&self.text, at)),
            text: text.into(),
        }
    }

    /// `file:line` of a byte of the text, for a problem elsewhere.
    pub(super) fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path.display(), position(&self.text, at).0)
    }
}

/// Line and column of a byte, both from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = text.get(..at).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// The files at these paths; of a directory those that end in `.toml`, sorted.
///
/// # Errors
/// Those that cannot be read.
pub(super) fn open(paths: &[impl AsRef<Path>]) -> Result<Vec<File>, Problems> {
    let (mut files, mut problems) = (Vec::new(), Problems::default());
    for path in paths {
        match expand(path.as_ref()) {
            Ok(paths) => {
                for path in paths {
                    match File::open(&path) {
                        Ok(file) => files.push(file),
                        Err(problem) => problems.add(problem),
                    }
                }
            }
            Err(problem) => problems.add(problem),
        }
    }
    problems.none().map(|()| files)
}

fn expand(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(vec![path.into()]),
        Err(error) => Err(Problem::of_file(path, error.to_string())),
        Ok(entries) => {
            let mut paths = Vec::new();
            for entry in entries {
                let entry = entry.map_err(|error| Problem::of_file(path, error.to_string()))?;
                let file = entry.path();
                if file
                    .extension()
                    .is_some_and(|extension| extension == "toml")
                {
                    paths.push(file);
                }
            }
            paths.sort();
            Ok(paths)
        }
    }
}
