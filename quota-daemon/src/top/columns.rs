//! The columns of the list, and which of them a width has room for.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use super::bar::bar;
use super::look::{Look, Part};
use super::model::{Row, Sort, in_use};
use super::text::{cut, harmless, number, percent, rate, size, used_of};
use crate::model::Compute;

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
    (C::Used, 9),
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

    /// What stands in it.
    pub(super) fn cell(self, look: Look, row: &Row<'_>, width: u16) -> Vec<Span<'static>> {
        let room = usize::from(width);
        let plain = |text: String| vec![Span::raw(text)];
        match (self, row.share) {
            (C::Name, _) if row.first => {
                plain(cut(&harmless(&row.container.name), room, look.more()))
            }
            (C::Name, _) => Vec::new(),
            (C::Processes, _) if row.first => plain(number(row.container.processes.into())),
            (C::Processes, _) => Vec::new(),
            (C::Marks, _) => vec![Span::styled(marks(row), look.alarm())],
            (C::Notes, _) => vec![Span::styled(
                cut(&harmless(&notes(row)), room, look.more()),
                look.warning(),
            )],
            (C::Memory, None) => vec![Span::styled("no device", look.faint())],
            (_, None) => Vec::new(),
            (C::Gpu, _) => plain(
                row.device
                    .map_or_else(|| "?".into(), |device| device.device.index.to_string()),
            ),
            (C::Bar, Some(share)) => memory_bar(look, width, row, share.memory_limit_bytes),
            (C::Memory, Some(share)) => match share.memory_limit_bytes {
                Some(limit) => plain(used_of(in_use(share), limit)),
                None => plain(format!("{}/none", size(in_use(share)))),
            },
            (C::Own, Some(share)) => plain(percent(share.own_percent)),
            (C::Now, Some(share)) => plain(percent(share.now_percent)),
            (C::Got, Some(share)) => vec![Span::styled(
                percent(share.got_percent),
                Style::new().add_modifier(Modifier::BOLD),
            )],
            (C::Waits, Some(_)) => plain(rate(row.rates.waits)),
            (C::Waited, Some(_)) => plain(rate(row.rates.waited * 1e3)),
            (C::Launches, Some(_)) => plain(rate(row.rates.launches)),
            (C::Refused, Some(share)) => {
                let style = if row.rates.refused > 0 {
                    look.alarm()
                } else {
                    Style::new()
                };
                vec![Span::styled(number(share.refusals), style)]
            }
            (C::Policy, Some(share)) => plain(cut(&policy(share.compute), room, look.more())),
            (C::Overhead, Some(share)) => plain(size(share.memory_overhead_bytes)),
            (C::Peak, Some(share)) => plain(size(share.memory_peak_bytes)),
            (C::Used, Some(share)) => plain(seconds(share.gpu_time_ns)),
        }
    }
}

/// The parts of a container's memory: of its limit, or where it has none, of the device.
fn memory_bar(look: Look, width: u16, row: &Row<'_>, limit: Option<u64>) -> Vec<Span<'static>> {
    let Some(share) = row.share else {
        return Vec::new();
    };
    let device = row.device.map(|device| device.device.memory_bytes);
    let Some(all) = limit.or(device) else {
        return Vec::new();
    };
    let parts = [
        (Part::Held, share.memory_used_bytes),
        (Part::Overhead, share.memory_overhead_bytes),
        (Part::Foreign, share.memory_dead_bytes),
    ];
    let inner = width.saturating_sub(2);
    let mut spans = vec![Span::styled("[", look.faint())];
    let mut parts = bar(look, inner, all, &parts);
    // Nearly full is worth a colour of its own.
    if limit.is_some_and(|limit| in_use(share) / 19 >= limit / 20)
        && let Some(first) = parts.first_mut()
        && share.memory_used_bytes > 0
    {
        first.style = look.ink(Color::LightRed);
    }
    spans.append(&mut parts);
    spans.push(Span::styled("]", look.faint()));
    spans
}

/// How GPU time is ruled, in a word or two.
pub(super) fn policy(compute: Compute) -> String {
    let percent = |ppm: u32| {
        let text = format!("{:.1}", f64::from(ppm) / 1e4);
        text.strip_suffix(".0").unwrap_or(&text).to_owned()
    };
    match compute {
        Compute::Free => "free".into(),
        Compute::Limit { ppm } => format!("limit {}%", percent(ppm)),
        Compute::Share {
            weight,
            cap_ppm: None,
        } => format!("weight {weight}"),
        Compute::Share {
            weight,
            cap_ppm: Some(cap),
        } => format!("weight {weight} <{}%", percent(cap)),
    }
}

fn marks(row: &Row<'_>) -> String {
    let signs = [
        (row.first && row.container.damage.is_some(), 'D'),
        (row.unregistered > 0, 'U'),
        (row.share.is_some_and(|share| share.observe), 'o'),
    ];
    let shown = signs.into_iter().filter(|(shown, _)| *shown);
    shown.map(|(_, sign)| sign).collect()
}

fn notes(row: &Row<'_>) -> String {
    let mut notes = Vec::new();
    if let (true, Some(damage)) = (row.first, &row.container.damage) {
        notes.push(format!("damage: {damage}"));
    }
    if row.unregistered > 0 {
        notes.push(format!("{} unregistered", row.unregistered));
    }
    if let Some(share) = row.share {
        if share.observe {
            notes.push("observes only".into());
        }
        if share.memory_dead_bytes > 0 {
            notes.push(format!("{} by the dead", size(share.memory_dead_bytes)));
        }
        if share.priority != 0 {
            notes.push(format!("priority {}", share.priority));
        }
    }
    notes.join(", ")
}

/// GPU time used, in seconds, or longer units.
fn seconds(nanos: u64) -> String {
    super::text::time(std::time::Duration::from_nanos(nanos))
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

    #[test]
    fn policies() {
        let share = |weight, cap_ppm| Compute::Share { weight, cap_ppm };
        assert_eq!(policy(Compute::Free), "free");
        assert_eq!(policy(Compute::Limit { ppm: 300_000 }), "limit 30%");
        assert_eq!(policy(Compute::Limit { ppm: 2_500 }), "limit 0.2%");
        assert_eq!(policy(share(5, None)), "weight 5");
        assert_eq!(policy(share(5, Some(600_000))), "weight 5 <60%");
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
