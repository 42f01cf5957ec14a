//! Whose a cgroup is.

use std::collections::BTreeMap;

use quota_abi::cgroups::matches;

use super::Declared;

/// The container to which a cgroup belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether a process may be killed for being there: not where the pattern could mean anybody's cgroup.
    pub killable: bool,
}

/// The container that declares this cgroup, or one above it: a container may make cgroups within its own.
#[must_use]
pub fn owner<'a>(containers: &'a [Declared], path: &str) -> Option<Owner<'a>> {
    let owner = |pattern: &String, declared: &'a Declared| {
        below(pattern, path).then_some(Owner {
            name: &declared.name,
            killable: is_particular(pattern),
        })
    };
    let owners = |declared: &'a Declared| {
        let found = declared
            .cgroups
            .iter()
            .filter_map(move |p| owner(p, declared));
        found.max_by_key(|owner| owner.killable)
    };
    containers.iter().find_map(owners)
}

/// Cgroups whose registered processes are all of one container, and that container: who else is there is of it, as far as
/// anybody can tell. Not so where programs of all kinds are together: in the root, in the daemon's own, in a user's session.
#[must_use]
pub fn of_one<'a>(
    registered: impl Iterator<Item = (&'a str, &'a str)>,
    own: Option<&str>,
) -> BTreeMap<String, String> {
    let mut containers: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for (cgroup, container) in registered {
        let known = containers.entry(cgroup).or_insert(Some(container));
        *known = known.filter(|known| *known == container);
    }
    containers
        .into_iter()
        .filter(|(cgroup, _)| cgroup.len() > 1 && Some(*cgroup) != own)
        .filter(|(cgroup, _)| !cgroup.starts_with("/user.slice/"))
        .filter_map(|(cgroup, container)| Some((cgroup.to_owned(), container?.to_owned())))
        .collect()
}

/// Whether the pattern matches the path or one above it. The root, where everybody is, is above nothing.
#[must_use]
pub fn below(pattern: &str, path: &str) -> bool {
    let path = path.as_bytes();
    let ends = path.iter().enumerate().skip(1);
    let ends = ends.filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut above = ends.chain([path.len()]).filter_map(|end| path.get(..end));
    path.len() > 1 && above.any(|path| matches(pattern.as_bytes(), path))
}

/// Whether a pattern means certain cgroups, and not whatever is on the machine: its first component is spelt out.
fn is_particular(pattern: &str) -> bool {
    let first = pattern.trim_start_matches('/').split('/').next();
    first.is_some_and(|first| !first.is_empty() && !first.contains('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_and_all_below_are_the_containers() {
        for (pattern, path, expected) in [
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/b/c/d", true),
            ("/a/b", "/a/bc", false),
            ("/a/b", "/a", false),
            ("/docker/*", "/docker/1234", true),
            ("/docker/*", "/docker/1234/init.scope", true),
            ("/docker/**", "/docker/1234/x", true),
            ("/docker/**", "/docker", true),
            ("/docker/**", "/dock", false),
            ("/", "/", false),
            ("/", "/a", false),
            ("/*", "/a/b", true),
            ("", "/a", false),
            ("/a", "", false),
        ] {
            assert_eq!(below(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn who_could_be_anybody_is_not_killed() {
        let declared = |cgroups: &[&str]| {
            [Declared {
                name: "a".into(),
                cgroups: cgroups.iter().map(|c| (*c).to_owned()).collect(),
            }]
        };
        let killable =
            |cgroups: &[&str], path| owner(&declared(cgroups), path).map(|owner| owner.killable);
        assert_eq!(killable(&["/docker/*"], "/docker/1"), Some(true));
        assert_eq!(killable(&["/*"], "/docker/1"), Some(false));
        assert_eq!(killable(&["/**"], "/docker/1"), Some(false));
        assert_eq!(killable(&["/**", "/docker/*"], "/docker/1"), Some(true));
        assert_eq!(killable(&["/docker*"], "/docker/1"), Some(false));
        assert_eq!(killable(&["/other"], "/docker/1"), None);
    }

    #[test]
    fn a_cgroup_of_many_is_nobodys() {
        let registered = [
            ("/lxc/1", "a"),
            ("/lxc/1", "a"),
            ("/lxc/2", "a"),
            ("/lxc/2", "b"),
            ("/lxc/2", "a"),
            ("/user.slice/session-3.scope", "a"),
            ("/system.slice/daemon", "a"),
            ("/", "a"),
            ("", "a"),
        ];
        let of_one = of_one(registered.into_iter(), Some("/system.slice/daemon"));
        let expected = BTreeMap::from([("/lxc/1".to_owned(), "a".to_owned())]);
        assert_eq!(of_one, expected);
    }
}
