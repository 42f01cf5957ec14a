//! A small listener for those who fetch metrics: `GET /metrics`, `GET /healthz`, and nothing else.
//!
//! One thread, a few connections, bounds on what is read and how long it may take: whoever can reach the address can at worst
//! keep others from fetching metrics.

mod connection;
mod request;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use connection::Connection;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Connections at a time. More wait in the kernel's queue.
const MOST: usize = 16;

/// Makes the text of `/metrics`.
pub type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Listens until it is dropped.
pub struct Listener {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens at the address.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(address: SocketAddr, metrics: Metrics) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || serve(&listener, &stopped, &metrics))?;
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if rustix::io::write(&self.stop, &1_u64.to_ne_bytes()).is_ok()
            && let Some(thread) = self.thread.take()
        {
            drop(thread.join());
        }
    }
}

fn serve(listener: &TcpListener, stop: &OwnedFd, metrics: &Metrics) {
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let Some(ready) = wait(listener, stop, &connections) else {
            return;
        };
        for (connection, ready) in connections.iter_mut().zip(ready.connections) {
            if ready {
                connection.proceed(metrics);
            }
        }
        let now = Instant::now();
        connections.retain(|connection| !connection.is_over(now));
        while ready.listener && connections.len() < MOST {
            match listener.accept() {
                Ok((stream, _)) => connections.extend(Connection::new(stream, now)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // Out of descriptors, perhaps: the kernel would report the same again at once.
                    thread::sleep(Duration::from_millis(100));
                    break;
                }
            }
        }
    }
}

/// What can go on.
struct Ready {
    listener: bool,
    connections: Vec<bool>,
}

/// Waits for something to do; `None`: it is time to stop.
fn wait(listener: &TcpListener, stop: &OwnedFd, connections: &[Connection]) -> Option<Ready> {
    let now = Instant::now();
    let nearest = connections
        .iter()
        .map(|connection| connection.left(now))
        .min();
    // A little more, so that the deadline has passed when it has.
    let timeout = nearest.map(|left| left + Duration::from_millis(1));
    let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
    let accepting = if connections.len() < MOST {
        PollFlags::IN
    } else {
        PollFlags::empty()
    };
    let mut all = vec![
        PollFd::new(stop, PollFlags::IN),
        PollFd::new(listener, accepting),
    ];
    let streams = connections.iter();
    all.extend(streams.map(|one| PollFd::from_borrowed_fd(one.as_fd(), one.wants())));
    match poll(&mut all, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(_) => thread::sleep(Duration::from_millis(100)),
    }
    let mut ready = all.iter().map(|one| !one.revents().is_empty());
    if ready.next() == Some(true) {
        return None;
    }
    Some(Ready {
        listener: ready.next() == Some(true),
        connections: ready.collect(),
    })
}

#[cfg(test)]
mod tests;
