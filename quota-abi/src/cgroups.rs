//! The cgroup that a process sees itself in, and patterns of cgroups.

use crate::life;

/// The path of the calling process's cgroup, read into `buffer`; empty if unknown.
#[must_use]
pub fn own(buffer: &mut [u8]) -> &[u8] {
    path_of(life::read("/proc/self/cgroup\0", buffer).unwrap_or_default())
}

/// The path in `/proc/self/cgroup`: of the unified hierarchy, else of the memory controller, else whatever comes first.
#[must_use]
pub fn path_of(cgroup: &[u8]) -> &[u8] {
    let lines = || cgroup.split(|byte| *byte == b'\n');
    let path = |line: &'_ [u8]| line.splitn(3, |byte| *byte == b':').count() == 3;
    let find = |wanted: &dyn Fn(&[u8]) -> bool| {
        lines().filter(|line| path(line)).find(|line| {
            line.splitn(3, |byte| *byte == b':')
                .nth(1)
                .is_some_and(wanted)
        })
    };
    let memory = |controllers: &[u8]| {
        controllers
            .split(|byte| *byte == b',')
            .any(|controller| controller == b"memory")
    };
    let unified = |controllers: &[u8]| controllers.is_empty();
    // On a hybrid system the unified line may say `/` for every container, and the memory controller's line does not.
    find(&memory)
        .or_else(|| find(&unified))
        .or_else(|| find(&|_| true))
        .and_then(|line| line.splitn(3, |byte| *byte == b':').nth(2))
        .unwrap_or_default()
}

/// Whether a cgroup's path matches a pattern: `*` stands for anything within one component, a `/**` at the end for nothing or
/// everything below.
#[must_use]
pub fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let (pattern, below) = match pattern.strip_suffix(b"/**") {
        Some(above) => (above, true),
        None => (pattern, false),
    };
    let mut components = path.split(|byte| *byte == b'/');
    for wanted in pattern.split(|byte| *byte == b'/') {
        if !components
            .next()
            .is_some_and(|found| component(wanted, found))
        {
            return false;
        }
    }
    match components.next() {
        None => true,
        Some(more) => below && !more.is_empty(),
    }
}

/// One component. In time proportional to the product of both lengths, whatever the pattern.
fn component(pattern: &[u8], name: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let found = (0..=rest.len()).find_map(|from| rest.get(from..)?.strip_prefix(part));
        let Some(behind) = found else {
            return false;
        };
        rest = behind;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_that_limits_memory_names_the_container() {
        assert_eq!(path_of(b"0::/user.slice/a.scope\n"), b"/user.slice/a.scope");
        let hybrid = b"12:cpu,cpuacct:/c\n4:memory:/docker/abc\n0::/\n";
        assert_eq!(path_of(hybrid), b"/docker/abc");
        assert_eq!(path_of(b"1:name=systemd:/x:y\n"), b"/x:y");
        assert_eq!(path_of(b""), b"");
    }

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        for path in matching {
            assert!(
                matches(pattern.as_bytes(), path.as_bytes()),
                "{pattern} {path}"
            );
        }
        for path in others {
            assert!(
                !matches(pattern.as_bytes(), path.as_bytes()),
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn a_star_stays_within_its_component() {
        check(
            "/user.slice/*.scope",
            &["/user.slice/.scope", "/user.slice/a.scope"],
            &[
                "/user.slice/a/b.scope",
                "/user.slice/a.scope/b",
                "/user.slice",
            ],
        );
        check(
            "/a*b*c",
            &["/abc", "/axbyc", "/abbcc"],
            &["/ab", "/acb", "/a/b/c"],
        );
        check("/a*a", &["/aa", "/aba"], &["/a"]);
        check("/a", &["/a"], &["/", "/ab", "/a/b", "a", ""]);
    }

    #[test]
    fn two_stars_at_the_end_are_everything_below() {
        check(
            "/system.slice/**",
            &["/system.slice", "/system.slice/a", "/system.slice/a/b"],
            &["/system.slice/", "/system.slicex/a"],
        );
        check("/**", &["/a", "/a/b"], &["/"]);
    }
}
