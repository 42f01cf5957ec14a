//! One question and one answer.

use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use quota_abi::life::Identity;
use quota_abi::policy::Policy;
use quota_abi::policy::map::Read;
use quota_abi::region::Mapped;
use quota_abi::wire::{self, Answer, MOST, Purpose, Question, Status};

use super::socket::Socket;

/// What one try came to. No descriptor is left open.
pub(super) enum Reply {
    /// The two regions, mapped, and the container's name.
    Granted(&'static Policy, Mapped, String),
    /// No rule of the daemon's is for this process.
    NoRule,
    /// Nobody is there, or not yet: why.
    Away(String),
    /// It will not be: why.
    Refused(String),
}

/// Asks whoever listens at `path`, and waits for the answer until `deadline`.
pub(super) fn ask(path: &Path, purpose: Purpose, me: &Identity, deadline: u64) -> Reply {
    let socket = match Socket::connect(path) {
        Ok(socket) => socket,
        Err(error) if error.raw_os_error() == Some(libc::EPROTOTYPE) => {
            return Reply::Refused("it is a socket of another kind".into());
        }
        Err(error) => return Reply::Away(reason(&error)),
    };
    if let Err(error) = socket.send(&Question::of(me, purpose).encode()) {
        return Reply::Away(reason(&error));
    }
    let mut bytes = [0; MOST];
    match socket.receive(&mut bytes, deadline) {
        Ok((0, _)) => Reply::Away("it hung up without an answer".into()),
        Ok((length, files)) => understand(bytes.get(..length).unwrap_or_default(), &files),
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => Reply::Refused(
            "there is no room for the two descriptors of its answer (see ulimit -n)".into(),
        ),
        Err(error) => Reply::Away(reason(&error)),
    }
}

/// What the kernel said, in a person's words where a person can do something about it.
fn reason(error: &Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such socket".into(),
        ErrorKind::ConnectionRefused => "nobody listens there".into(),
        ErrorKind::TimedOut => "it does not answer".into(),
        ErrorKind::WouldBlock => "too many others are waiting there".into(),
        _ => error.to_string(),
    }
}

fn understand(bytes: &[u8], files: &[OwnedFd]) -> Reply {
    let answer = match Answer::decode(bytes) {
        Ok(answer) => answer,
        Err(malformed) => return Reply::Refused(format!("its answer is none: {malformed}")),
    };
    let text = one_line(&answer.text);
    match answer.status {
        Status::Granted => take(&answer, files).unwrap_or_else(Reply::Refused),
        Status::NoRule => Reply::NoRule,
        Status::Later => Reply::Away(text),
        Status::Refused | Status::Version => Reply::Refused(text),
    }
}

/// Maps both regions, if they are what they should be.
fn take(answer: &Answer, files: &[OwnedFd]) -> Result<Reply, String> {
    let (oldest, newest) = wire::VERSIONS;
    if !(oldest..=newest).contains(&answer.version) {
        return Err(format!(
            "it answers in version {} of the exchange, and this library speaks {oldest} to {newest}",
            answer.version
        ));
    }
    // A newer daemon may have more to hand over.
    let [policy, usage, ..] = files else {
        let count = files.len();
        return Err(format!(
            "it has handed over {count} descriptors instead of two"
        ));
    };
    let policy = Read::from_file(policy.as_fd()).map_err(|error| error.to_string())?;
    let usage =
        Mapped::from_file(usage.as_fd(), c"its usage region").map_err(|error| error.to_string())?;
    Ok(Reply::Granted(
        policy.get(),
        usage,
        one_line(&answer.container),
    ))
}

/// A text of somebody else's, fit to be a part of one line.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
