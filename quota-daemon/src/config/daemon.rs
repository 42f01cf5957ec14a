//! `[daemon]`.

use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::fields::Fields;
use super::files::File;
use super::once::Once;
use super::problem::Problems;
use super::{DaemonSettings, LogFormat, Oversubscribe, Unregistered, values};

const KEYS: [&str; 9] = [
    "state",
    "group",
    "metrics",
    "log",
    "log_format",
    "oversubscribe",
    "unregistered",
    "turns",
    "context",
];

/// Promising more than this many times what there is, is a slip.
const FACTORS: std::ops::RangeInclusive<f64> = 1.0..=1000.0;

/// Puts the tables of all files together.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) settings: DaemonSettings,
    given: Once,
}

impl Reader {
    pub(super) fn read(&mut self, file: &File, document: &DeTable<'_>, problems: &mut Problems) {
        // Whether the document has tables that nobody knows.
        let all = &super::container::TABLES;
        let _ = Fields::new(file, document, 0, "the configuration", all, problems);
        let table = self.given.table("daemon", &KEYS, file, document, problems);
        let Some(fields) = table else {
            return;
        };
        self.values(&fields, problems);
    }

    fn values(&mut self, fields: &Fields<'_>, problems: &mut Problems) {
        let settings = &mut self.settings;
        set(&mut settings.state, fields.text("state", folder, problems));
        let group = fields.text("group", values::group, problems);
        settings.group = group.or(settings.group.take());
        set(
            &mut settings.metrics,
            fields.text("metrics", metrics, problems),
        );
        set(&mut settings.log, fields.text("log", values::log, problems));
        set(
            &mut settings.log_format,
            fields.text("log_format", form, problems),
        );
        set(&mut settings.oversubscribe, oversubscribe(fields, problems));
        set(
            &mut settings.unregistered,
            fields.text("unregistered", unregistered, problems),
        );
        set(&mut settings.turns, fields.boolean("turns", problems));
        let context = fields.spelled("context", "400MiB", values::context, problems);
        set(&mut settings.context_bytes, context);
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn folder(text: &str) -> Result<PathBuf, String> {
    if text.starts_with('/') {
        Ok(text.into())
    } else {
        Err("does not begin with '/'; write for example state = \"/run/gpu-quota\"".into())
    }
}

fn metrics(text: &str) -> Result<Option<std::net::SocketAddr>, String> {
    match text {
        "none" => Ok(None),
        _ => values::address(text).map(Some),
    }
}

fn form(text: &str) -> Result<LogFormat, String> {
    clap::ValueEnum::from_str(text, false)
        .map_err(|_| "is none of auto, human, json and journald".into())
}

fn unregistered(text: &str) -> Result<Unregistered, String> {
    match text {
        "report" => Ok(Unregistered::Report),
        "kill" => Ok(Unregistered::Kill),
        _ => Err("is neither report nor kill".into()),
    }
}

fn oversubscribe(fields: &Fields<'_>, problems: &mut Problems) -> Option<Oversubscribe> {
    const KEY: &str = "oversubscribe";
    let value = fields.get(KEY)?;
    let factor = match value.get_ref() {
        DeValue::Boolean(false) => return Some(Oversubscribe::No),
        DeValue::Boolean(true) => return Some(Oversubscribe::Any),
        DeValue::Float(number) => number.as_str().parse().ok(),
        DeValue::Integer(number) => number.as_str().parse::<f64>().ok(),
        _ => None,
    };
    match factor.filter(|factor| FACTORS.contains(factor)) {
        Some(1.0) => Some(Oversubscribe::No),
        Some(factor) => Some(Oversubscribe::By(factor)),
        None => {
            let text = "is neither true, false, nor a factor of at least 1, as 1.5";
            fields.wrong_value(KEY, value, text, problems);
            None
        }
    }
}
