//! One table of a configuration: its keys, and what is wrong with them.

use std::borrow::Cow;
use std::fmt::Display;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::files::File;
use super::problem::Problems;
use crate::words::nearest;

/// Characters of a value that a problem repeats.
const QUOTED: usize = 60;
/// Letters that may be wrong in a key for it still to be recognised.
const SLIPS: usize = 2;

/// A table, all of whose keys are known.
pub(super) struct Fields<'a> {
    file: &'a File,
    table: &'a DeTable<'a>,
    /// Where it begins.
    at: usize,
    /// What it is called.
    what: String,
}

impl<'a> Fields<'a> {
    /// Looks through the keys of a table.
    pub(super) fn new(
        file: &'a File,
        table: &'a DeTable<'a>,
        at: usize,
        what: impl Into<String>,
        known: &[&'static str],
        problems: &mut Problems,
    ) -> Self {
        let what = what.into();
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let mend = match nearest(name, known.iter().copied(), SLIPS) {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => format!("it has {}", known.join(", ")),
                };
                let text = format!("{what} has no key {name:?}; {mend}");
                problems.add(file.problem(key.span().start, text));
            }
        }
        Self {
            file,
            table,
            at,
            what,
        }
    }

    /// Something wrong with the table as a whole.
    pub(super) fn wrong(&self, text: impl Display, problems: &mut Problems) {
        problems.add(self.file.problem(self.at, format!("{}: {text}", self.what)));
    }

    /// Something wrong with a key that is there.
    pub(super) fn wrong_key(&self, key: &str, text: impl Display, problems: &mut Problems) {
        let at = self.key_at(key).unwrap_or(self.at);
        problems.add(self.file.problem(at, format!("{}: {text}", self.what)));
    }

    /// Something wrong with a value: `text` follows it.
    pub(super) fn wrong_value(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        text: impl Display,
        problems: &mut Problems,
    ) {
        let shown = shown(value, &self.file.text);
        let text = format!("{key} = {shown} {text}");
        problems.add(self.file.problem(value.span().start, text));
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.entry(key).map(|(_, value)| value)
    }

    /// Where a key is written.
    pub(super) fn key_at(&self, key: &str) -> Option<usize> {
        self.entry(key).map(|(key, _)| key.span().start)
    }

    fn entry(&self, key: &str) -> Option<(&'a Spanned<Cow<'a, str>>, &'a Spanned<DeValue<'a>>)> {
        self.table.iter().find(|(name, _)| *name.get_ref() == key)
    }

    /// A value as it is spelt in variables; a number need not be quoted.
    pub(super) fn spelled<T, E: Display>(
        &self,
        key: &str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
        problems: &mut Problems,
    ) -> Option<T> {
        let value = self.get(key)?;
        let parsed = match value.get_ref() {
            DeValue::String(text) => parse(text).map_err(|wrong| wrong.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => {
                parse(number.as_str()).map_err(|wrong| wrong.to_string())
            }
            DeValue::Float(number) => parse(number.as_str()).map_err(|wrong| wrong.to_string()),
            other => Err(format!("is {}", kind(other))),
        };
        parsed
            .map_err(|wrong| {
                let text = format!("{wrong}; write for example {key} = \"{example}\"");
                self.wrong_value(key, value, text, problems);
            })
            .ok()
    }

    /// A text; what `parse` says of a bad one has its own mend.
    pub(super) fn text<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
        problems: &mut Problems,
    ) -> Option<T> {
        let value = self.get(key)?;
        let parsed = match value.get_ref() {
            DeValue::String(text) => parse(text),
            _ => Err("is not a text in quotes".into()),
        };
        parsed
            .map_err(|wrong| self.wrong_value(key, value, wrong, problems))
            .ok()
    }

    pub(super) fn boolean(&self, key: &str, problems: &mut Problems) -> Option<bool> {
        let value = self.get(key)?;
        let found = value.get_ref().as_bool();
        if found.is_none() {
            self.wrong_value(key, value, "is neither true nor false", problems);
        }
        found
    }

    pub(super) fn integer<T>(
        &self,
        key: &str,
        parse: impl Fn(i64) -> Result<T, String>,
        problems: &mut Problems,
    ) -> Option<T> {
        let value = self.get(key)?;
        let number = value.get_ref().as_integer();
        let number = number.and_then(|n| i64::from_str_radix(n.as_str(), n.radix()).ok());
        number
            .ok_or_else(|| format!("is not a whole number; write for example {key} = 5"))
            .and_then(parse)
            .map_err(|wrong| self.wrong_value(key, value, wrong, problems))
            .ok()
    }

    /// A list of texts, each with the byte where it stands.
    pub(super) fn texts(&self, key: &str, problems: &mut Problems) -> Vec<(String, usize)> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array().filter(|array| !array.is_empty()) else {
            let text = format!("is no list; write for example {key} = [\"/kubepods.slice/**\"]");
            self.wrong_value(key, value, text, problems);
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in array.iter() {
            match item.get_ref() {
                DeValue::String(text) => texts.push((text.to_string(), item.span().start)),
                _ => self.wrong_value(key, item, "is not a text in quotes", problems),
            }
        }
        texts
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
        _ => "not a decimal number",
    }
}

/// A value as it is written, on one line and not too long.
fn shown(value: &Spanned<DeValue<'_>>, source: &str) -> String {
    let written = source.get(value.span()).unwrap_or_default();
    let line = written.lines().next().unwrap_or_default();
    let short: String = line.chars().take(QUOTED).collect();
    let dots = if short.len() < written.len() {
        "..."
    } else {
        ""
    };
    format!("{short}{dots}")
}
