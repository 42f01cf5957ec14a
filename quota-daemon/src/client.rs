//! The side of the control socket that asks.

use std::io::{Error, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{Kind, Request, Response, SOCKET_NAME};
use crate::exit::Stop;
use crate::lines::{Lines, NoLine};

/// The longest answer that is read: that of many thousand processes.
const LONGEST: usize = 256 << 20;
/// A daemon that has not answered after this long hangs.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where the daemon is.
#[derive(Clone, Debug, clap::Args)]
pub struct Where {
    /// The daemon's directory.
    #[arg(long, value_name = "DIR", env = "GPU_QUOTA_STATE", default_value = quota_abi::wire::STATE)]
    pub state: PathBuf,

    /// Its control socket [default: control.sock in its directory].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

impl Where {
    /// The control socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        let socket = self.socket.clone();
        socket.unwrap_or_else(|| self.state.join(SOCKET_NAME))
    }

    /// Asks one thing.
    ///
    /// # Errors
    /// As [`Client::connect`] and [`Client::ask`].
    pub fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, Stop> {
        Client::connect(&self.socket())?.ask(request)
    }
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    lines: Lines,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`Stop::Unreachable`], with the socket and the mend.
    pub fn connect(socket: &Path) -> Result<Self, Stop> {
        let stream = UnixStream::connect(socket).map_err(|error| unreachable(socket, &error))?;
        Ok(Self {
            socket: socket.into(),
            lines: Lines::new(stream, LONGEST),
        })
    }

    /// Asks, and reads the answer as what it should be.
    ///
    /// # Errors
    /// What the daemon refuses, by its kind; [`Stop::Unreachable`] if it does not answer.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Stop> {
        let value = self.value(request)?;
        let socket = self.socket.display();
        let read = serde_json::from_value(value);
        Ok(read.with_context(|| {
            format!("the daemon at {socket} answers otherwise than this version understands")
        })?)
    }

    fn value(&mut self, request: &Request) -> Result<Value, Stop> {
        let line = serde_json::to_string(request).context("the request cannot be written")?;
        // A daemon that refuses the connection has said so and closed it, whether or not this is still taken.
        let written = self.lines.write(&line, PATIENCE);
        let answer = match self.lines.next(PATIENCE, PATIENCE) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Err(self.silent(&written.err())),
            Err(NoLine::Io(error)) => return Err(self.silent(&Some(error))),
            Err(other) => {
                return Err(Stop::Unreachable(format!(
                    "{}: {other}",
                    self.socket.display()
                )));
            }
        };
        let answer = serde_json::from_slice(&answer).with_context(|| {
            format!(
                "{} is no control socket of this daemon",
                self.socket.display()
            )
        })?;
        match answer {
            Response::Ok(value) => Ok(value),
            Response::Error(refused) => Err(match refused.kind {
                Kind::Usage => Stop::Usage(refused.text),
                Kind::NotFound => Stop::NotFound(refused.text),
                Kind::Forbidden | Kind::Failed => Stop::Other(anyhow!(refused.text)),
            }),
        }
    }

    fn silent(&self, error: &Option<Error>) -> Stop {
        let why = match error {
            Some(error) => error.to_string(),
            None => "it closed the connection".into(),
        };
        let socket = self.socket.display();
        Stop::Unreachable(format!("the daemon at {socket} gives no answer: {why}"))
    }
}

fn unreachable(socket: &Path, error: &Error) -> Stop {
    let socket = socket.display();
    Stop::Unreachable(match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => format!(
            "no daemon at {socket}; start it with `quota-daemon serve`, or name its directory with --state"
        ),
        ErrorKind::PermissionDenied => format!(
            "this user may not use {socket}: be root, or a member of the group that [daemon] group names"
        ),
        _ => format!("no daemon at {socket}: {error}"),
    })
}
