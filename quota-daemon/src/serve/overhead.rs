//! What a container's processes hold beyond its ledger, by NVML, each process for itself: when one ends, its part is nobody's at
//! once, and the next process need not wait for the next reading.

use std::collections::{BTreeMap, BTreeSet};

use quota_abi::policy::Policy;

use crate::model::Uuid;
use crate::reconcile::Outcome;

use super::clients::Key;
use super::policy::set_overhead;

/// The last reading, as far as it still holds.
#[derive(Debug, Default)]
pub(super) struct Overhead {
    living: BTreeMap<Key, BTreeMap<Uuid, u64>>,
    /// What those hold who had ended before the reading was taken.
    dead: BTreeMap<Uuid, u64>,
}

impl Overhead {
    /// Takes a reading. Who has ended since it was compared is left out.
    pub(super) fn take(&mut self, container: &str, clients: &BTreeSet<Key>, outcome: &Outcome) {
        self.living = clients
            .iter()
            .filter_map(|key| Some((*key, outcome.by_process.get(&key.pid)?.clone())))
            .collect();
        self.dead = outcome
            .dead
            .iter()
            .filter(|((name, _), _)| name == container)
            .map(|((_, uuid), bytes)| (*uuid, *bytes))
            .collect();
    }

    /// A process has ended.
    pub(super) fn forget(&mut self, key: Key) {
        self.living.remove(&key);
    }

    /// What the living hold of a device beyond the ledger, and what the dead hold.
    pub(super) fn of(&self, uuid: Uuid) -> (u64, u64) {
        let parts = self.living.values().filter_map(|parts| parts.get(&uuid));
        let living = parts.fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        (living, self.dead.get(&uuid).copied().unwrap_or(0))
    }

    /// Writes it where the container's processes read it. What the dead hold is held, until the driver has taken it back.
    pub(super) fn write(&self, policy: &Policy) {
        for row in &policy.rows {
            if let Some(uuid) = row.uuid() {
                let (living, dead) = self.of(Uuid(uuid));
                set_overhead(row, living.saturating_add(dead));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Uuid = Uuid([1; 16]);

    fn key(pid: u32) -> Key {
        Key { pid, start: 1 }
    }

    #[test]
    fn who_has_ended_holds_nothing_beyond() {
        let outcome = Outcome {
            by_process: [(7, 300), (8, 20), (9, 1)]
                .map(|(pid, bytes)| (pid, BTreeMap::from([(DEVICE, bytes)])))
                .into(),
            dead: BTreeMap::from([
                (("a".to_owned(), DEVICE), 5),
                (("b".to_owned(), DEVICE), 7000),
            ]),
            ..Outcome::default()
        };
        let mut overhead = Overhead::default();
        // Pid 9 is another container's.
        overhead.take("a", &BTreeSet::from([key(7), key(8)]), &outcome);
        assert_eq!(overhead.of(DEVICE), (320, 5));
        overhead.forget(key(7));
        assert_eq!(overhead.of(DEVICE), (20, 5));
        overhead.take("a", &BTreeSet::from([key(8)]), &outcome);
        assert_eq!(overhead.of(DEVICE), (20, 5));
        assert_eq!(overhead.of(Uuid([2; 16])), (0, 0));
    }
}
