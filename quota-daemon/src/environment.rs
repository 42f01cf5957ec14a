//! The variables that a program started from here would get.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use quota_abi::settings::{self, Refusal, Settings};

/// Variables by name. Names that are not text are no concern of ours.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, Vec<u8>>,
}

impl Environment {
    /// This process's own.
    #[must_use]
    pub fn current() -> Self {
        let variables = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_vec())))
            .collect();
        Self { variables }
    }

    /// Sets `name`, where a value is given.
    pub fn set(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.variables.insert(name.into(), value.into());
        }
    }

    /// The names of all that are set.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// What `name` is set to, as text for people.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        let value = self.variables.get(name)?;
        Some(
            std::ffi::OsStr::from_bytes(value)
                .to_string_lossy()
                .into_owned(),
        )
    }

    /// What the library would read from these variables.
    ///
    /// # Errors
    /// What it would refuse at `cuInit`, in the same words.
    pub fn settings(&self) -> Result<Settings, Refusal> {
        settings::read(|name| self.variables.get(name).map(Vec::as_slice))
    }
}
