//! One question, one answer: who asks, for which container, and whether it is let in.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

use quota_abi::layout::SLOTS;
use quota_abi::life::Identity;
use quota_abi::slots::Owner;
use quota_abi::wire::{self, Answer, Purpose, Question, Status};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use crate::log;
use crate::metrics::Counters;
use crate::proc;

use super::checks::{No, check_identity, check_versions, later, nobody, refused};
use super::clients::{Client, Record};
use super::core::{Core, Inner, Source};
use super::peer::{self, Facts, Nobody, Peer};
use super::usage::Size;

/// How long whoever has connected may take to ask.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Connections of one socket that may wait for their question at a time.
pub(super) const MOST_PENDING: usize = 64;

/// A connection whose question has not come yet.
#[derive(Debug)]
pub(super) struct Pending {
    /// The connection.
    pub(super) connection: OwnedFd,
    /// At which container's socket; `None` is the host's.
    pub(super) container: Option<String>,
    /// Whose it is: where more wait than may, who has the most of them loses the oldest.
    pub(super) whose: String,
    /// Until when it may ask.
    pub(super) until: Instant,
}

/// What came of listening to a connection.
#[derive(Debug)]
pub(super) enum Heard {
    /// The question.
    Question(Question),
    /// Nothing yet.
    Nothing,
    /// It has hung up.
    End,
    /// Something else.
    Nonsense(String),
}

/// Reads a question, if it has come. Descriptors that come with it are not taken: without room for them the kernel closes them.
pub(super) fn listen(connection: &OwnedFd) -> Heard {
    let mut bytes = [0; wire::MOST];
    match recv(connection, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((0, _)) => Heard::End,
        Ok((length, _)) => match Question::decode(bytes.get(..length).unwrap_or_default()) {
            Ok(question) => Heard::Question(question),
            Err(malformed) => Heard::Nonsense(malformed.to_string()),
        },
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Heard::Nothing,
        Err(_) => Heard::End,
    }
}

/// Sends an answer; `false` if it did not arrive.
fn send(connection: &OwnedFd, answer: &Answer, files: &[BorrowedFd<'_>]) -> bool {
    let bytes = answer.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return false;
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(connection, &[IoSlice::new(&bytes)], &mut control, flags)
        .is_ok_and(|sent| sent == bytes.len())
}

impl Core {
    /// Answers a question; `container` is whose socket it came by, `None` the host's.
    pub(super) fn answer(
        &self,
        connection: &OwnedFd,
        question: &Question,
        container: Option<&str>,
    ) {
        let version = wire::common(question.versions, wire::VERSIONS);
        let mut answer = Answer {
            version: version.unwrap_or(wire::VERSIONS.1),
            status: Status::Granted,
            container: container.unwrap_or_default().to_owned(),
            text: String::new(),
        };
        match self.admit(connection, question, container, &mut answer) {
            Ok(()) => {}
            Err(no) => {
                Counters::add(&self.parts.counters.refused_attaches);
                let who = container.unwrap_or("the host's socket");
                if let Some(suppressed) = log::allowed(who, "refused") {
                    tracing::info!(container, status = ?no.status, suppressed, "{}", no.text);
                }
                answer.status = no.status;
                answer.text = no.text;
                send(connection, &answer, &[]);
            }
        }
    }

    fn admit(
        &self,
        connection: &OwnedFd,
        question: &Question,
        container: Option<&str>,
        answer: &mut Answer,
    ) -> Result<(), No> {
        check_versions(question)?;
        let peer = peer::peer(connection).map_err(nobody)?;
        let facts = peer::facts(peer.pid).map_err(|_| nobody(Nobody::Gone))?;
        let cgroup = match container {
            Some(_) => None,
            None => Some(proc::cgroup(peer.pid).map_err(|_| nobody(Nobody::Gone))?),
        };
        if peer::is_dead(&peer.pidfd) {
            // What `/proc` has said may be of another process of the same pid.
            return Err(nobody(Nobody::Gone));
        }
        check_identity(question, &peer, &facts)?;
        let mut inner = self.lock();
        let name = match (container, cgroup) {
            (Some(name), _) => name.to_owned(),
            (None, cgroup) => self.by_cgroup(&mut inner, &cgroup.unwrap_or_default())?,
        };
        answer.container.clone_from(&name);
        match question.purpose {
            Purpose::View => {
                let files = inner
                    .containers
                    .get(&name)
                    .map(|container| &container.files);
                let files = files.ok_or_else(|| refused("the container is being removed"))?;
                send(connection, answer, &files.handed_over());
                Counters::add(&self.parts.counters.views);
                Ok(())
            }
            Purpose::Attach => self.attach(
                &mut inner, &name, peer, &facts, question, connection, answer,
            ),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what the kernel says, what is asked, and where to answer"
    )]
    fn attach(
        &self,
        inner: &mut Inner,
        name: &str,
        peer: Peer,
        facts: &Facts,
        question: &Question,
        connection: &OwnedFd,
        answer: &Answer,
    ) -> Result<(), No> {
        let record = record(&peer, facts, question);
        let key = record.key();
        let elsewhere = inner
            .clients
            .get(&key)
            .filter(|known| known.container != name);
        if let Some(known) = elsewhere {
            return Err(refused(format!(
                "this process is registered in container {} already",
                known.container
            )));
        }
        let Some(container) = inner.containers.get_mut(name) else {
            return Err(refused("the container is being removed"));
        };
        let known = container.clients.contains(&key);
        if !known && container.clients.len() >= SLOTS {
            return Err(refused(format!(
                "container {name} has {SLOTS} registered processes, the most that one can have"
            )));
        }
        if container.clients.is_empty() {
            match container.files.renew(&self.state, name) {
                Ok(false) => {}
                Ok(true) => {
                    container.damaged(
                        "its usage region was no region any more, and has been replaced".into(),
                    );
                    container
                        .tallies
                        .values_mut()
                        .for_each(super::account::Tally::restart);
                }
                Err(error) => return Err(later(error.to_string())),
            }
        } else if let cut @ Size::Cut(_) = container.check_size() {
            return Err(refused(format!(
                "{cut}: container {name} can be used again when all its processes have ended"
            )));
        }
        for dead in &container.files.policy().dead {
            // The same process again, or one that cannot be told from a dead one: it lives.
            let _ = dead.compare_exchange(
                record.owner,
                0,
                quota_abi::sync::Ordering::AcqRel,
                quota_abi::sync::Ordering::Relaxed,
            );
        }
        if let Err(error) = record.keep(&self.state.clients(name)) {
            return Err(later(format!("cannot note the process: {error}")));
        }
        container.clients.insert(key);
        let arrived = send(connection, answer, &container.files.handed_over());
        if known {
            // After `execve`, for example.
            if let Some(client) = inner.clients.get_mut(&key) {
                client.record = record;
            }
            return Ok(());
        }
        if !arrived {
            record.forget(&self.state.clients(name));
            container.clients.remove(&key);
            return Ok(());
        }
        tracing::debug!(container = name, pid = record.pid, program = %record.program, "attached");
        Counters::add(&self.parts.counters.attaches);
        self.register(inner, name, record, peer.pidfd);
        Ok(())
    }

    /// Waits for the death of a process that has been admitted.
    pub(super) fn register(&self, inner: &mut Inner, name: &str, record: Record, pidfd: OwnedFd) {
        let key = record.key();
        let token = inner.token(Source::Client(key));
        if let Err(error) = self.watch(&pidfd, token) {
            tracing::error!(container = name, pid = record.pid, "{error}");
        }
        if let Some(container) = inner.containers.get_mut(name) {
            container.clients.insert(key);
        }
        let client = Client {
            record,
            container: name.to_owned(),
            _pidfd: pidfd,
            token,
        };
        inner.clients.insert(key, client);
        self.signal.ring();
        self.parts.gpus.poke();
    }
}

fn record(peer: &Peer, facts: &Facts, question: &Question) -> Record {
    let identity = Identity {
        pid: question.pid,
        start: question.start,
        namespace: question.namespace,
        image: question.image,
    };
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Record {
        pid: peer.pid,
        start: facts.start,
        owner: Owner::of(&identity).word(),
        pid_inside: facts.pid_inside,
        uid: peer.uid,
        program: facts.program.clone(),
        since: since.map_or(0, |since| since.as_secs()),
    }
}
