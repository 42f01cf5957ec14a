//! What `/proc` says of a process. It is true of the process only if that lives afterwards.

use std::fs;
use std::io;

use quota_abi::cgroups;

/// The head of a process's `stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its program's name, printable. The process chooses it, and it may be no text at all.
    pub program: String,
    /// When it started, in clock ticks since boot: with the pid it says who it is.
    pub start: u64,
}

/// Reads `/proc/<pid>/stat`.
///
/// # Errors
/// There is no such process.
pub fn stat(pid: u32) -> io::Result<Stat> {
    parse(&fs::read(format!("/proc/{pid}/stat"))?).ok_or_else(|| strange(pid))
}

/// Its name, and field 22 of proc(5).
fn parse(stat: &[u8]) -> Option<Stat> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let program = stat.get(open + 1..close)?.escape_ascii().to_string();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let start = rest.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some(Stat { program, start })
}

/// The pid of a process in its own pid namespace.
///
/// # Errors
/// There is no such process.
pub fn pid_inside(pid: u32) -> io::Result<u32> {
    innermost(&fs::read(format!("/proc/{pid}/status"))?).ok_or_else(|| strange(pid))
}

fn innermost(status: &[u8]) -> Option<u32> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let pids = lines.find_map(|line| line.strip_prefix(b"NSpid:"))?;
    let pids = std::str::from_utf8(pids).ok()?;
    pids.split_ascii_whitespace().next_back()?.parse().ok()
}

/// The cgroup of a process, as the process itself would name it if it were in no cgroup namespace.
///
/// # Errors
/// There is no such process.
pub fn cgroup(pid: u32) -> io::Result<String> {
    let text = fs::read(format!("/proc/{pid}/cgroup"))?;
    Ok(String::from_utf8_lossy(cgroups::path_of(&text)).into_owned())
}

fn strange(pid: u32) -> io::Error {
    io::Error::other(format!("/proc/{pid} is not understood"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_told_of() {
        let own = quota_abi::life::Identity::own();
        let stat = stat(own.pid).unwrap();
        assert_eq!(stat.start, own.start);
        assert!(!stat.program.is_empty());
        assert_eq!(pid_inside(own.pid).unwrap(), own.pid);
        assert!(cgroup(own.pid).unwrap().starts_with('/'));
    }

    #[test]
    fn nobody_has_these_pids() {
        for pid in [0, u32::MAX] {
            assert!(stat(pid).is_err() && pid_inside(pid).is_err() && cgroup(pid).is_err());
        }
    }

    #[test]
    fn a_name_cannot_pretend_to_be_more_and_need_be_no_text() {
        let stat = b"7 (a) R\n\x1b\xff (b) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4711 0 0";
        let stat = parse(stat).unwrap();
        assert_eq!(stat.start, 4711);
        assert_eq!(stat.program, "a) R\\n\\x1b\\xff (b");
        let status = b"Name:\t\xff\xfe\nNSpid:\t71\t9\t1\n";
        assert_eq!(innermost(status), Some(1));
        assert_eq!(innermost(b"NSpid:\n"), None);
    }
}
