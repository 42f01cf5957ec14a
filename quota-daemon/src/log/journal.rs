//! Lines as the journal takes them: the priority in front, and no time of their own, which the journal adds.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// `<4>text`, as sd-daemon(3) documents it.
pub(super) struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// As syslog(3) numbers them.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_line_begins_with_its_priority() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(Level::TRACE)
            .with_ansi(false)
            .event_format(Lines)
            .finish();
        tracing::subscriber::with_default(lines, || {
            tracing::error!("one");
            tracing::warn!(pid = 7, suppressed = None::<u64>, "two");
            tracing::info!("three");
            tracing::debug!("four\nfive");
        });
        let text = String::from_utf8(kept.0.lock().clone()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..3], ["<3>one", "<4>two pid=7", "<6>three"], "{text}");
        assert!(lines[3].starts_with("<7>four"), "{text}");
    }
}
