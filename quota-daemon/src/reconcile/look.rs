//! Who a pid is, by `/proc`.

use crate::proc;

/// What `/proc` says of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it started, clock ticks since boot: with the pid it says who it is.
    pub start: u64,
    /// Its cgroup.
    pub cgroup: String,
    /// Its program's name, printable.
    pub program: String,
}

/// Who has this pid; `None` if nobody has.
#[must_use]
pub fn look(pid: u32) -> Option<Seen> {
    let proc::Stat { program, start } = proc::stat(pid).ok()?;
    Some(Seen {
        start,
        cgroup: proc::cgroup(pid).unwrap_or_default(),
        program,
    })
}
