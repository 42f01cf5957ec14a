//! The devices of a region, each claimed by its UUID and found again under the same index.

use crate::layout::{DEVICES, DeviceRow, Region};
use crate::ledger::Ledger;
use crate::sync::{AtomicU64, Ordering};

/// XORed into a UUID's halves, so that no likely UUID has a half of zero, which means free.
const MASK: u64 = 0x9e37_79b9_7f4a_7c15;

/// Index of the device of this UUID, which is claimed if it is new; `None` when the table is full.
pub fn index_of(region: &Region, uuid: &[u8; 16]) -> Option<usize> {
    let (key, rest) = halves(uuid);
    region
        .devices
        .iter()
        .position(|row| matches(row, key, rest, claim))
}

/// Index of the device of this UUID if anybody has claimed it.
#[must_use]
pub fn find(region: &Region, uuid: &[u8; 16]) -> Option<usize> {
    let (key, rest) = halves(uuid);
    region
        .devices
        .iter()
        .position(|row| matches(row, key, rest, |word, _| word.load(Ordering::Acquire)))
}

/// UUID of a claimed row.
#[must_use]
pub fn uuid_of(row: &DeviceRow) -> Option<[u8; 16]> {
    uuid_from(&row.key, &row.rest)
}

/// The UUID that two words stand for.
pub(crate) fn uuid_from(key: &AtomicU64, rest: &AtomicU64) -> Option<[u8; 16]> {
    let key = key.load(Ordering::Acquire);
    let rest = rest.load(Ordering::Acquire);
    if key == 0 || rest == 0 {
        return None;
    }
    let mut uuid = [0; 16];
    let (high, low) = uuid.split_at_mut(8);
    high.copy_from_slice(&(key ^ MASK).to_be_bytes());
    low.copy_from_slice(&(rest ^ MASK).to_be_bytes());
    Some(uuid)
}

/// The ledger of a device.
#[must_use]
pub fn ledger(region: &Region, device: usize) -> Option<Ledger<'_>> {
    Some(Ledger {
        high_water: &region.header.high_water,
        words: region.memory.get(device)?,
    })
}

/// The ledgers of all rows, claimed or not.
pub fn ledgers(region: &Region) -> impl Iterator<Item = Ledger<'_>> + Clone {
    (0..DEVICES).filter_map(|device| ledger(region, device))
}

/// A UUID is two words, and a row is claimed word by word: one who dies between the two leaves a row that the next process
/// with the same first half completes.
fn matches(row: &DeviceRow, key: u64, rest: u64, word: impl Fn(&AtomicU64, u64) -> u64) -> bool {
    word(&row.key, key) == key && word(&row.rest, rest) == rest
}

/// What a word holds, which is `wanted` if it was free.
fn claim(word: &AtomicU64, wanted: u64) -> u64 {
    match word.compare_exchange(0, wanted, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => wanted,
        Err(other) => other,
    }
}

/// The two words that stand for a UUID.
#[must_use]
pub fn halves(uuid: &[u8; 16]) -> (u64, u64) {
    let number = u128::from_be_bytes(*uuid);
    let half = |shift: u32| u64::try_from(number >> shift & u128::from(u64::MAX)).unwrap_or(0);
    (half(64) ^ MASK, half(0) ^ MASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Mapped;

    fn uuid(number: u128) -> [u8; 16] {
        number.to_be_bytes()
    }

    #[test]
    fn a_device_keeps_its_index() {
        let region = Mapped::private().unwrap();
        assert_eq!(find(&region, &uuid(7)), None);
        assert_eq!(index_of(&region, &uuid(7)), Some(0));
        assert_eq!(index_of(&region, &uuid(7 << 64)), Some(1));
        assert_eq!(index_of(&region, &uuid(8)), Some(2));
        assert_eq!(index_of(&region, &uuid(7)), Some(0));
        assert_eq!(find(&region, &uuid(8)), Some(2));
        assert_eq!(uuid_of(&region.devices[1]), Some(uuid(7 << 64)));
        assert_eq!(uuid_of(&region.devices[3]), None);
    }

    #[test]
    fn a_half_claimed_row_is_completed() {
        let region = Mapped::private().unwrap();
        let (key, _) = halves(&uuid(7));
        region.devices[0].key.store(key, Ordering::Relaxed);
        assert_eq!(index_of(&region, &uuid(7)), Some(0));
        assert_eq!(find(&region, &uuid(7)), Some(0));
    }

    #[test]
    fn the_table_fills_up() {
        let region = Mapped::private().unwrap();
        for number in 0..DEVICES {
            assert_eq!(index_of(&region, &uuid(number as u128)), Some(number));
        }
        assert_eq!(index_of(&region, &uuid(999)), None);
    }
}
