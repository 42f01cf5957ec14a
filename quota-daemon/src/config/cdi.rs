//! `[cdi]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::CdiSettings;
use super::fields::Fields;
use super::files::File;
use super::problem::Problems;
use crate::cdi::{DIRECTORIES, Preload};

const KEYS: [&str; 4] = ["publish", "kind", "preload", "library"];

/// Puts the tables of all files together.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) settings: CdiSettings,
    /// Where each key was given.
    given: BTreeMap<&'static str, String>,
}

impl Reader {
    pub(super) fn read(&mut self, file: &File, document: &DeTable<'_>, problems: &mut Problems) {
        // Other keys have been told with `[daemon]`.
        let nobody = &mut Problems::default();
        let root = Fields::new(file, document, 0, "the configuration", &[], nobody);
        let Some(value) = root.get("cdi") else {
            return;
        };
        let Some(table) = value.get_ref().as_table() else {
            root.wrong_key("cdi", "cdi is one table: write [cdi]", problems);
            return;
        };
        let at = root.key_at("cdi").unwrap_or(0);
        let fields = Fields::new(file, table, at, "[cdi]", &KEYS, problems);
        for key in KEYS {
            let Some(at) = fields.key_at(key) else {
                continue;
            };
            if let Some(place) = self.given.insert(key, file.place(at)) {
                let text = format!("{key} was given at {place}; leave one of them");
                fields.wrong_key(key, text, problems);
            }
        }
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
