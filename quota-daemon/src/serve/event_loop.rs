//! The one thread that waits: for connections, questions, deaths. What it does in one turn is bounded for each of them, so that
//! no container can keep the others waiting.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::log;
use crate::metrics::Counters;
use crate::proc;

use super::core::{Core, Inner, Source};
use super::handshake::{self, Heard, MOST_PENDING, Pending};
use super::sockets::{Accepted, Listener, PER_TURN};

/// Events taken at once.
const EVENTS: usize = 128;
/// How often a container is tried again that could not be opened: a tenant may hold its file for a while (fcntl(2), leases).
const RETRY: Duration = Duration::from_secs(1);

/// Runs until the core stops.
pub(super) fn run(core: &Core) {
    let mut events = Vec::with_capacity(EVENTS);
    while !core.is_stopping() {
        let wait = core
            .next_deadline()
            .map(|until| until.saturating_duration_since(Instant::now()));
        // Rounded up, so that the loop does not turn while the last millisecond passes.
        let wait = wait.map(|wait| timespec(wait + Duration::from_micros(100)));
        events.clear();
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&core.epoll, buffer, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!("waiting for events: {error}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        for event in &events {
            core.handle(event.data.u64());
        }
        core.expire(Instant::now());
        core.turns.fetch_add(1, Ordering::Relaxed);
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

impl Core {
    /// When there is something to do besides events.
    fn next_deadline(&self) -> Option<Instant> {
        let inner = self.lock();
        let pending = inner.pending.values().next().map(|pending| pending.until);
        let asleep = inner.asleep.first().map(|(until, _)| *until);
        let going = inner
            .containers
            .values()
            .filter_map(super::container::Container::goes_at)
            .min();
        let retry = self.is_to_retry(&inner).then_some(inner.retry_at);
        [pending, asleep, going, retry].into_iter().flatten().min()
    }

    fn handle(&self, token: u64) {
        let source = self.lock().sources.get(&token).cloned();
        match source {
            // The descriptor was closed by an event of the same turn.
            None => {}
            Some(Source::Wake) => {
                let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            }
            Some(Source::Host) => self.accept(None),
            Some(Source::Container(name)) => self.accept(Some(&name)),
            Some(Source::Pending) => self.hear(token),
            Some(Source::Client(key)) => self.bury(key),
        }
    }

    fn accept(&self, container: Option<&str>) {
        for _ in 0..PER_TURN {
            let now = Instant::now();
            let mut inner = self.lock();
            let Some(listener) = listener(&mut inner, container) else {
                return;
            };
            match listener.accept(now) {
                Accepted::One(connection) => {
                    drop(inner);
                    self.greet(connection, container, now);
                }
                Accepted::Nobody => return,
                Accepted::Later(pause) => {
                    let token = listener.token;
                    self.listen_to(listener, epoll::EventFlags::empty());
                    inner.asleep.insert((now + pause, token));
                    return;
                }
            }
        }
    }

    fn listen_to(&self, listener: &Listener, flags: epoll::EventFlags) {
        let data = epoll::EventData::new_u64(listener.token);
        if let Err(error) = epoll::modify(&self.epoll, &listener.socket, data, flags) {
            tracing::error!("a socket is not listened at any more: {error}");
        }
    }

    /// Most have asked before their connection is taken. Who has not, waits among a bounded number.
    fn greet(&self, connection: OwnedFd, container: Option<&str>, now: Instant) {
        match handshake::listen(&connection) {
            Heard::Question(question) => self.answer(&connection, &question, container),
            Heard::Nothing => self.keep_waiting(connection, container, now),
            Heard::End => {}
            Heard::Nonsense(what) => self.nonsense(container, &what),
        }
    }

    fn keep_waiting(&self, connection: OwnedFd, container: Option<&str>, now: Instant) {
        let whose = match container {
            Some(_) => String::new(),
            None => whose(&connection),
        };
        let mut inner = self.lock();
        if make_room(&mut inner, container) {
            Counters::add(&self.parts.counters.refused_connections);
        }
        let token = inner.token(Source::Pending);
        if self.watch(&connection, token).is_err() {
            inner.sources.remove(&token);
            return;
        }
        let pending = Pending {
            connection,
            container: container.map(ToOwned::to_owned),
            whose,
            until: now + handshake::PATIENCE,
        };
        inner.pending.insert(token, pending);
    }

    fn hear(&self, token: u64) {
        let mut inner = self.lock();
        let Some(pending) = inner.pending.get(&token) else {
            return;
        };
        let heard = handshake::listen(&pending.connection);
        if matches!(heard, Heard::Nothing) {
            return;
        }
        inner.sources.remove(&token);
        let Some(pending) = inner.pending.remove(&token) else {
            return;
        };
        drop(inner);
        let container = pending.container.as_deref();
        match heard {
            Heard::Question(question) => self.answer(&pending.connection, &question, container),
            Heard::Nonsense(what) => self.nonsense(container, &what),
            Heard::End | Heard::Nothing => {}
        }
    }

    fn nonsense(&self, container: Option<&str>, what: &str) {
        Counters::add(&self.parts.counters.malformed);
        let who = container.unwrap_or("the host's socket");
        if let Some(suppressed) = log::allowed(who, "malformed") {
            tracing::warn!(container, suppressed, "a question that is none: {what}");
        }
    }

    fn expire(&self, now: Instant) {
        let mut inner = self.lock();
        while let Some(entry) = inner.pending.first_entry() {
            if entry.get().until > now {
                break;
            }
            let (token, _) = entry.remove_entry();
            inner.sources.remove(&token);
            Counters::add(&self.parts.counters.refused_connections);
        }
        while let Some((until, token)) = inner.asleep.first().copied() {
            if until > now {
                break;
            }
            inner.asleep.remove(&(until, token));
            let container = match inner.sources.get(&token).cloned() {
                Some(Source::Container(name)) => Some(name),
                Some(Source::Host) => None,
                _ => continue,
            };
            if let Some(listener) = listener(&mut inner, container.as_deref()) {
                self.listen_to(listener, epoll::EventFlags::IN);
            }
        }
        if self.is_to_retry(&inner) && inner.retry_at <= now {
            inner.retry_at = now + RETRY;
            self.retry(&mut inner);
        }
        let gone = |container: &super::container::Container| {
            container.goes_at().is_some_and(|at| at <= now)
        };
        let names: Vec<String> = inner
            .containers
            .iter()
            .filter(|(_, container)| gone(container))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &names {
            self.close(&mut inner, name);
        }
        if !names.is_empty() {
            self.persist(&inner);
        }
    }
}

fn listener<'a>(inner: &'a mut Inner, container: Option<&str>) -> Option<&'a mut Listener> {
    match container {
        Some(name) => Some(&mut inner.containers.get_mut(name)?.listener),
        None => inner.host.as_mut(),
    }
}

/// By what those at the host's socket are told apart.
fn whose(connection: &OwnedFd) -> String {
    let pid = crate::peer::of(connection).map_or(0, |peer| peer.pid);
    proc::cgroup(pid).unwrap_or_default()
}

/// Where as many wait at a socket as may, whoever has the most of them loses the oldest. `true` if somebody has.
fn make_room(inner: &mut Inner, container: Option<&str>) -> bool {
    let mut counts: std::collections::HashMap<&str, (usize, u64)> =
        std::collections::HashMap::new();
    let mut all = 0;
    for (token, pending) in &inner.pending {
        if pending.container.as_deref() == container {
            all += 1;
            counts.entry(&pending.whose).or_insert((0, *token)).0 += 1;
        }
    }
    if all < MOST_PENDING {
        return false;
    }
    let Some((_, oldest)) = counts.into_values().max_by_key(|(count, _)| *count) else {
        return false;
    };
    inner.pending.remove(&oldest);
    inner.sources.remove(&oldest);
    true
}
