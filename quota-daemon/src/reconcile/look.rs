//! Who a pid is, by `/proc`.

use std::fs;

use quota_abi::cgroups;

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
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let (program, start) = parse(&stat)?;
    let cgroup = fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    Some(Seen {
        start,
        cgroup: String::from_utf8_lossy(cgroups::path_of(&cgroup)).into_owned(),
        program,
    })
}

/// Its name, which the process chooses, and field 22 of proc(5).
fn parse(stat: &[u8]) -> Option<(String, u64)> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = stat.get(open + 1..close)?.escape_ascii().to_string();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let start = rest.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some((name, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let seen = look(std::process::id()).unwrap();
        assert_eq!(seen.start, quota_abi::life::Identity::own().start);
        assert!(seen.cgroup.starts_with('/'), "{seen:?}");
        assert!(!seen.program.is_empty());
        assert_eq!(look(u32::MAX), None);
        assert_eq!(look(0), None);
    }

    #[test]
    fn a_name_cannot_pretend_to_be_more() {
        let stat = b"7 (a) R\n\x1b[31m (b) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4711 0 0";
        let (program, start) = parse(stat).unwrap();
        assert_eq!(start, 4711);
        assert_eq!(program, "a) R\\n\\x1b[31m (b");
    }
}
