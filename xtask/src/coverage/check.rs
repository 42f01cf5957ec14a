//! Symbols, classes and exports, held against each other.

use std::collections::{BTreeMap, BTreeSet};

use cuda_headers::classify::{Class, Group};

use super::is_driver_name;

/// The header defines it inline and no driver so far exports it; the shim is ready for one that does.
const INLINE: &str = "cuGetProcAddress_v2_ptsz";

pub(super) type Names = BTreeSet<String>;

/// What a comparison found.
#[derive(Default)]
pub(super) struct Coverage {
    /// Symbols by class.
    classes: BTreeMap<String, Names>,
    /// Symbols whose hooks are still to come, by reason and base name.
    pending: BTreeMap<&'static str, BTreeMap<String, Names>>,
    /// Hooked symbols, where a library was read.
    hooked: Option<Names>,
    unclassified: Names,
    rows_without_symbol: Names,
    rows_given_twice: Names,
    missing_hooks: Names,
    needless_hooks: Names,
    hooked_though_pending: Names,
    unknown_exports: Names,
}

impl Coverage {
    pub(super) fn new(
        symbols: impl Iterator<Item = (&'static str, &'static str)>,
        groups: &[&Group],
        exports: Option<&Names>,
    ) -> Self {
        let mut coverage = Self::default();
        let mut rows = Names::new();
        for name in groups.iter().flat_map(|group| group.names) {
            if !rows.insert((*name).to_owned()) {
                coverage.rows_given_twice.insert((*name).to_owned());
            }
        }
        let mut known = Names::new();
        for (name, base) in symbols {
            known.insert(name.to_owned());
            known.insert(base.to_owned());
            let of = |name| groups.iter().find(|group| group.names.contains(&name));
            match of(name).or_else(|| of(base)) {
                Some(group) => coverage.classified(name, base, group, exports),
                None => {
                    coverage.unclassified.insert(name.to_owned());
                }
            }
        }
        coverage.rows_without_symbol = rows.difference(&known).cloned().collect();
        if let Some(exports) = exports {
            let driver = exports
                .iter()
                .filter(|name| is_driver_name(name) && *name != INLINE);
            let (hooked, unknown) = driver.cloned().partition(|name| known.contains(name));
            coverage.hooked = Some(hooked);
            coverage.unknown_exports = unknown;
        }
        coverage
    }

    fn classified(&mut self, name: &str, base: &str, group: &Group, exports: Option<&Names>) {
        let insert = |names: &mut Names| {
            names.insert(name.to_owned());
        };
        insert(self.classes.entry(heading(group.class)).or_default());
        if let Some(reason) = group.pending {
            self.pending
                .entry(reason)
                .or_default()
                .entry(base.to_owned())
                .or_default()
                .insert(name.to_owned());
        }
        let Some(exports) = exports else { return };
        let hooked = exports.contains(name);
        match (group.class.wants_hook(), group.pending) {
            (false, _) if hooked => insert(&mut self.needless_hooks),
            (true, Some(_)) if hooked => insert(&mut self.hooked_though_pending),
            (true, None) if !hooked => insert(&mut self.missing_hooks),
            _ => {}
        }
    }

    pub(super) fn print(&self, with_names: bool) {
        let total: usize = self.classes.values().map(BTreeSet::len).sum();
        println!("{total} driver symbols are classified:");
        for (class, names) in &self.classes {
            println!("{:6}  {class}", names.len());
            if with_names {
                println!("        {}", join(names));
            }
        }
        if let Some(hooked) = &self.hooked {
            println!("{} are hooked.", hooked.len());
        }
        for (reason, bases) in &self.pending {
            let symbols: usize = bases.values().map(BTreeSet::len).sum();
            println!(
                "pending, {reason}: {symbols} symbols of {}",
                join(bases.keys())
            );
        }
    }

    /// One message for each kind of mistake, with its mend.
    pub(super) fn problems(&self) -> Vec<String> {
        let kinds = [
            (
                &self.unclassified,
                "no class: add the name to a group in cuda-headers/src/classify/",
            ),
            (
                &self.rows_without_symbol,
                "rows that name no symbol of the header: remove them",
            ),
            (&self.rows_given_twice, "rows in two groups: decide for one"),
            (
                &self.missing_hooks,
                "not hooked: add a `hooks!` entry, or say why not yet with `pending(..)`",
            ),
            (
                &self.needless_hooks,
                "hooked, but classified as passing through: correct one of the two",
            ),
            (
                &self.hooked_though_pending,
                "hooked, but still marked as pending: remove the mark",
            ),
            (
                &self.unknown_exports,
                "exported, but no symbol of the header: the driver has no such function",
            ),
        ];
        kinds
            .into_iter()
            .filter(|(names, _)| !names.is_empty())
            .map(|(names, what)| format!("{} {what}\n  {}", names.len(), join(names)))
            .collect()
    }
}

/// What classes are counted under; the reasons of those that pass through stay apart.
fn heading(class: Class) -> String {
    match class {
        Class::Charges(family) => format!("charges: {family:?}"),
        Class::Refunds(family) => format!("refunds: {family:?}"),
        Class::Launches(work) => format!("launches: {work:?}"),
        Class::Queries(view) => format!("queries: {view:?}"),
        Class::LooksUp => "looks up".to_owned(),
        Class::Lifetime(object) => format!("lifetime: {object:?}"),
        Class::Captures => "captures".to_owned(),
        Class::Waits => "waits".to_owned(),
        Class::PassesThrough(reason) => format!("passes through: {reason}"),
    }
}

fn join<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names
        .into_iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use cuda_headers::classify::{Family, Work};

    use super::*;

    const ALLOCATES: Group = Group {
        class: Class::Charges(Family::Linear),
        pending: None,
        names: &["cuMemAlloc"],
    };
    const LATER: Group = Group {
        class: Class::Launches(Work::Copy),
        pending: Some("issue Z"),
        names: &["cuMemcpy"],
    };
    const PASSES: Group = Group {
        class: Class::PassesThrough("no matter"),
        pending: None,
        names: &["cuDeviceGet"],
    };
    const SYMBOLS: [(&str, &str); 4] = [
        ("cuMemAlloc", "cuMemAlloc"),
        ("cuMemAlloc_v2", "cuMemAlloc"),
        ("cuMemcpy", "cuMemcpy"),
        ("cuDeviceGet", "cuDeviceGet"),
    ];

    fn problems(groups: &[&Group], exports: Option<&[&str]>) -> Vec<String> {
        let exports = exports.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Coverage::new(SYMBOLS.into_iter(), groups, exports.as_ref()).problems()
    }

    #[test]
    fn what_is_complete_has_no_problem() {
        let groups = [&ALLOCATES, &LATER, &PASSES];
        assert!(problems(&groups, None).is_empty());
        let exports = ["cuMemAlloc", "cuMemAlloc_v2", "dlsym", "cudaMalloc"];
        assert!(problems(&groups, Some(&exports)).is_empty());
    }

    #[test]
    fn each_mistake_is_named() {
        let groups = [&ALLOCATES, &LATER, &PASSES];
        let cases: [(&[&str], &str, &str); 4] = [
            (&["cuMemAlloc"], "not hooked", "cuMemAlloc_v2"),
            (
                &["cuMemAlloc", "cuMemAlloc_v2", "cuDeviceGet"],
                "passing through",
                "cuDeviceGet",
            ),
            (
                &["cuMemAlloc", "cuMemAlloc_v2", "cuMemcpy"],
                "pending",
                "cuMemcpy",
            ),
            (
                &["cuMemAlloc", "cuMemAlloc_v2", "cuNew"],
                "no symbol",
                "cuNew",
            ),
        ];
        for (exports, what, name) in cases {
            let found = problems(&groups, Some(exports));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].contains(what) && found[0].ends_with(name),
                "{found:?}"
            );
        }
    }

    #[test]
    fn mistakes_in_the_table_are_named() {
        let found = problems(&[&ALLOCATES, &LATER], None);
        assert!(
            found[0].contains("no class") && found[0].ends_with("cuDeviceGet"),
            "{found:?}"
        );
        let twice = Group {
            names: &["cuMemAlloc", "cuGone"],
            ..LATER
        };
        let found = problems(&[&ALLOCATES, &LATER, &PASSES, &twice], None);
        assert!(
            found[0].contains("name no symbol") && found[0].ends_with("cuGone"),
            "{found:?}"
        );
        assert!(
            found[1].contains("two groups") && found[1].ends_with("cuMemAlloc"),
            "{found:?}"
        );
    }

    #[test]
    fn names_of_other_libraries_are_not_the_drivers() {
        assert!(is_driver_name("cuInit"));
        for name in ["cudaMalloc", "cudbgMain", "curl_easy_init", "cu", "dlsym"] {
            assert!(!is_driver_name(name), "{name}");
        }
    }
}
