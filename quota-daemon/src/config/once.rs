//! A table that all files together have once: each of its keys in one of them.

use std::collections::BTreeMap;

use toml::de::DeTable;

use super::container::TABLES;
use super::fields::Fields;
use super::files::File;
use super::problem::Problems;

/// Where each key was given.
#[derive(Default)]
pub(super) struct Once(BTreeMap<&'static str, String>);

impl Once {
    /// The table `name` of a file, where it has one.
    pub(super) fn table<'a>(
        &mut self,
        name: &'static str,
        keys: &[&'static str],
        file: &'a File,
        document: &'a DeTable<'a>,
        problems: &mut Problems,
    ) -> Option<Fields<'a>> {
        // What is wrong with the other tables is told by who looks through the document.
        let nobody = &mut Problems::default();
        let root = Fields::new(file, document, 0, "the configuration", &TABLES, nobody);
        let value = root.get(name)?;
        let Some(table) = value.get_ref().as_table() else {
            let text = format!("{name} is one table: write [{name}]");
            root.wrong_key(name, text, problems);
            return None;
        };
        let at = root.key_at(name).unwrap_or(0);
        let fields = Fields::new(file, table, at, format!("[{name}]"), keys, problems);
        for key in keys {
            let Some(at) = fields.key_at(key) else {
                continue;
            };
            if let Some(place) = self.0.insert(key, file.place(at)) {
                let text = format!("{key} was given at {place}; leave one of them");
                fields.wrong_key(key, text, problems);
            }
        }
        Some(fields)
    }
}
