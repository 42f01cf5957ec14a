//! What one process has of one device, in one word: what it holds and what it asks for, readable at one instant.
//!
//! Both count units of 512 bytes, the driver's own step, in 32 bits each: 2 TiB of each for one process on one device. A
//! field never carries into the other: what would overflow is not asked for (see [`super::Ledger::reserve`]), and what has
//! happened without being asked for stops at the top.

/// Bytes of a unit. Charges are multiples of it; anything else is rounded up, and a limit down.
pub const UNIT: u64 = 512;

/// The highest value of a field.
pub(super) const MAX: u64 = u32::MAX as u64;

/// A copy of a process's word.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Word(pub(super) u64);

impl Word {
    /// Nothing held, and nobody else in the group: the holder asks nobody.
    pub(super) const ALONE: Self = Self(MAX);

    pub(super) const fn new(held: u64, asking: u64) -> Self {
        Self(held << 32 | asking & MAX)
    }

    /// Units held.
    pub(super) const fn held(self) -> u64 {
        self.0 >> 32
    }

    /// The lower field as it is: units asked for, or the mark of who is alone.
    pub(super) const fn lower(self) -> u64 {
        self.0 & MAX
    }

    /// Units asked for.
    pub(super) const fn asking(self) -> u64 {
        if self.is_alone() { 0 } else { self.lower() }
    }

    /// Whether its process need not ask anybody.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        self.lower() == MAX
    }

    /// Bytes held.
    #[must_use]
    pub const fn held_bytes(self) -> u64 {
        self.held() * UNIT
    }

    /// Bytes being asked for.
    #[must_use]
    pub const fn asking_bytes(self) -> u64 {
        self.asking() * UNIT
    }

    /// The same, holding more, as far as the field goes. What is being asked for keeps its room, so that it can be moved
    /// over by a plain addition.
    pub(super) const fn more(self, units: u64) -> Self {
        let room = MAX - self.held() - min(self.asking(), MAX - self.held());
        Self::new(self.held() + min(units, room), self.lower())
    }

    /// The same, holding less, and not less than nothing.
    pub(super) const fn less(self, units: u64) -> Self {
        Self::new(self.held().saturating_sub(units), self.lower())
    }
}

/// Units that `bytes` take.
pub(super) const fn units(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT)
}

const fn min(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_never_carry_into_each_other() {
        let word = Word::new(MAX - 3, 2);
        assert_eq!(word.more(u64::MAX), Word::new(MAX - 2, 2));
        assert_eq!(word.less(MAX), Word::new(0, 2));
        assert_eq!(Word::ALONE.more(MAX + 7), Word::new(MAX, MAX));
        // Garbage, whose fields leave each other no room.
        assert_eq!(Word::new(MAX, 7).more(1), Word::new(MAX, 7));
    }

    #[test]
    fn bytes_round_up() {
        assert_eq!((units(0), units(1), units(512), units(513)), (0, 1, 1, 2));
        assert_eq!(units(u64::MAX), 1 << 55);
        assert_eq!(Word::new(3, 4).held_bytes(), 1536);
        assert_eq!(Word::new(3, 4).asking_bytes(), 2048);
        assert_eq!(Word::ALONE.asking_bytes(), 0);
    }
}
