//! Which container a process belongs to that comes to the host's socket: by its cgroup.

use quota_abi::cgroups;

use crate::model::Spec;

/// The cgroup that a pattern makes one container of: the part of `path` that it names, without what is below. `None`: it does
/// not match.
#[must_use]
pub(super) fn matched<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    if !cgroups::matches(pattern.as_bytes(), path.as_bytes()) {
        return None;
    }
    let Some(above) = pattern.strip_suffix("/**") else {
        return Some(path);
    };
    let slashes = above.matches('/').count();
    let below = path.match_indices('/').nth(slashes);
    path.get(..below.map_or(path.len(), |(at, _)| at))
}

/// The declared container of a cgroup: that of the longest pattern, and of these the first by name.
#[must_use]
pub(super) fn container<'a>(
    specs: impl Iterator<Item = &'a Spec>,
    cgroup: &str,
) -> Option<&'a str> {
    let mut best: Option<(usize, &Spec)> = None;
    for spec in specs {
        let fits = spec
            .cgroups
            .iter()
            .filter(|pattern| matched(pattern, cgroup).is_some());
        let Some(length) = fits.map(String::len).max() else {
            continue;
        };
        let better = best.is_none_or(|(longest, first)| {
            length > longest || length == longest && spec.name < first.name
        });
        if better {
            best = Some((length, spec));
        }
    }
    best.map(|(_, spec)| spec.name.as_str())
}

/// The cgroup that the default rule makes one container of; `None` if it does not name it.
#[must_use]
pub(super) fn default_unit<'a>(patterns: &[String], cgroup: &'a str) -> Option<&'a str> {
    if patterns.is_empty() {
        return (cgroup != "/").then_some(cgroup);
    }
    let units = patterns
        .iter()
        .filter_map(|pattern| matched(pattern, cgroup));
    let unit = units.max_by_key(|unit| unit.len())?;
    // Of `/**` there is nothing left: that is every cgroup for itself.
    Some(if unit.is_empty() { cgroup } else { unit })
}

/// A container's name for a cgroup: readable, a file name, and another for every other cgroup.
#[must_use]
pub(super) fn name_of(cgroup: &str) -> String {
    let last = cgroup
        .rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or("root");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let readable: String = last
        .trim_end_matches(".scope")
        .trim_end_matches(".service")
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .skip_while(|c| *c == '.')
        .take(46)
        .collect();
    let readable = if readable.is_empty() {
        "cgroup"
    } else {
        &readable
    };
    format!("{readable}-{:016x}", hash(cgroup))
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Origin, check_name};
    use std::collections::BTreeMap;

    fn spec(name: &str, cgroups: &[&str]) -> Spec {
        Spec {
            name: name.into(),
            origin: Origin::Config,
            cgroups: cgroups.iter().map(ToString::to_string).collect(),
            every: None,
            devices: BTreeMap::new(),
        }
    }

    #[test]
    fn a_star_is_within_a_component_and_two_are_all_below() {
        for (pattern, path, unit) in [
            ("/a/b", "/a/b", Some("/a/b")),
            ("/a/b", "/a/b/c", None),
            ("/a/b", "/a", None),
            ("/a/*", "/a/b", Some("/a/b")),
            ("/a/*", "/a/b/c", None),
            ("/a/*/**", "/a/b/c/d", Some("/a/b")),
            ("/a/*/**", "/a/b", Some("/a/b")),
            ("/a/**", "/a", Some("/a")),
            ("/a/**", "/ab", None),
            (
                "/s/docker-*.scope/**",
                "/s/docker-12.scope/x",
                Some("/s/docker-12.scope"),
            ),
            ("/s/docker-*.scope", "/s/docker-12.slice", None),
            ("/*x*y*", "/1x2y3", Some("/1x2y3")),
            ("/**", "/a/b", Some("")),
        ] {
            assert_eq!(matched(pattern, path), unit, "{pattern} {path}");
        }
    }

    #[test]
    fn the_longest_pattern_wins() {
        let specs = [
            spec("all", &["/j/**"]),
            spec("one", &["/j/special/**"]),
            spec("b", &[]),
        ];
        let find = |cgroup| container(specs.iter(), cgroup);
        assert_eq!(find("/j/special/x"), Some("one"));
        assert_eq!(find("/j/other"), Some("all"));
        assert_eq!(find("/k"), None);
    }

    #[test]
    fn a_name_from_a_cgroup_is_valid_and_its_own() {
        let long = format!("/docker/{}", "ä".repeat(100));
        let names = [
            "/docker/abc",
            "/podman/abc",
            "/",
            "/..",
            "/a b.scope",
            &long,
        ];
        let mut seen = std::collections::BTreeSet::new();
        for cgroup in names {
            let name = name_of(cgroup);
            assert_eq!(check_name(&name), Ok(()), "{name}");
            assert!(seen.insert(name));
        }
    }

    #[test]
    fn the_default_rule_makes_one_container_of_all_below_a_pattern() {
        let patterns = ["/docker/*/**".to_owned()];
        assert_eq!(
            default_unit(&patterns, "/docker/a/inner"),
            Some("/docker/a")
        );
        assert_eq!(default_unit(&patterns, "/user.slice"), None);
        assert_eq!(default_unit(&[], "/x/y"), Some("/x/y"));
        assert_eq!(default_unit(&[], "/"), None);
        assert_eq!(default_unit(&["/**".to_owned()], "/x/y"), Some("/x/y"));
    }
}
