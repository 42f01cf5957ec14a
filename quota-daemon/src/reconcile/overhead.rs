//! What one registered process holds beyond its ledger.

use std::collections::BTreeMap;

use super::{Client, Input};
use crate::model::Uuid;

/// A registered process, from one reading to the next.
pub(super) struct Known {
    pub(super) container: String,
    pub(super) since: u64,
    /// Its start time; 0 where it ended before anybody looked.
    pub(super) start: u64,
    /// Its cgroup; empty where unknown.
    pub(super) cgroup: String,
    devices: BTreeMap<Uuid, Holding>,
    charges: BTreeMap<Uuid, u64>,
}

/// What it has of one device.
#[derive(Default)]
struct Holding {
    ledger: u64,
    ledger_before: u64,
    /// What NVML said more than the ledger, one reading ago; `None` after a reading in which it was not there.
    excess_before: Option<u64>,
    overhead: u64,
    /// The least that its context can have been.
    context: Option<u64>,
}

impl Known {
    pub(super) fn new(client: &Client, input: &Input<'_>) -> Self {
        let seen = (input.look)(client.pid);
        let charges = input.charges.iter();
        Self {
            container: client.container.clone(),
            since: client.since,
            start: seen.as_ref().map_or(0, |seen| seen.start),
            cgroup: seen.map_or_else(String::new, |seen| seen.cgroup),
            devices: BTreeMap::new(),
            charges: charges
                .filter(|((container, _), _)| *container == client.container)
                .map(|((_, uuid), charge)| (*uuid, *charge))
                .collect(),
        }
    }

    /// Whether this is the same process still.
    pub(super) fn is(&self, client: &Client) -> bool {
        self.since == client.since && self.container == client.container
    }

    pub(super) fn with_ledger(mut self, ledger: &BTreeMap<Uuid, u64>) -> Self {
        for holding in self.devices.values_mut() {
            holding.ledger_before = std::mem::take(&mut holding.ledger);
        }
        for (uuid, bytes) in ledger {
            self.devices.entry(*uuid).or_default().ledger = *bytes;
        }
        self
    }

    /// Takes what NVML says that it holds, and gives what its context seems to take.
    ///
    /// Ledger and reading are not of the same instant. What was freed between them looks like overhead, and would have a
    /// request refused that fits; so an excess counts once two readings in a row have shown it, against the larger
    /// of two ledgers, and no longer than the last one shows it.
    pub(super) fn holds(&mut self, uuid: Uuid, bytes: u64) -> Option<u64> {
        let charge = self.charges.get(&uuid).copied();
        let holding = self.devices.entry(uuid).or_default();
        let excess = bytes.saturating_sub(holding.ledger.max(holding.ledger_before));
        holding.overhead = holding.excess_before.map_or(0, |before| before.min(excess));
        let steady = holding.excess_before.is_some() && holding.ledger == holding.ledger_before;
        holding.excess_before = Some(excess);

        // Without its charge a ledger that holds still is data; the rest of what NVML says is the context, its modules
        // and the driver's rounding. The least of it that was ever seen has the least of those.
        let data = holding.ledger.checked_sub(charge?).filter(|_| steady)?;
        let context = bytes.checked_sub(data).filter(|context| *context > 0)?;
        let least = holding.context.map_or(context, |least| least.min(context));
        holding.context = Some(least);
        Some(least)
    }

    /// NVML does not name it there.
    pub(super) fn leaves(&mut self, uuid: Uuid) {
        if let Some(holding) = self.devices.get_mut(&uuid) {
            holding.excess_before = None;
            holding.overhead = 0;
        }
    }

    /// What it holds beyond the ledger, of each device of which it does.
    pub(super) fn overhead(&self) -> BTreeMap<Uuid, u64> {
        let parts = self.devices.iter();
        let parts = parts.filter(|(_, holding)| holding.overhead > 0);
        parts
            .map(|(uuid, holding)| (*uuid, holding.overhead))
            .collect()
    }

    pub(super) fn add_to(&self, overhead: &mut BTreeMap<(String, Uuid), u64>) {
        for (uuid, holding) in &self.devices {
            let sum = overhead.entry((self.container.clone(), *uuid)).or_default();
            *sum = sum.saturating_add(holding.overhead);
        }
    }
}
