//! What a context takes on each device, as measured on the processes that have one.

use std::collections::{BTreeMap, VecDeque};

use crate::model::Uuid;

/// Processes whose contexts are remembered.
const RECENT: usize = 8;
/// Estimates outside of this are of something else.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 16 << 20..=4 << 30;
/// Estimates are rounded up to this, so that they hold still.
const STEP: u64 = 1 << 20;

type Who = (u32, u64);

#[derive(Default)]
pub(super) struct Contexts {
    devices: BTreeMap<Uuid, VecDeque<(Who, u64)>>,
    /// From a predecessor, until there is something newer.
    inherited: BTreeMap<Uuid, u64>,
}

impl Contexts {
    pub(super) fn learned(&mut self, device: Uuid, bytes: u64) {
        if PLAUSIBLE.contains(&bytes) {
            self.inherited.insert(device, bytes);
        }
    }

    pub(super) fn measured(&mut self, device: Uuid, who: Who, bytes: u64) {
        if !PLAUSIBLE.contains(&bytes) {
            return;
        }
        let bytes = bytes.next_multiple_of(STEP);
        let recent = self.devices.entry(device).or_default();
        match recent.iter_mut().find(|(known, _)| *known == who) {
            Some((_, estimate)) => *estimate = bytes,
            None => {
                if recent.len() == RECENT {
                    recent.pop_front();
                }
                recent.push_back((who, bytes));
            }
        }
    }

    /// The highest of the recent ones: who is charged too much for a context has less overhead, who is charged too
    /// little has memory that is not counted until the next reading.
    pub(super) fn all(&self) -> BTreeMap<Uuid, u64> {
        let mut all = self.inherited.clone();
        for (device, recent) in &self.devices {
            if let Some(highest) = recent.iter().map(|(_, bytes)| *bytes).max() {
                all.insert(*device, highest);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const DEVICE: Uuid = Uuid([1; 16]);

    #[test]
    fn the_highest_of_the_recent_ones() {
        let mut contexts = Contexts::default();
        assert_eq!(contexts.all(), BTreeMap::new());
        contexts.learned(DEVICE, 500 * MIB);
        assert_eq!(contexts.all(), BTreeMap::from([(DEVICE, 500 * MIB)]));
        contexts.measured(DEVICE, (7, 0), 300 * MIB - 5);
        contexts.measured(DEVICE, (8, 0), 200 * MIB);
        assert_eq!(contexts.all()[&DEVICE], 300 * MIB);
        contexts.measured(DEVICE, (7, 0), 250 * MIB);
        assert_eq!(contexts.all()[&DEVICE], 250 * MIB);
        for pid in 0..u32::try_from(RECENT).unwrap() {
            contexts.measured(DEVICE, (100 + pid, 0), 100 * MIB);
        }
        assert_eq!(contexts.all()[&DEVICE], 100 * MIB);
    }

    #[test]
    fn what_is_no_context_teaches_nothing() {
        let mut contexts = Contexts::default();
        for odd in [0, MIB, 5 << 30, u64::MAX] {
            contexts.measured(DEVICE, (7, 0), odd);
            contexts.learned(DEVICE, odd);
        }
        assert_eq!(contexts.all(), BTreeMap::new());
    }
}
