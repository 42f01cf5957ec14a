//! The cells, by their names, which are those of the model's grid.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// What runs together.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) name: String,
    /// Whether a daemon rules; else each process has its own variables.
    pub(super) daemon: bool,
    pub(super) devices: usize,
    /// What is not measured at the beginning.
    pub(super) warm_up: Duration,
    pub(super) tenants: Vec<Tenant>,
}

/// A container.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    /// Per cent that it asks for.
    pub(super) asked: f64,
    /// Lines of the daemon's configuration.
    pub(super) rule: String,
    pub(super) processes: usize,
    /// What each of them does: arguments of the program `workload`.
    pub(super) work: String,
}

/// The kinds of kernels, and what the program calls them.
const KINDS: [(&str, &str); 13] = [
    ("5us", "kernel:5000"),
    ("20us", "kernel:20000"),
    ("100us", "kernel:100000"),
    ("500us", "kernel:500000"),
    ("5ms", "kernel:5000000"),
    ("50ms", "kernel:50000000"),
    ("200ms", "kernel:200000000"),
    ("mixture", "mixture"),
    ("phases", "phases"),
    ("new-shapes", "new-shapes"),
    ("graph-1", "graph:1"),
    ("graph-10", "graph:10"),
    ("graph-1000", "graph:1000"),
];

/// Further works, of cells of their own.
const OTHERS: [(&str, &str); 3] = [
    ("burst", "burst:1000000"),
    ("barrier", "barrier"),
    ("idle", "idle"),
];

/// Some of every kind, for a look.
const DOZEN: [&str; 14] = [
    "alone/20us/30",
    "alone/5ms/30",
    "alone/200ms/30",
    "alone/mixture/50",
    "alone/phases/50",
    "alone/new-shapes/30",
    "alone/graph-1000/30",
    "pair-weights/20us+20us/10+90",
    "pair-weights/5ms+5ms/25+75",
    "pair-weights/20us+5ms/50+50",
    "three-limits/500us+500us+500us/30+30+30",
    "processes-weights/5ms+5ms/50x8+50",
    "pair-weights/burst+500us/50+50",
    "devices-limits/barrier/30",
];

impl Cell {
    /// `alone/KIND/PERCENT`, or `GROUP-weights/KIND+KIND/WEIGHT+WEIGHT` for as many containers as there are kinds, `-limits` where
    /// they have limits instead; a share of `50x8` is one of eight processes. `devices-` has two devices.
    pub(super) fn of(name: &str) -> Result<Self> {
        let parts: Vec<_> = name.split('/').collect();
        let [group, kinds, shares] = parts.as_slice() else {
            bail!("{name:?} is no cell; an example that is one: pair-weights/20us+5ms/25+75");
        };
        let shares: Vec<_> = shares.split('+').collect();
        let kinds: Vec<_> = kinds.split('+').collect();
        ensure!(
            shares.len() == kinds.len(),
            "{name:?} has {} kinds and {} shares",
            kinds.len(),
            shares.len()
        );
        let alone = *group == "alone";
        let weights = group.ends_with("-weights");
        ensure!(
            alone || weights || group.ends_with("-limits"),
            "{group:?} in {name:?} is none of alone, GROUP-weights and GROUP-limits"
        );
        let mut tenants = Vec::new();
        for (kind, share) in kinds.iter().zip(&shares) {
            let (share, processes) = share.split_once('x').unwrap_or((share, "1"));
            let known = KINDS.iter().chain(&OTHERS).find(|(name, _)| name == kind);
            let (_, work) = known.with_context(|| format!("no kind is called {kind:?}"))?;
            let rule = if weights { "weight" } else { "compute" };
            let quoted = if weights {
                share.into()
            } else {
                format!("'{share}%'")
            };
            tenants.push(Tenant {
                asked: share.parse().with_context(|| format!("share {share:?}"))?,
                rule: format!("{rule} = {quoted}"),
                processes: processes.parse()?,
                work: (*work).into(),
            });
        }
        if weights {
            let all: f64 = tenants.iter().map(|tenant| tenant.asked).sum();
            for tenant in &mut tenants {
                tenant.asked *= 100.0 / all;
            }
        }
        // What is queued before the first kernel has ended is paid off: four of them, at 30 %, and more beside others.
        let warm_up = match () {
            () if kinds.contains(&"200ms") => 6000,
            () if kinds.contains(&"50ms") => 3000,
            () => 1500,
        };
        Ok(Self {
            name: name.into(),
            daemon: !alone,
            warm_up: Duration::from_millis(warm_up),
            devices: if group.starts_with("devices") { 2 } else { 1 },
            tenants,
        })
    }
}

/// The cells for a look.
pub(super) fn dozen() -> Result<Vec<Cell>> {
    DOZEN.iter().map(|name| Cell::of(name)).collect()
}

/// The whole grid.
pub(super) fn all() -> Result<Vec<Cell>> {
    let mut names = Vec::new();
    for (kind, _) in KINDS {
        for percent in [2, 10, 30, 50, 80, 95] {
            names.push(format!("alone/{kind}/{percent}"));
        }
    }
    let unequal = [
        ("20us", "5ms"),
        ("5ms", "20us"),
        ("100us", "mixture"),
        ("50ms", "20us"),
        ("20us", "50ms"),
        ("phases", "500us"),
        ("500us", "new-shapes"),
        ("graph-1000", "20us"),
        ("20us", "graph-1000"),
        ("burst", "500us"),
    ];
    let equal = KINDS.iter().map(|(kind, _)| (*kind, *kind));
    for (one, other) in equal.chain(unequal) {
        for shares in ["10+90", "25+75", "50+50"] {
            for rule in ["weights", "limits"] {
                names.push(format!("pair-{rule}/{one}+{other}/{shares}"));
            }
        }
    }
    for kind in ["20us", "500us", "5ms"] {
        names.push(format!("three-limits/{kind}+{kind}+{kind}/30+30+30"));
        names.push(format!("three-weights/{kind}+{kind}+{kind}/5+5+10"));
    }
    for kind in ["5ms", "200ms"] {
        names.push(format!("processes-weights/{kind}+{kind}/50x8+50"));
    }
    names.push("devices-limits/barrier/30".into());
    names.push("devices-weights/barrier+barrier/50+50".into());
    names.iter().map(|name| Cell::of(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_a_cell() {
        assert_eq!(dozen().unwrap().len(), DOZEN.len());
        assert!(all().unwrap().len() > 200);
    }

    #[test]
    fn a_name_says_it_all() {
        let cell = Cell::of("processes-weights/5ms+20us/30x8+90").unwrap();
        assert!(cell.daemon);
        let [first, second] = cell.tenants.as_slice() else {
            panic!("{cell:?}")
        };
        assert_eq!((first.asked, first.processes), (25.0, 8));
        assert_eq!((second.asked, second.processes), (75.0, 1));
        assert_eq!(
            (first.rule.as_str(), second.work.as_str()),
            ("weight = 30", "kernel:20000")
        );
        assert!(!Cell::of("alone/mixture/2").unwrap().daemon);
        for wrong in ["alone/1s/5", "alone/5ms+5ms/5", "pair/5ms+5ms/1+1", "x"] {
            assert!(Cell::of(wrong).is_err(), "{wrong}");
        }
    }
}
