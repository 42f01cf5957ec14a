//! One connection: a request's head in, an answer out, and the end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::{Metrics, request};

/// Nobody needs a longer head.
const MOST_HEAD: usize = 8 * 1024;
/// What may still come after an answer, and is thrown away: closing with unread bytes would take the answer back.
const MOST_REST: usize = 64 * 1024;
/// To send a request, to take an answer, and to hang up then.
const PATIENCE: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(1),
];

enum Phase {
    /// The bytes so far.
    Reading(Vec<u8>),
    /// The answer, and how much of it is sent.
    Writing(Vec<u8>, usize),
    /// How much has been thrown away.
    Closing(usize),
    Over,
}

pub(super) struct Connection {
    stream: TcpStream,
    phase: Phase,
    deadline: Instant,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let [patience, ..] = PATIENCE;
        Ok(Self {
            stream,
            phase: Phase::Reading(Vec::new()),
            deadline: now + patience,
        })
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Over) || now >= self.deadline
    }

    /// How long it may still take.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.deadline.saturating_duration_since(now)
    }

    pub(super) fn wants(&self) -> PollFlags {
        match self.phase {
            Phase::Writing(..) => PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Goes on as far as it can without waiting.
    pub(super) fn proceed(&mut self, metrics: &Metrics) {
        loop {
            let next = match &mut self.phase {
                Phase::Reading(head) => read(&mut self.stream, head, metrics),
                Phase::Writing(answer, sent) => write(&mut self.stream, answer, sent),
                Phase::Closing(rest) => discard(&mut self.stream, rest),
                Phase::Over => return,
            };
            let [_, to_take, to_close] = PATIENCE;
            match next {
                Ok(Some(phase)) => {
                    let patience = if matches!(phase, Phase::Writing(..)) {
                        to_take
                    } else {
                        to_close
                    };
                    self.deadline = Instant::now() + patience;
                    self.phase = phase;
                }
                Ok(None) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return,
                    _ => self.phase = Phase::Over,
                },
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn read(
    stream: &mut TcpStream,
    head: &mut Vec<u8>,
    metrics: &Metrics,
) -> io::Result<Option<Phase>> {
    let mut buffer = [0; 2048];
    let bytes = stream.read(&mut buffer)?;
    if bytes == 0 {
        return Ok(Some(Phase::Over));
    }
    head.extend(buffer.get(..bytes).unwrap_or_default());
    let answer = match request::end(head) {
        Some(end) if end <= MOST_HEAD => {
            request::answer(head.get(..end).unwrap_or_default(), metrics)
        }
        None if head.len() < MOST_HEAD => return Ok(None),
        _ => request::too_large(),
    };
    Ok(Some(Phase::Writing(answer, 0)))
}

fn write(stream: &mut TcpStream, answer: &[u8], sent: &mut usize) -> io::Result<Option<Phase>> {
    let rest = answer.get(*sent..).unwrap_or_default();
    if rest.is_empty() {
        stream.shutdown(Shutdown::Write)?;
        return Ok(Some(Phase::Closing(0)));
    }
    *sent += stream.write(rest)?;
    Ok(None)
}

fn discard(stream: &mut TcpStream, rest: &mut usize) -> io::Result<Option<Phase>> {
    let bytes = stream.read(&mut [0; 2048])?;
    *rest += bytes;
    Ok((bytes == 0 || *rest > MOST_REST).then_some(Phase::Over))
}
