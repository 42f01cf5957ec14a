//! What one process has of one device, in one word: what it holds and what it asks for, readable at one instant.
//!
//! Both count units of 512 bytes, the driver's own step: held in 32 bits, 2 TiB for one process on one device; asked for in 30
//! bits, 512 GiB at a time. A field never carries into the other: what would overflow is not asked for (see
//! [`super::Ledger::reserve`]), and what has happened without being asked for stops at the top.
//!
//! The two bits between them count how often what was asked for has been taken away by somebody else, so that who had asked
//! finds out.

/// Bytes of a unit. Charges are multiples of it; anything else is rounded up, and a limit down.
pub const UNIT: u64 = 512;

/// The most that can be held.
pub(super) const MOST_HELD: u64 = u32::MAX as u64;
/// The field of what is asked for; full, it is the mark of who is alone.
pub(super) const ASKING: u64 = (1 << ASKING_BITS) - 1;
const ASKING_BITS: u32 = 30;
const HELD_SHIFT: u32 = 32;
/// One in the count of what was taken away.
const TAKEN: u64 = 1 << ASKING_BITS;
const TAKEN_MASK: u64 = 3 << ASKING_BITS;

/// A copy of a process's word.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Word(pub(super) u64);

impl Word {
    /// Nothing held, and nobody else in the group: the holder asks nobody.
    pub(super) const ALONE: Self = Self(ASKING);

    /// Units held.
    pub(super) const fn held(self) -> u64 {
        self.0 >> HELD_SHIFT
    }

    /// The lower field as it is: units asked for, or the mark of who is alone.
    pub(super) const fn lower(self) -> u64 {
        self.0 & ASKING
    }

    /// Units asked for.
    pub(super) const fn asking(self) -> u64 {
        if self.is_alone() { 0 } else { self.lower() }
    }

    /// Whether its process need not ask anybody.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        self.lower() == ASKING
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
        let room = MOST_HELD - self.held();
        let room = room - min(self.asking(), room);
        Self(self.0 + (min(units, room) << HELD_SHIFT))
    }

    /// The same, holding less, and not less than nothing.
    pub(super) const fn less(self, units: u64) -> Self {
        Self(self.0 - (min(units, self.held()) << HELD_SHIFT))
    }

    /// The same, asking for more; `None` if the field has no room, or what is held would have none for it.
    pub(super) const fn asked(self, units: u64) -> Option<Self> {
        let asking = self.lower() + units;
        if asking >= ASKING || self.held() + asking > MOST_HELD {
            return None;
        }
        Some(Self(self.0 + units))
    }

    /// The same, with what was asked for when it looked like `then` held now, or not asked for any more; `None` if it has been
    /// taken away.
    pub(super) const fn answered(self, then: Self, units: u64, admitted: bool) -> Option<Self> {
        if (self.0 ^ then.0) & TAKEN_MASK != 0 || self.asking() < units {
            return None;
        }
        let held = if admitted { units } else { 0 };
        Some(Self(self.0 - units + (held << HELD_SHIFT)))
    }

    /// The same, asking for nothing, and showing that this was somebody else's doing.
    pub(super) const fn taken_away(self) -> Self {
        let taken = (self.0 + TAKEN) & TAKEN_MASK;
        Self(self.held() << HELD_SHIFT | taken)
    }

    /// The same, alone no longer.
    pub(super) const fn joined(self) -> Self {
        Self(self.0 & !ASKING)
    }
}

/// Units that `bytes` take.
pub(super) const fn units(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT)
}

const fn min(one: u64, other: u64) -> u64 {
    if one < other { one } else { other }
}

#[cfg(test)]
impl Word {
    pub(super) const fn new(held: u64, asking: u64) -> Self {
        Self(held << HELD_SHIFT | asking & ASKING)
    }

    /// Without the count of what was taken away.
    pub(super) const fn uncounted(self) -> Self {
        Self(self.0 & !TAKEN_MASK)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fields_never_carry_into_each_other() {
        let word = Word::new(MOST_HELD - 3, 2);
        assert_eq!(word.more(u64::MAX), Word::new(MOST_HELD - 2, 2));
        assert_eq!(word.less(MOST_HELD), Word::new(0, 2));
        assert_eq!(word.asked(2), None);
        assert_eq!(word.asked(1), Some(Word::new(MOST_HELD - 3, 3)));
        assert_eq!(Word::ALONE.more(u64::MAX), Word::new(MOST_HELD, ASKING));
        assert_eq!(Word::new(0, 5).asked(ASKING - 5), None);
        assert_eq!(
            Word::new(0, 5).asked(ASKING - 6),
            Some(Word::new(0, ASKING - 1))
        );
        // Garbage, whose fields leave each other no room.
        assert_eq!(Word::new(MOST_HELD, 7).more(1), Word::new(MOST_HELD, 7));
        assert_eq!(Word::new(MOST_HELD, 7).less(1), Word::new(MOST_HELD - 1, 7));
    }

    #[test]
    fn what_was_taken_away_is_noticed_also_when_another_asks() {
        let then = Word::new(3, 4);
        assert_eq!(then.answered(then, 4, true), Some(Word::new(7, 0)));
        assert_eq!(then.answered(then, 4, false), Some(Word::new(3, 0)));
        let mut word = then;
        for _ in 0..3 {
            word = word.taken_away();
            assert_eq!(word.uncounted(), Word::new(3, 0));
            let other = word.asked(9).unwrap();
            assert_eq!(other.answered(then, 4, true), None);
            assert_eq!(other.answered(other, 9, true).unwrap().held(), 12);
        }
        assert_eq!(word.taken_away(), Word::new(3, 0), "counted in two bits");
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
