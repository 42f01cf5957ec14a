//! `[cdi]`.

use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::CdiSettings;
use super::fields::Fields;
use super::files::File;
use super::once::Once;
use super::problem::Problems;
use crate::cdi::{DIRECTORIES, Preload};

const KEYS: [&str; 4] = ["publish", "kind", "preload", "library"];

/// Puts the tables of all files together.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) settings: CdiSettings,
    given: Once,
}

impl Reader {
    pub(super) fn read(&mut self, file: &File, document: &DeTable<'_>, problems: &mut Problems) {
        let Some(fields) = self.given.table("cdi", &KEYS, file, document, problems) else {
            return;
        };
        let settings = &mut self.settings;
        if let Some(folder) = publish(&fields, problems) {
            settings.publish = folder;
        }
        if let Some(kind) = fields.text("kind", str::parse, problems) {
            settings.kind = kind;
        }
        if let Some(preload) = fields.text("preload", preload, problems) {
            settings.preload = preload;
        }
        let library = fields.text("library", absolute, problems);
        settings.library = library.or(settings.library.take());
    }
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    if text.starts_with('/') {
        return Ok(text.into());
    }
    Err(
        "does not begin with '/'; write for example \"/usr/local/lib/gpu-quota/libquota_shim.so\""
            .into(),
    )
}

fn preload(text: &str) -> Result<Preload, String> {
    clap::ValueEnum::from_str(text, false).map_err(|_| "is none of replace, env and none".into())
}

/// `true` is where runtimes look for devices that come and go; another directory is for tests, and for a runtime that is told of it.
fn publish(fields: &Fields<'_>, problems: &mut Problems) -> Option<Option<PathBuf>> {
    const KEY: &str = "publish";
    let value = fields.get(KEY)?;
    match value.get_ref() {
        DeValue::Boolean(false) => Some(None),
        DeValue::Boolean(true) => Some(DIRECTORIES.last().map(PathBuf::from)),
        DeValue::String(text) if text.starts_with('/') => Some(Some(text.as_ref().into())),
        _ => {
            let text = "is neither true, false, nor a directory, as \"/var/run/cdi\"";
            fields.wrong_value(KEY, value, text, problems);
            None
        }
    }
}
