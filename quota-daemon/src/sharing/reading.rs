//! What a container says about its use of one device. All of it is the container's own word.

use quota_abi::devices;
use quota_abi::layout::{DEVICES, Region};
use quota_abi::sync::Ordering;

/// What was read of a usage region about one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// When a process last had a look at the bucket, `CLOCK_MONOTONIC` ns.
    pub refilled_at: u64,
    /// GPU time used, ns.
    pub used: u64,
    /// Launches that waited.
    pub waits: u64,
    /// Launches.
    pub launches: u64,
    /// Whether a living process has work in flight, or a launch that waits.
    pub busy: bool,
    /// When its work in flight will have ended, by its estimates, `CLOCK_MONOTONIC` ns.
    pub ends_at: u64,
    /// What it has to launch next does not fit behind that into its turn.
    pub full: bool,
    /// Its estimates tell little of when something ends.
    pub unsure: bool,
}

impl Reading {
    /// Reads a private copy of a region, of which the part before the ledger is enough. `living` tells of a slot and its owner
    /// word whether that is a registered process that lives. `None`: the container has never used the device.
    pub fn of(
        now: u64,
        region: &Region,
        uuid: &[u8; 16],
        living: impl Fn(usize, u64) -> bool,
    ) -> Option<Self> {
        let index = devices::find(region, uuid)?;
        let bucket = region.buckets.get(index)?;
        // All slots: how many are in use is a number that the container wrote.
        let (mut busy, mut works) = (false, false);
        for (slot, row) in region.slots.iter().enumerate() {
            let bits = row.busy.load(Ordering::Relaxed) >> index;
            if bits & (1 | 1 << DEVICES) != 0 && living(slot, row.owner.load(Ordering::Relaxed)) {
                busy |= bits & 1 != 0;
                works |= bits & 1 << DEVICES != 0;
            }
        }
        let counters = bucket.read();
        Some(Self {
            refilled_at: bucket.refilled_at(),
            used: counters.used,
            waits: counters.waits,
            launches: counters.launches,
            busy,
            // What was booked by those who have nothing in flight was booked in error, or by the dead.
            ends_at: bucket.ends_at(now).min(if works { u64::MAX } else { now }),
            full: bucket.is_full(),
            unsure: bucket.is_unsure(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quota_abi::bucket::Rate;
    use quota_abi::region::Mapped;

    const UUID: [u8; 16] = [7; 16];

    #[test]
    fn a_device_never_used_is_nothing() {
        let region = Mapped::private().unwrap();
        assert_eq!(Reading::of(100, &region, &UUID, |_, _| true), None);
    }

    #[test]
    fn what_was_written_is_read_and_the_dead_are_not_busy() {
        let region = Mapped::private().unwrap();
        devices::index_of(&region, &[1; 16]).unwrap();
        let index = devices::index_of(&region, &UUID).unwrap();
        region.buckets[index].refill(77, Rate::from_ppm(500_000).unwrap());
        region.buckets[index].charge(1000);
        region.buckets[index].count_wait(5, false);
        region.buckets[index].count_launches(3);
        region.slots[511].owner.store(9, Ordering::Relaxed);
        region.slots[511].busy.store(1 << index, Ordering::Relaxed);
        let reading = Reading::of(100, &region, &UUID, |slot, owner| (slot, owner) == (511, 9));
        let expected = Reading {
            refilled_at: 77,
            used: 1000,
            waits: 1,
            launches: 3,
            busy: true,
            ends_at: 0,
            full: false,
            unsure: false,
        };
        assert_eq!(reading, Some(expected));
        let dead = Reading::of(100, &region, &UUID, |_, _| false).unwrap();
        assert!(!dead.busy);
        region.slots[511].busy.store(1, Ordering::Relaxed);
        let elsewhere = Reading::of(100, &region, &UUID, |_, _| true).unwrap();
        assert!(!elsewhere.busy);
    }
}
