//! The bytes of a policy region: what the daemon says to one container. The daemon maps it for writing; the container's
//! processes have a descriptor that cannot write, and map it for reading.
//!
//! Every statement is one word, so that no reader sees half of one, and a daemon that is killed anywhere leaves a policy that
//! holds. What is lent ends by the clock, whether or not anybody takes it back. `docs/shared-memory.md` draws the map.

pub mod map;

use core::mem::{offset_of, size_of};

use crate::devices::halves;
use crate::layout::{DEVICES, SLOTS};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Version of this layout.
pub const VERSION: u64 = 1;
/// First word of every policy: `GPUPOLCY` as bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GPUPOLCY");
/// A memory limit that is none.
pub const NO_LIMIT: u64 = u64::MAX;
/// Bytes of a container's name.
pub const NAME: usize = 64;

/// The head of a policy. `version` is stored last.
#[repr(C, align(128))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// Size of the whole policy in bytes.
    pub size: AtomicU64,
    /// [`VERSION`], or 0 while it is being written for the first time.
    pub version: AtomicU64,
    /// Raised after each change of a limit or a mode; loans and turns do not raise it.
    pub generation: AtomicU64,
    /// The daemon sleeps on this word, and whoever has news for it wakes it. Its value means nothing.
    pub bell: AtomicU32,
    /// Not used.
    pub spare: AtomicU32,
    /// The container's name, filled up with zeroes.
    pub name: [AtomicU64; NAME / 8],
}

/// What holds on one device.
#[repr(C, align(128))]
pub struct Row {
    /// As in [`crate::layout::DeviceRow`]; 0 is a row not in use.
    pub key: AtomicU64,
    /// Likewise.
    pub rest: AtomicU64,
    /// Bytes of device memory, a multiple of [`crate::ledger::UNIT`]; [`NO_LIMIT`] is none.
    pub memory: AtomicU64,
    /// Bytes that the container holds beyond what its ledger says, by NVML. They count as used.
    pub overhead: AtomicU64,
    /// Bytes that one context of a process is charged.
    pub context: AtomicU64,
    /// [`mode`] bits.
    pub mode: AtomicU32,
    /// Parts per million of the device's time that are the container's own: its limit, or its guaranteed share.
    pub rate: AtomicU32,
    /// A [`Loan`].
    pub loan: AtomicU64,
    /// A [`Turn`].
    pub turn: AtomicU64,
    /// Until when the daemon counts the container as active here without being told again, `CLOCK_MONOTONIC` ns. A process that
    /// becomes active and finds this in the past rings.
    pub active_until: AtomicU64,
    /// Raised, and its sleepers woken, with each change of rate, loan, turn or mode: launches that wait sleep here.
    pub wake: AtomicU32,
    /// Containers active on the device, this one included, when the daemon last looked.
    pub active: AtomicU32,
    /// When the present turn began, or the last one ended: when the device was done with what came before.
    pub since: AtomicU64,
    /// Parts per million of the device's time that are the container's as things stand, what is lent included: what its turns are in
    /// proportion to. 0: nothing is said. Only for those who look on.
    pub part: AtomicU32,
}

/// The bits of [`Row::mode`].
pub mod mode {
    /// GPU time is counted, and held to the rate unless [`OBSERVE`] is set too. Without it GPU time is free and not counted.
    pub const COMPUTE: u32 = 1;
    /// Nothing is refused or delayed; what would have been is counted.
    pub const OBSERVE: u32 = 2;
}

/// A policy.
#[repr(C)]
pub struct Policy {
    /// Magic, size, version, bell, name.
    pub header: Header,
    /// Devices, in no order.
    pub rows: [Row; DEVICES],
    /// Owner words of slots whose owners the daemon knows to be dead, each at its slot's index; 0 is none.
    pub dead: [AtomicU64; SLOTS],
}

/// GPU time lent on top of what is guaranteed: a rate and its end, in one word.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Loan(pub u64);

/// Whose turn it is, in one word.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Turn(pub u64);

/// Low bits of both words: a rate in ppm, or the number of a turn.
const LOW: u32 = 20;
/// Times are kept in units of 2^14 ns (16 µs): 44 bits of them last nine years.
const TICK: u32 = 14;

const fn pack(low: u32, until: u64) -> u64 {
    (until >> TICK) << LOW | (low as u64 & ((1 << LOW) - 1))
}

impl Loan {
    /// `rate` ppm in all, the container's own included, until `until` (monotonic ns).
    #[must_use]
    pub const fn new(rate: u32, until: u64) -> Self {
        Self(pack(rate, until))
    }

    /// The rate in ppm, if the loan still runs.
    #[must_use]
    pub fn rate(self, now: u64) -> Option<u32> {
        let rate = u32::try_from(self.0 & ((1 << LOW) - 1)).unwrap_or(0);
        (rate > 0 && self.until() > now).then_some(rate)
    }

    /// When it ends.
    #[must_use]
    pub const fn until(self) -> u64 {
        (self.0 >> LOW) << TICK
    }
}

impl Turn {
    /// Turns are off: whoever has time may run.
    pub const OFF: Self = Self(0);

    /// It is this container's turn, until `until` at the latest. `number` counts turns of the device, and wraps.
    #[must_use]
    pub const fn own(number: u64, until: u64) -> Self {
        Self(pack(Self::wrapped(number), until))
    }

    /// It is somebody else's turn.
    #[must_use]
    pub const fn others(number: u64) -> Self {
        Self(pack(Self::wrapped(number), 0))
    }

    /// 1 to 2^20 - 1.
    const fn wrapped(number: u64) -> u32 {
        let low = (number % ((1 << LOW) - 1)) as u32;
        low + 1
    }

    /// Whether turns are taken at all.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.0 != 0
    }

    /// Whether work may start now. The holder's lease ends by the clock; then nobody may until the daemon says so, and
    /// a launch goes on when its patience ends.
    #[must_use]
    pub const fn may_run(self, now: u64) -> bool {
        !self.is_on() || self.until() > now
    }

    /// When the lease ends; 0 if it is somebody else's.
    #[must_use]
    pub const fn until(self) -> u64 {
        (self.0 >> LOW) << TICK
    }
}

impl Row {
    /// A row that limits nothing and counts no time: what a process without a daemon goes by.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            key: AtomicU64::new(0),
            rest: AtomicU64::new(0),
            memory: AtomicU64::new(NO_LIMIT),
            overhead: AtomicU64::new(0),
            context: AtomicU64::new(0),
            mode: AtomicU32::new(0),
            rate: AtomicU32::new(0),
            loan: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            active_until: AtomicU64::new(0),
            wake: AtomicU32::new(0),
            active: AtomicU32::new(0),
            since: AtomicU64::new(0),
            part: AtomicU32::new(0),
        }
    }

    /// The UUID of a row in use.
    #[must_use]
    pub fn uuid(&self) -> Option<[u8; 16]> {
        crate::devices::uuid_from(&self.key, &self.rest)
    }

    /// Bytes that the ledger may hold: the limit less the overhead; `None` is no limit.
    #[must_use]
    pub fn room(&self) -> Option<u64> {
        match self.memory.load(Ordering::Relaxed) {
            NO_LIMIT => None,
            limit => Some(limit.saturating_sub(self.overhead.load(Ordering::Relaxed))),
        }
    }

    /// The rate that holds now, in ppm: what is lent while it is lent, else the container's own. `None` where GPU time is free.
    #[must_use]
    pub fn rate_at(&self, now: u64) -> Option<u32> {
        if self.mode.load(Ordering::Relaxed) & mode::COMPUTE == 0 {
            return None;
        }
        let own = self.rate.load(Ordering::Relaxed);
        let lent = Loan(self.loan.load(Ordering::Relaxed)).rate(now);
        Some(lent.map_or(own, |lent| lent.max(own)))
    }
}

impl Policy {
    /// The row of a device.
    #[must_use]
    pub fn row(&self, uuid: &[u8; 16]) -> Option<&Row> {
        let (key, rest) = halves(uuid);
        self.rows.iter().find(|row| {
            row.key.load(Ordering::Acquire) == key && row.rest.load(Ordering::Acquire) == rest
        })
    }

    /// The container's name.
    #[must_use]
    pub fn name(&self) -> String {
        let bytes: Vec<u8> = self
            .header
            .name
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Writes the container's name, cut where it is too long.
    pub fn set_name(&self, name: &str) {
        for (index, word) in self.header.name.iter().enumerate() {
            let mut bytes = [0; 8];
            let rest = name.as_bytes().get(index * 8..).unwrap_or_default();
            for (byte, from) in bytes.iter_mut().zip(rest) {
                *byte = *from;
            }
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
    }
}

const _: () = {
    assert!(size_of::<Header>() == 128);
    assert!(size_of::<Row>() == 128);
    assert!(offset_of!(Header, magic) == 0);
    assert!(offset_of!(Header, size) == 8);
    assert!(offset_of!(Header, version) == 16);
    assert!(offset_of!(Header, generation) == 24);
    assert!(offset_of!(Header, bell) == 32);
    assert!(offset_of!(Header, spare) == 36);
    assert!(offset_of!(Header, name) == 40);
    assert!(offset_of!(Row, key) == 0);
    assert!(offset_of!(Row, rest) == 8);
    assert!(offset_of!(Row, memory) == 16);
    assert!(offset_of!(Row, overhead) == 24);
    assert!(offset_of!(Row, context) == 32);
    assert!(offset_of!(Row, mode) == 40);
    assert!(offset_of!(Row, rate) == 44);
    assert!(offset_of!(Row, loan) == 48);
    assert!(offset_of!(Row, turn) == 56);
    assert!(offset_of!(Row, active_until) == 64);
    assert!(offset_of!(Row, wake) == 72);
    assert!(offset_of!(Row, active) == 76);
    assert!(offset_of!(Row, since) == 80);
    assert!(offset_of!(Row, part) == 88);
    assert!(offset_of!(Policy, rows) == 0x80);
    assert!(offset_of!(Policy, dead) == 0x1080);
    assert!(size_of::<Policy>() == 0x2080);
};

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1 << 40;
    const MS: u64 = 1_000_000;

    #[test]
    fn a_loan_ends_by_the_clock() {
        let loan = Loan::new(750_000, NOW + 100 * MS);
        assert_eq!(loan.rate(NOW), Some(750_000));
        assert_eq!(loan.rate(NOW + 99 * MS), Some(750_000));
        assert_eq!(loan.rate(NOW + 100 * MS), None);
        assert_eq!(Loan(0).rate(0), None);
    }

    #[test]
    fn a_turn_is_ones_own_until_its_lease_ends() {
        assert!(Turn::OFF.may_run(NOW));
        for number in [0, 1, (1 << LOW) - 2, (1 << LOW) - 1, u64::MAX] {
            assert!(Turn::own(number, NOW + MS).may_run(NOW));
            assert!(!Turn::own(number, NOW + MS).may_run(NOW + 2 * MS));
            assert!(Turn::others(number).is_on());
            assert!(!Turn::others(number).may_run(NOW));
        }
    }
}
