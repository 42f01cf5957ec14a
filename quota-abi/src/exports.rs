//! Memory that one process of the group exports and others import: charged once, and for as long as any of them holds it.
//!
//! The exporter publishes a row and stays charged. An importer that finds the row sets its bit there and is charged
//! nothing. When the exporter's slot is reaped, the charge passes to a living holder, and from holder to holder, until
//! nobody holds the memory any more. An importer that finds no row is charged itself: its exporter is of another group, or
//! of none. Each row stands for one import in each process; a second one of the same process is charged.
//!
//! A row's owner word is its lock: slot, state and a generation that every new publication raises. Who dies between two
//! steps of handing a charge on leaves it counted twice at worst, until the holder in question ends; never not at all.

use crate::devices;
use crate::layout::{ExportRow, Region};
use crate::sync::{Ordering, full_fence};

/// A row as its publisher or a holder knows it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Row {
    index: u16,
    generation: u32,
}

/// One more than the owner's slot; 0 is free.
const SLOT: u64 = 0xffff;
/// The rest of the row has been written.
const LIVE: u64 = 1 << 16;
/// The owner has not exported the memory but was handed its charge.
const HANDED: u64 = 1 << 17;
const GENERATION: u32 = 32;

fn owner(slot: usize, flags: u64, generation: u32) -> u64 {
    let slot = u64::try_from(slot + 1).unwrap_or(0) & SLOT;
    slot | flags | u64::from(generation) << GENERATION
}

fn generation_of(owner: u64) -> u32 {
    u32::try_from(owner >> GENERATION).unwrap_or(0)
}

fn is_owned_by(owner: u64, slot: usize) -> bool {
    usize::try_from(owner & SLOT).is_ok_and(|number| number == slot + 1)
}

/// Makes memory that `slot` is charged for known to importers. `None` when the table is full: they will be charged.
pub fn publish(region: &Region, slot: usize, device: usize, key: u64, bytes: u64) -> Option<Row> {
    for (index, row) in region.exports.iter().enumerate() {
        let free = row.owner.load(Ordering::Relaxed);
        if free & SLOT != 0 {
            continue;
        }
        let generation = generation_of(free).wrapping_add(1);
        let claimed = owner(slot, 0, generation);
        let won = row
            .owner
            .compare_exchange(free, claimed, Ordering::AcqRel, Ordering::Relaxed);
        if won.is_err() {
            continue;
        }
        row.key.store(key, Ordering::Relaxed);
        row.bytes.store(bytes, Ordering::Relaxed);
        let device = u64::try_from(device).unwrap_or(u64::MAX);
        row.device.store(device, Ordering::Relaxed);
        for holders in &row.holders {
            holders.store(0, Ordering::Relaxed);
        }
        // SYNC POINT with `hold`: who sees the row live sees what it is of.
        row.owner
            .store(owner(slot, LIVE, generation), Ordering::Release);
        let index = u16::try_from(index).ok()?;
        return Some(Row { index, generation });
    }
    None
}

/// The publisher has freed the memory and is about to be refunded: its charge passes to whoever still holds the memory.
pub fn withdraw(region: &Region, slot: usize, row: Row) {
    if let Some(found) = region.exports.get(usize::from(row.index)) {
        let from = owner(slot, LIVE, row.generation);
        if found.owner.load(Ordering::SeqCst) == from {
            hand_on(region, found, from, slot);
        }
    }
}

fn free(row: &ExportRow, from: u64, generation: u32) -> bool {
    let empty = u64::from(generation) << GENERATION;
    row.owner
        .compare_exchange(from, empty, Ordering::SeqCst, Ordering::Relaxed)
        .is_ok()
}

/// Finds memory of this device that somebody of the group is charged for, and keeps that charge alive. `None`: charge it.
pub fn hold(region: &Region, slot: usize, device: usize, key: u64) -> Option<Row> {
    let (word, bit) = (slot / 64, 1_u64 << (slot % 64));
    for (index, row) in region.exports.iter().enumerate() {
        // SYNC POINT with `publish`.
        let before = row.owner.load(Ordering::Acquire);
        let is_it = before & SLOT != 0
            && before & LIVE != 0
            && row.key.load(Ordering::Relaxed) == key
            && usize::try_from(row.device.load(Ordering::Relaxed)).is_ok_and(|of| of == device);
        let Some(holders) = row.holders.get(word).filter(|_| is_it) else {
            continue;
        };
        if holders.fetch_or(bit, Ordering::SeqCst) & bit != 0 {
            // Stands for another import of this process already.
            continue;
        }
        full_fence();
        // SYNC POINT with `hand_on`, which frees a row and then looks for holders: one of the two sees the other.
        let after = row.owner.load(Ordering::SeqCst);
        if after & SLOT != 0 && generation_of(after) == generation_of(before) {
            return Some(Row {
                index: u16::try_from(index).ok()?,
                generation: generation_of(after),
            });
        }
        holders.fetch_and(!bit, Ordering::SeqCst);
    }
    None
}

/// An importer has released its last reference.
pub fn let_go(region: &Region, slot: usize, row: Row) {
    let Some(found) = region.exports.get(usize::from(row.index)) else {
        return;
    };
    if generation_of(found.owner.load(Ordering::SeqCst)) != row.generation {
        // Withdrawn meanwhile, and used again: the bit, if any, is of another import.
        return;
    }
    clear_bit(found, slot);
    full_fence();
    let now = found.owner.load(Ordering::SeqCst);
    let handed = owner(slot, LIVE | HANDED, row.generation);
    if now == handed {
        let bytes = found.bytes.load(Ordering::Relaxed);
        if hand_on(region, found, now, slot) {
            refund(region, found, slot, bytes);
        }
    }
}

/// Passes on what a dead owner was charged for and others still hold, and forgets what it held. Called before the
/// slot's words are zeroed.
pub(crate) fn reap(region: &Region, slot: usize) {
    for row in &region.exports {
        clear_bit(row, slot);
    }
    full_fence();
    for row in &region.exports {
        let now = row.owner.load(Ordering::SeqCst);
        if !is_owned_by(now, slot) {
            continue;
        }
        if now & LIVE == 0 {
            free(row, now, generation_of(now));
        } else {
            hand_on(region, row, now, slot);
        }
    }
}

fn clear_bit(row: &ExportRow, slot: usize) {
    if let Some(holders) = row.holders.get(slot / 64) {
        let bit = 1_u64 << (slot % 64);
        if holders.load(Ordering::Relaxed) & bit != 0 {
            holders.fetch_and(!bit, Ordering::SeqCst);
        }
    }
}

/// Gives the charge to a holder, or frees the row where there is none. `false` if somebody else has taken the row.
fn hand_on(region: &Region, row: &ExportRow, from: u64, own: usize) -> bool {
    let generation = generation_of(from);
    let bytes = row.bytes.load(Ordering::Relaxed);
    loop {
        let Some(next) = first_holder(row, own) else {
            if !free(row, from, generation) {
                return false;
            }
            full_fence();
            // SYNC POINT with `hold`.
            let empty = u64::from(generation) << GENERATION;
            if first_holder(row, own).is_none()
                || row
                    .owner
                    .compare_exchange(empty, from, Ordering::SeqCst, Ordering::Relaxed)
                    .is_err()
            {
                return true;
            }
            continue;
        };
        force(region, row, next, bytes);
        let handed = owner(next, LIVE | HANDED, generation);
        let passed = row
            .owner
            .compare_exchange(from, handed, Ordering::SeqCst, Ordering::Relaxed);
        if passed.is_err() {
            refund(region, row, next, bytes);
            return false;
        }
        full_fence();
        if is_held_by(row, next) {
            return true;
        }
        // It let go before it could see that it was charged: take the charge back, unless it has seen it by now.
        let taken = row
            .owner
            .compare_exchange(handed, from, Ordering::SeqCst, Ordering::Relaxed);
        if taken.is_err() {
            return true;
        }
        refund(region, row, next, bytes);
    }
}

fn first_holder(row: &ExportRow, own: usize) -> Option<usize> {
    row.holders.iter().enumerate().find_map(|(word, holders)| {
        let mut bits = holders.load(Ordering::SeqCst);
        if own / 64 == word {
            bits &= !(1 << (own % 64));
        }
        let bit = usize::try_from(bits.trailing_zeros()).ok()?;
        (bits != 0).then_some(word * 64 + bit)
    })
}

fn is_held_by(row: &ExportRow, slot: usize) -> bool {
    row.holders
        .get(slot / 64)
        .is_some_and(|holders| holders.load(Ordering::SeqCst) >> (slot % 64) & 1 == 1)
}

fn force(region: &Region, row: &ExportRow, slot: usize, bytes: u64) {
    let device = usize::try_from(row.device.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    if let Some(ledger) = devices::ledger(region, device) {
        ledger.force(slot, bytes);
    }
}

fn refund(region: &Region, row: &ExportRow, slot: usize, bytes: u64) {
    let device = usize::try_from(row.device.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    if let Some(ledger) = devices::ledger(region, device) {
        ledger.refund(slot, bytes);
    }
}

#[cfg(test)]
mod tests;
