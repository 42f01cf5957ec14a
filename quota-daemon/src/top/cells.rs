//! What stands in the columns of the list.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use super::bar::bar;
use super::columns::Column;
use super::look::{Look, Part};
use super::model::{Row, in_use};
use super::text::{cut, harmless, number, percent, rate, size, used_of};
use crate::model::Compute;
use crate::units::time;
use Column as C;

impl Column {
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
            (C::Used, Some(share)) => plain(time(share.gpu_time_ns)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies() {
        let share = |weight, cap_ppm| Compute::Share { weight, cap_ppm };
        assert_eq!(policy(Compute::Free), "free");
        assert_eq!(policy(Compute::Limit { ppm: 300_000 }), "limit 30%");
        assert_eq!(policy(Compute::Limit { ppm: 2_500 }), "limit 0.2%");
        assert_eq!(policy(share(5, None)), "weight 5");
        assert_eq!(policy(share(5, Some(600_000))), "weight 5 <60%");
    }
}
