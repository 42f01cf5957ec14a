//! The control socket: who may ask, and one thread for each of a bounded number of connections.
//!
//! Tenants have no way to this socket. All the same nothing that is said here blocks the daemon or makes it grow: lines and
//! times are bounded, and who may not ask is told so before a byte of his is read.

mod access;
mod answer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, io};

use parking_lot::Mutex;
use tracing::{debug, warn};

use crate::api::{Kind, MOST, Manager, Refused};
use crate::config::Group;
use crate::lines::{Lines, NoLine};
use crate::peer::Peer;
use crate::report::Status;
use access::Access;

/// Connections at one time.
const CONNECTIONS: usize = 32;
/// A connection that asks nothing for this long is closed.
const IDLE: Duration = Duration::from_secs(60);
/// A request has to come to its end, and an answer to be taken, within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests are small, and nothing recurses.
const STACK: usize = 512 << 10;

/// Makes the text for Prometheus.
pub type Metrics = Arc<dyn Fn(&Status) -> String + Send + Sync>;

/// What the connections share.
struct Shared {
    manager: Arc<dyn Manager>,
    metrics: Metrics,
    access: Access,
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    next: u64,
    open: BTreeMap<u64, UnixStream>,
    /// No more are taken.
    over: bool,
}

/// Listens until it is dropped.
pub struct Server {
    listener: UnixListener,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Begins to listen at `path`, in the place of whatever was there before. Members of `group` may ask, besides root and
    /// the daemon's own user.
    ///
    /// # Errors
    /// The socket cannot be made, or not be given to the group.
    pub fn start(
        path: &Path,
        group: Option<&Group>,
        manager: Arc<dyn Manager>,
        metrics: Metrics,
    ) -> io::Result<Self> {
        let listener = bind(path, group)?;
        let shared = Arc::new(Shared {
            manager,
            metrics,
            access: Access::new(group),
            connections: Mutex::default(),
        });
        let (ours, theirs) = (listener.try_clone()?, Arc::clone(&shared));
        let thread = thread::Builder::new()
            .name("control".into())
            .stack_size(STACK)
            .spawn(move || accept(&ours, &theirs))?;
        Ok(Self {
            listener,
            shared,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let open = {
            let mut connections = self.shared.connections.lock();
            connections.over = true;
            std::mem::take(&mut connections.open)
        };
        // Wakes whoever sleeps in accept or read.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        for stream in open.into_values() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A listener at `path` that nobody sees before its mode is right, and that takes the place of an older one in one step.
fn bind(path: &Path, group: Option<&Group>) -> io::Result<UnixListener> {
    let fresh = PathBuf::from(format!("{}.new", path.display()));
    let place = |error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(place(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&fresh).map_err(place)?;
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600)).map_err(place)?;
    if let Some(group) = group {
        chown(&fresh, None, Some(group.gid)).map_err(place)?;
    }
    fs::set_permissions(&fresh, fs::Permissions::from_mode(mode)).map_err(place)?;
    fs::rename(&fresh, path).map_err(place)?;
    Ok(listener)
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Err(error) = serve(stream, shared) {
                    debug!("a connection to the control socket was not served: {error}");
                }
            }
            Err(_) if shared.connections.lock().over => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                // Most likely out of descriptors, which others give back.
                warn!("the control socket takes no connections: {error}");
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

/// Gives a connection a thread, if it may have one.
fn serve(stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let peer = match shared.access.admit(&stream) {
        Ok(peer) => peer,
        Err(refused) => return refuse(stream, refused),
    };
    let number = {
        let mut connections = shared.connections.lock();
        if connections.over {
            return Ok(());
        }
        if connections.open.len() >= CONNECTIONS {
            drop(connections);
            let text = format!("{CONNECTIONS} others are asking: try again");
            return refuse(
                stream,
                Refused {
                    kind: Kind::Failed,
                    text,
                },
            );
        }
        connections.next += 1;
        let number = connections.next;
        connections.open.insert(number, stream.try_clone()?);
        number
    };
    let guard = Guard {
        shared: Arc::clone(shared),
        number,
    };
    thread::Builder::new()
        .name("control-peer".into())
        .stack_size(STACK)
        .spawn(move || talk(Lines::new(stream, MOST), &guard.shared, peer))?;
    Ok(())
}

/// Forgets a connection when its thread ends, however that is.
struct Guard {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.connections.lock().open.remove(&self.number);
    }
}

fn refuse(stream: UnixStream, refused: Refused) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    Lines::new(stream, 0).write(&answer::error(refused), PATIENCE)
}

/// Answers request after request.
fn talk(mut lines: Lines, shared: &Shared, peer: Peer) {
    loop {
        let response = match lines.next(IDLE, PATIENCE) {
            Ok(Some(line)) => answer::answer(&line, shared, peer),
            Err(NoLine::TooLong(most)) => {
                let text = format!("a request has at most {most} bytes");
                let refused = Refused {
                    kind: Kind::Usage,
                    text,
                };
                let _ = lines.write(&answer::error(refused), PATIENCE);
                return;
            }
            Ok(None) | Err(_) => return,
        };
        if lines.write(&response, PATIENCE).is_err() {
            return;
        }
    }
}
