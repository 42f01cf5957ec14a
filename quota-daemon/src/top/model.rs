//! What `top` knows: the last answers of the daemon, and what the person has chosen. Everything on the screen is made
//! from this alone.

use std::cmp::Ordering;
use std::time::Duration;

use super::look::Look;
use super::text::to_f64;
use crate::report::{Container, DeviceStatus, Process, Share, Status, Why};

/// An answer of the daemon.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// When it came, since `top` was started.
    pub(super) at: Duration,
    /// The same in Unix time, in seconds.
    pub(super) unix: u64,
    /// The answer.
    pub(super) status: Status,
}

/// What there is to know of one container.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    /// Its name.
    pub(super) container: String,
    /// Its processes and its last refusals and waits, or why there are none to show.
    pub(super) answer: Result<(Vec<Process>, Why), String>,
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// GPUs and containers.
    List,
    /// The selected container.
    Container,
}

/// What the list is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Names.
    Name,
    /// Bytes held.
    Memory,
    /// GPU time that it got.
    Got,
    /// Launches that waited, in a second.
    Waits,
    /// Requests that were refused.
    Refusals,
    /// Processes.
    Processes,
}

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// What the terminal can show.
    pub(super) look: Look,
    /// Where the daemon is asked.
    pub(super) socket: String,
    /// How often.
    pub(super) interval: Duration,
    /// The time, since `top` was started.
    pub(super) now: Duration,
    /// The last answer, and the one before.
    pub(super) last: Option<Sample>,
    /// See `last`.
    pub(super) before: Option<Sample>,
    /// Why there is no newer answer.
    pub(super) trouble: Option<String>,
    /// What is shown.
    pub(super) page: Page,
    /// What keys and signs mean is shown instead.
    pub(super) help: bool,
    /// The order of the list.
    pub(super) sort: Sort,
    /// The other way round.
    pub(super) reversed: bool,
    /// The selected container.
    pub(super) selected: Option<String>,
    /// More about it.
    pub(super) detail: Option<Detail>,
    /// Lines of the container's page that are above the screen.
    pub(super) scroll: usize,
}

/// What happened between two samples, for each second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Launches that waited.
    pub(super) waits: f64,
    /// Seconds that they waited, summed over threads.
    pub(super) waited: f64,
    /// Launches.
    pub(super) launches: f64,
    /// Requests refused; not for each second.
    pub(super) refused: u64,
}

/// A line of the list: a container and a device that it may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// The container.
    pub(super) container: &'a Container,
    /// What it has; `None`: it may use no device.
    pub(super) share: Option<&'a Share>,
    /// The device.
    pub(super) device: Option<&'a DeviceStatus>,
    /// Whether it is the first line of its container.
    pub(super) first: bool,
    /// What happened of late.
    pub(super) rates: Rates,
    /// Processes in its cgroups that nobody has registered, on this device.
    pub(super) unregistered: usize,
}

impl Model {
    /// A model that has heard of nothing yet.
    #[must_use]
    pub(super) fn new(look: Look, socket: String, interval: Duration) -> Self {
        Self {
            look,
            socket,
            interval,
            now: Duration::ZERO,
            last: None,
            before: None,
            trouble: None,
            page: Page::List,
            help: false,
            sort: Sort::Name,
            reversed: false,
            selected: None,
            detail: None,
            scroll: 0,
        }
    }

    /// Takes an answer in, or why there is none.
    pub(super) fn hear(&mut self, answer: Result<Sample, String>) {
        match answer {
            Ok(sample) => {
                self.trouble = None;
                self.before = self.last.replace(sample);
            }
            Err(text) => self.trouble = Some(text),
        }
    }

    /// The last status.
    #[must_use]
    pub(super) fn status(&self) -> Option<&Status> {
        self.last.as_ref().map(|sample| &sample.status)
    }

    /// Containers in the order of the list.
    #[must_use]
    pub(super) fn ordered(&self) -> Vec<&Container> {
        let Some(status) = self.status() else {
            return Vec::new();
        };
        let mut containers: Vec<_> = status.containers.iter().collect();
        containers.sort_by(|one, other| {
            let order = self.compare(one, other);
            let order = if self.reversed {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| one.name.cmp(&other.name))
        });
        containers
    }

    /// Names rise; of everything else the most comes first.
    fn compare(&self, one: &Container, other: &Container) -> Ordering {
        let most = |of: &dyn Fn(&Container) -> f64| of(other).total_cmp(&of(one));
        let sum = |container: &Container, of: &dyn Fn(&Share) -> f64| {
            container.devices.iter().map(of).fold(0.0, |a, b| a + b)
        };
        match self.sort {
            Sort::Name => one.name.cmp(&other.name),
            Sort::Memory => most(&|c| sum(c, &|share| to_f64(in_use(share)))),
            Sort::Got => most(&|c| sum(c, &|share| share.got_percent.unwrap_or(0.0))),
            Sort::Waits => most(&|c| sum(c, &|share| self.rates(&c.name, share).waits)),
            Sort::Refusals => most(&|c| sum(c, &|share| to_f64(share.refusals))),
            Sort::Processes => most(&|c| f64::from(c.processes)),
        }
    }

    /// The selected container, or the first where none is, or where it is gone.
    #[must_use]
    pub(super) fn selection(&self) -> Option<&Container> {
        let ordered = self.ordered();
        ordered
            .iter()
            .find(|container| Some(&container.name) == self.selected.as_ref())
            .or(ordered.first())
            .copied()
    }

    /// The lines of the list.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        self.ordered()
            .into_iter()
            .flat_map(|container| self.rows_of(container))
            .collect()
    }

    /// The lines of one container: at least one.
    pub(super) fn rows_of<'a>(&'a self, container: &'a Container) -> Vec<Row<'a>> {
        if container.devices.is_empty() {
            return vec![Row {
                container,
                share: None,
                device: None,
                first: true,
                rates: Rates::default(),
                unregistered: 0,
            }];
        }
        let row = |(place, share): (usize, &'a Share)| {
            let device = self.device(share);
            let theirs = device.map_or(0, |device| {
                let processes = device.unregistered.iter();
                processes
                    .filter(|process| process.container.as_ref() == Some(&container.name))
                    .count()
            });
            Row {
                container,
                share: Some(share),
                device,
                first: place == 0,
                rates: self.rates(&container.name, share),
                unregistered: theirs,
            }
        };
        container.devices.iter().enumerate().map(row).collect()
    }

    /// The device of a share.
    fn device(&self, share: &Share) -> Option<&DeviceStatus> {
        let devices = &self.status()?.devices;
        devices
            .iter()
            .find(|status| status.device.uuid == share.uuid)
    }

    /// What a share did between the last two samples.
    fn rates(&self, container: &str, share: &Share) -> Rates {
        let (Some(last), Some(before)) = (&self.last, &self.before) else {
            return Rates::default();
        };
        let seconds = last.at.saturating_sub(before.at).as_secs_f64();
        let then = before
            .status
            .containers
            .iter()
            .find(|other| other.name == container)
            .and_then(|other| other.devices.iter().find(|old| old.uuid == share.uuid));
        let (Some(then), true) = (then, seconds > 0.0) else {
            return Rates::default();
        };
        let rate = |now: u64, then: u64| to_f64(now.saturating_sub(then)) / seconds;
        Rates {
            waits: rate(share.waits, then.waits),
            waited: rate(share.waited_ns, then.waited_ns) / 1e9,
            launches: rate(share.launches, then.launches),
            refused: share.refusals.saturating_sub(then.refusals),
        }
    }
}

/// What counts against a limit.
pub(super) fn in_use(share: &Share) -> u64 {
    share
        .memory_used_bytes
        .saturating_add(share.memory_overhead_bytes)
        .saturating_add(share.memory_dead_bytes)
}
