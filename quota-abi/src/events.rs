//! The last refusals and the last waits of a container, for whoever asks why.
//!
//! Two rings. An event is written by whoever has it to tell, off the fast path, without a lock: the number of the event names
//! its row, and is stored last. A writer that is killed in between leaves a row that says nothing. A row that a slow writer
//! and a fast one share for a moment may mix two events; the reader of a diagnosis can live with that, and the daemon believes
//! nothing of it.

use crate::layout::{EventRow, Region};
use crate::sync::{AtomicU64, Ordering};

/// What a ring tells of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A request for memory was refused.
    Refusal,
    /// A launch waited.
    Wait,
}

/// One event.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Event {
    /// When, `CLOCK_MONOTONIC` ns.
    pub at: u64,
    /// Pid of the process in its own pid namespace.
    pub pid: u32,
    /// Row of the device.
    pub device: u8,
    /// Slot of the process.
    pub slot: u16,
    /// Refusal: bytes asked for. Wait: what the launch was charged, GPU ns.
    pub asked: u64,
    /// Refusal: bytes that the process held. Wait: the level of the bucket when it came, GPU ns (negative: debt).
    pub own: u64,
    /// Refusal: bytes that all processes held together. Wait: how long it waited, ns.
    pub all: u64,
    /// Refusal: the limit in bytes, less overhead. Wait: the rate in ppm.
    pub limit: u64,
}

impl Event {
    /// The level of the bucket that a wait found.
    #[must_use]
    pub const fn level(&self) -> i64 {
        self.own.cast_signed()
    }

    const fn who(&self) -> u64 {
        self.pid as u64 | (self.device as u64) << 32 | (self.slot as u64) << 40
    }
}

fn ring(region: &Region, what: What) -> (&AtomicU64, &[EventRow]) {
    match what {
        What::Refusal => (&region.header.refusals, &region.refusals),
        What::Wait => (&region.header.waits, &region.waits),
    }
}

/// Notes an event.
pub fn note(region: &Region, what: What, event: &Event) {
    let (count, rows) = ring(region, what);
    let number = count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let Some(row) = row(rows, number) else {
        return;
    };
    row.number.store(0, Ordering::Release);
    row.at.store(event.at, Ordering::Relaxed);
    row.who.store(event.who(), Ordering::Relaxed);
    row.asked.store(event.asked, Ordering::Relaxed);
    row.own.store(event.own, Ordering::Relaxed);
    row.all.store(event.all, Ordering::Relaxed);
    row.limit.store(event.limit, Ordering::Relaxed);
    row.number.store(number, Ordering::Release);
}

/// The events that the ring still has, the last one first.
pub fn last(region: &Region, what: What) -> impl Iterator<Item = Event> {
    let (count, rows) = ring(region, what);
    let newest = count.load(Ordering::Acquire);
    (0..rows.len() as u64).filter_map(move |back| {
        let number = newest.checked_sub(back).filter(|number| *number > 0)?;
        let row = row(rows, number)?;
        (row.number.load(Ordering::Acquire) == number).then(|| read(row))
    })
}

fn row(rows: &[EventRow], number: u64) -> Option<&EventRow> {
    let index = number.wrapping_sub(1) % rows.len() as u64;
    rows.get(usize::try_from(index).ok()?)
}

fn read(row: &EventRow) -> Event {
    let who = row.who.load(Ordering::Relaxed);
    let [a, b, c, d, device, low, high, _] = who.to_le_bytes();
    Event {
        at: row.at.load(Ordering::Relaxed),
        pid: u32::from_le_bytes([a, b, c, d]),
        device,
        slot: u16::from_le_bytes([low, high]),
        asked: row.asked.load(Ordering::Relaxed),
        own: row.own.load(Ordering::Relaxed),
        all: row.all.load(Ordering::Relaxed),
        limit: row.limit.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::EVENTS;
    use crate::region::Mapped;

    #[test]
    fn the_last_come_first_and_the_oldest_are_forgotten() {
        let region = Mapped::private().unwrap();
        assert_eq!(last(&region, What::Refusal).count(), 0);
        for asked in 1..=EVENTS as u64 + 5 {
            let event = Event {
                asked,
                pid: 4_000_000,
                device: 31,
                slot: 511,
                ..Event::default()
            };
            note(&region, What::Refusal, &event);
        }
        let events: Vec<_> = last(&region, What::Refusal).collect();
        assert_eq!(events.len(), EVENTS);
        assert_eq!(events[0].asked, EVENTS as u64 + 5);
        assert_eq!(events[EVENTS - 1].asked, 6);
        assert_eq!(
            (events[0].pid, events[0].device, events[0].slot),
            (4_000_000, 31, 511)
        );
        assert_eq!(last(&region, What::Wait).count(), 0);
    }

    #[test]
    fn a_count_that_a_tenant_made_up_shows_nothing() {
        let region = Mapped::private().unwrap();
        region.header.waits.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(last(&region, What::Wait).count(), 0);
        note(&region, What::Wait, &Event::default());
        assert_eq!(last(&region, What::Wait).count(), 0);
    }
}
