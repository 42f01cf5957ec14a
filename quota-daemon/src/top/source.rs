//! Asking the daemon, in a thread of its own: a daemon that is slow must not keep keys from being answered.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use super::model::{Detail, Sample};
use crate::api::Request;
use crate::client::Client;
use crate::exit::Stop;

/// What was heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// A status, or why there is none.
    Status(Result<Sample, String>),
    /// More about a container.
    Detail(Detail),
}

/// Asks until nobody wants to know any more: every `interval`, and whenever something is wanted, which is the
/// container that is looked at, if any.
pub(super) fn ask_on(
    socket: &Path,
    interval: Duration,
    begin: Instant,
    wanted: &Receiver<Option<String>>,
    mut tell: impl FnMut(Heard) -> bool,
) {
    let mut looked_at: Option<String> = None;
    loop {
        let status = sample(socket, begin).map_err(|stop| stop.to_string());
        if !tell(Heard::Status(status)) {
            return;
        }
        if let Some(container) = &looked_at
            && !tell(Heard::Detail(detail(socket, container)))
        {
            return;
        }
        match wanted.recv_timeout(interval) {
            Ok(container) => looked_at = container,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The status as it is now.
pub(super) fn sample(socket: &Path, begin: Instant) -> Result<Sample, Stop> {
    let status = Client::connect(socket)?.ask(&Request::Status)?;
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(Sample {
        at: begin.elapsed(),
        unix: unix.map_or(0, |time| time.as_secs()),
        status,
    })
}

fn detail(socket: &Path, container: &str) -> Detail {
    let name = || container.to_owned();
    let ask = || {
        let mut client = Client::connect(socket)?;
        let processes = client.ask(&Request::Processes {
            container: Some(name()),
        })?;
        Ok((processes, client.ask(&Request::Why { container: name() })?))
    };
    Detail {
        container: name(),
        answer: ask().map_err(|stop: Stop| stop.to_string()),
    }
}
