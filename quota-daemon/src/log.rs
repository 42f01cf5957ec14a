//! The daemon's log: lines for a person, for the journal, or as JSON.

mod journal;
mod limit;

use std::io::{IsTerminal, stderr};

pub use limit::{Limiter, allowed, suppressed};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{Subscriber, time::SystemTime};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::config::LogFormat;
use crate::table;

/// The variable by which systemd says that stderr is the journal.
const JOURNAL: &str = "JOURNAL_STREAM";

/// Sets the log up, once for the process. `filter` is a level, or directives as of `RUST_LOG`.
///
/// # Errors
/// The filter makes no sense, or there is a log already.
pub fn start(format: LogFormat, filter: &str) -> Result<(), String> {
    let filter: Targets = filter
        .parse()
        .map_err(|error| format!("log: {filter:?}: {error}"))?;
    let lines = Subscriber::builder()
        .with_writer(stderr)
        .with_max_level(LevelFilter::TRACE)
        .with_target(false);
    let set = match settled(format) {
        LogFormat::Json => tracing::subscriber::set_global_default(
            lines
                .json()
                .flatten_event(true)
                .with_timer(SystemTime)
                .finish()
                .with(filter),
        ),
        LogFormat::Journald => tracing::subscriber::set_global_default(
            lines
                .with_ansi(false)
                .event_format(journal::Lines)
                .finish()
                .with(filter),
        ),
        LogFormat::Human | LogFormat::Auto => tracing::subscriber::set_global_default(
            lines
                .with_ansi(is_coloured())
                .with_timer(SystemTime)
                .finish()
                .with(filter),
        ),
    };
    set.map_err(|_| "log: it is set up already".to_owned())
}

/// The format that is meant.
fn settled(format: LogFormat) -> LogFormat {
    match format {
        LogFormat::Auto if is_journal() => LogFormat::Journald,
        LogFormat::Auto => LogFormat::Human,
        other => other,
    }
}

/// Whether stderr is the journal: systemd names its device and inode.
fn is_journal() -> bool {
    let Some(stream) = std::env::var_os(JOURNAL) else {
        return false;
    };
    rustix::fs::fstat(stderr())
        .is_ok_and(|stat| stream.to_str() == Some(&format!("{}:{}", stat.st_dev, stat.st_ino)))
}

fn is_coloured() -> bool {
    stderr().is_terminal() && table::colours()
}
