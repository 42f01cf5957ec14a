//! Whether what a process asks and says of itself holds: compared with the versions that are spoken here, and with what the
//! kernel says.

use quota_abi::layout;
use quota_abi::policy;
use quota_abi::wire::{self, Question, Status};

use super::peer::{Facts, Nobody, Peer};

/// An answer other than the regions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct No {
    pub(super) status: Status,
    pub(super) text: String,
}

impl No {
    /// This status, for this reason.
    pub(super) fn new(status: Status, text: String) -> Self {
        Self { status, text }
    }
}

pub(super) fn refused(text: impl Into<String>) -> No {
    No {
        status: Status::Refused,
        text: text.into(),
    }
}

pub(super) fn later(text: impl Into<String>) -> No {
    No {
        status: Status::Later,
        text: text.into(),
    }
}

pub(super) fn nobody(nobody: Nobody) -> No {
    match nobody {
        Nobody::Gone => refused("the process has ended"),
        Nobody::Foreign => refused(
            "the daemon does not see this process's pid namespace: run the daemon in the host's pid namespace (hostPID)",
        ),
        Nobody::Refused(why) => refused(format!("the kernel does not tell who asks: {why}")),
    }
}

pub(super) fn check_versions(question: &Question) -> Result<(), No> {
    let version = |text: String| No {
        status: Status::Version,
        text,
    };
    if wire::common(question.versions, wire::VERSIONS).is_none() {
        let ((old, new), (from, to)) = (question.versions, wire::VERSIONS);
        return Err(version(format!(
            "the library speaks versions {old} to {new} of the exchange, the daemon {from} to {to}: upgrade the older of the two"
        )));
    }
    for (what, theirs, ours) in [
        ("usage", u64::from(question.usage), layout::VERSION),
        ("policy", u64::from(question.policy), policy::VERSION),
    ] {
        if theirs != ours {
            return Err(version(format!(
                "the library knows version {theirs} of the {what} region, the daemon {ours}: upgrade the older of the two"
            )));
        }
    }
    Ok(())
}

/// Compares what the asker says of itself with what the kernel says. What the asker could not find out (0) is not compared.
pub(super) fn check_identity(question: &Question, peer: &Peer, facts: &Facts) -> Result<(), No> {
    let lies = |what: &str, says: u64, is: u64| {
        refused(format!(
            "the process says that its {what} is {says}, the kernel says {is}"
        ))
    };
    if question.pid != facts.pid_inside {
        return Err(lies("pid", question.pid.into(), facts.pid_inside.into()));
    }
    match facts.namespace {
        Some(is) if question.namespace != 0 && question.namespace != is => {
            return Err(lies("pid namespace", question.namespace, is));
        }
        _ => {}
    }
    // In a time namespace it reads another start time than the host does.
    if facts.host_time && question.start != 0 && question.start != facts.start {
        return Err(lies("start time", question.start, facts.start));
    }
    if !peer.certain && !facts.host_time {
        return Err(refused(
            "a process in a time namespace can be known for certain on Linux 6.5 or newer only",
        ));
    }
    Ok(())
}
