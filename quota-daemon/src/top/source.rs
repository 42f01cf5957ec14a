//! Asking the daemon, in a thread of its own: a daemon that is slow must not keep keys from being answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use serde::de::DeserializeOwned;

use super::model::{Detail, Sample};
use crate::api::{Request, Response};

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// No answer is longer.
const MOST: u64 = 64 << 20;

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
        if !tell(Heard::Status(sample(socket, begin))) {
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
///
/// # Errors
/// For a person: why there is none.
pub(super) fn sample(socket: &Path, begin: Instant) -> Result<Sample, String> {
    let status = ask(socket, &Request::Status)?;
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(Sample {
        at: begin.elapsed(),
        unix: unix.map_or(0, |time| time.as_secs()),
        status,
    })
}

fn detail(socket: &Path, container: &str) -> Detail {
    let name = || container.to_owned();
    let processes = ask(
        socket,
        &Request::Processes {
            container: Some(name()),
        },
    );
    let why = ask(socket, &Request::Why { container: name() });
    Detail {
        container: name(),
        answer: processes.and_then(|processes| Ok((processes, why?))),
    }
}

/// One request, one answer.
fn ask<T: DeserializeOwned>(socket: &Path, request: &Request) -> Result<T, String> {
    let at = socket.display();
    let unreachable = |error: std::io::Error| {
        format!("no daemon answers at {at}: {error}; `quota-daemon serve` starts one")
    };
    let mut stream = UnixStream::connect(socket).map_err(unreachable)?;
    let talk = |stream: &mut UnixStream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = String::new();
        BufReader::new(stream.take(MOST)).read_line(&mut answer)?;
        Ok(answer)
    };
    let answer = talk(&mut stream).map_err(unreachable)?;
    match serde_json::from_str(&answer) {
        Ok(Response::Ok(value)) => serde_json::from_value(value).map_err(|error| {
            format!("the daemon at {at} says what this version does not know: {error}")
        }),
        Ok(Response::Error(refused)) => Err(refused.text),
        Err(error) => Err(format!("the daemon at {at} gave no answer: {error}")),
    }
}
