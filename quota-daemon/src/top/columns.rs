//! The columns of the list, and which of them a width has room for.

use super::model::Sort;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// The container's name.
    Name,
    /// The device's index.
    Gpu,
    /// Memory as a bar.
    Bar,
    /// Memory in figures.
    Memory,
    /// The container's own share of GPU time.
    Own,
    /// What it may use now.
    Now,
    /// What it got.
    Got,
    /// Launches that waited, in a second.
    Waits,
    /// Requests for memory that were refused.
    Refused,
    /// Its processes.
    Processes,
    /// Marks, each a letter.
    Marks,
    /// The policy of GPU time.
    Policy,
    /// Memory beyond the ledger.
    Overhead,
    /// The most memory that it held.
    Peak,
    /// How long launches waited, in milliseconds for each second.
    Waited,
    /// Launches in a second.
    Launches,
    /// GPU time in all.
    Used,
    /// Marks in words.
    Notes,
}

use Column as C;

/// From the one that is shown in the narrowest window, with its width.
const BY_RANK: [(Column, u16); 18] = [
    (C::Name, 8),
    (C::Memory, 13),
    (C::Got, 5),
    (C::Refused, 5),
    (C::Marks, 3),
    (C::Gpu, 3),
    (C::Own, 5),
    (C::Bar, 8),
    (C::Waits, 6),
    (C::Now, 5),
    (C::Processes, 5),
    (C::Policy, 15),
    (C::Overhead, 8),
    (C::Waited, 8),
    (C::Launches, 8),
    (C::Peak, 8),
    (C::Used, 11),
    (C::Notes, 20),
];

/// From left to right.
const IN_ORDER: [Column; 18] = [
    C::Name,
    C::Gpu,
    C::Bar,
    C::Memory,
    C::Overhead,
    C::Peak,
    C::Refused,
    C::Policy,
    C::Own,
    C::Now,
    C::Got,
    C::Used,
    C::Launches,
    C::Waits,
    C::Waited,
    C::Processes,
    C::Marks,
    C::Notes,
];

/// The columns for a width, from left to right, each with its own. Between two is one space, and in front of the first
/// are two characters for the pointer and the sign of activity.
pub(super) fn columns(width: u16, longest_name: u16, several_devices: bool) -> Vec<(Column, u16)> {
    let mut room = width.saturating_sub(2);
    let mut chosen = Vec::new();
    for (column, wide) in BY_RANK {
        let wanted = match column {
            C::Gpu => several_devices,
            _ => true,
        };
        let needed = wide + u16::from(!chosen.is_empty());
        if wanted && needed > room {
            break;
        }
        if wanted {
            room -= needed;
            chosen.push((column, wide));
        }
    }
    // Notes say in words what marks say in letters.
    if chosen.iter().any(|(column, _)| *column == C::Notes) {
        chosen.retain(|(column, _)| *column != C::Marks);
        room += 4;
    }
    // What is left over goes to names that need it, then to bars, then to notes.
    for (column, most) in [
        (C::Name, longest_name.clamp(8, 24)),
        (C::Bar, 16),
        (C::Notes, 40),
        (C::Name, longest_name.clamp(8, 63)),
        (C::Bar, 30),
        (C::Notes, u16::MAX),
    ] {
        if let Some((_, wide)) = chosen.iter_mut().find(|(other, _)| *other == column) {
            let more = most.saturating_sub(*wide).min(room);
            *wide += more;
            room -= more;
        }
    }
    let place = |column: &Column| IN_ORDER.iter().position(|other| other == column);
    chosen.sort_by_key(|(column, _)| place(column));
    chosen
}

impl Column {
    /// What stands above it.
    pub(super) fn head(self) -> &'static str {
        match self {
            C::Name => "CONTAINER",
            C::Gpu => "GPU",
            C::Bar => "MEMORY",
            C::Memory => "USED/LIMIT",
            C::Own => "OWN%",
            C::Now => "NOW%",
            C::Got => "GOT%",
            C::Waits => "WAIT/s",
            C::Refused => "REFSD",
            C::Processes => "PROCS",
            C::Marks | C::Notes => "",
            C::Policy => "GPU TIME",
            C::Overhead => "OVERHEAD",
            C::Peak => "PEAK",
            C::Waited => "WAITms/s",
            C::Launches => "LAUNCH/s",
            C::Used => "GPU USED",
        }
    }

    /// What the list can be ordered by with it.
    pub(super) fn sort(self) -> Option<Sort> {
        match self {
            C::Name => Some(Sort::Name),
            C::Memory => Some(Sort::Memory),
            C::Got => Some(Sort::Got),
            C::Waits => Some(Sort::Waits),
            C::Refused => Some(Sort::Refusals),
            C::Processes => Some(Sort::Processes),
            _ => None,
        }
    }

    /// Whether its texts begin at the left.
    pub(super) fn left(self) -> bool {
        matches!(self, C::Name | C::Bar | C::Policy | C::Marks | C::Notes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wider_window_shows_all_that_a_narrower_one_does() {
        let mut before = Vec::new();
        for width in 0..300 {
            let now: Vec<_> = columns(width, 20, true).iter().map(|(c, _)| *c).collect();
            for column in &before {
                let said_in_words = *column == C::Marks && now.contains(&C::Notes);
                assert!(now.contains(column) || said_in_words, "{width}: {column:?}");
            }
            before = now;
        }
        assert_eq!(before.len(), 17);
    }

    #[test]
    fn eighty_columns_have_room_for_all_that_counts() {
        let shown: Vec<_> = columns(80, 16, true).iter().map(|(c, _)| *c).collect();
        let counts = [
            C::Name,
            C::Gpu,
            C::Bar,
            C::Memory,
            C::Refused,
            C::Own,
            C::Now,
            C::Got,
            C::Waits,
            C::Processes,
            C::Marks,
        ];
        assert_eq!(shown, counts);
    }

    proptest! {
        #[test]
        fn columns_fit(width in 0_u16..400, name: u16, several: bool) {
            let columns = columns(width, name, several);
            let sum: u32 = columns.iter().map(|(_, wide)| u32::from(*wide) + 1).sum();
            prop_assert!(columns.is_empty() || sum - 1 + 2 <= u32::from(width));
        }
    }
}
