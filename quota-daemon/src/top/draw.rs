//! The screen: a pure function of the model and the window's size.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::model::{Model, Page};
use super::text::{SECOND, cut, harmless};
use super::{detail, gpus, help, list};
use crate::units::time;

/// Draws everything.
pub(super) fn draw(model: &Model, area: Rect, buffer: &mut Buffer) {
    let lines = lines(model, area.width, area.height);
    for (line, y) in lines.iter().zip(area.y..area.bottom()) {
        buffer.set_line(area.x, y, line, area.width);
    }
}

/// How many lines show everything.
#[must_use]
pub(super) fn full_height(model: &Model) -> u16 {
    let head = 2 + model
        .status()
        .map_or(1, |status| status.daemon.warnings.len());
    let height = head + gpus::height(model) + list::height(model);
    u16::try_from(height).unwrap_or(u16::MAX)
}

/// The screen as text, without what only a terminal understands, and without blanks at the ends of lines.
#[must_use]
pub(super) fn text(model: &Model, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(model, area, &mut buffer);
    let mut text = String::new();
    for y in 0..height {
        let row: String = (0..width)
            .filter_map(|x| buffer.cell((x, y)))
            .map(|cell| cell.symbol())
            .collect();
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

fn lines(model: &Model, width: u16, height: u16) -> Vec<Line<'static>> {
    let height = usize::from(height);
    let mut lines = vec![title(model, width)];
    lines.extend(warnings(model, width, height / 5));
    // The last line says which keys there are.
    let room = height.saturating_sub(lines.len() + 1);
    let (mut body, part) = match (model.help, model.page) {
        (true, _) => (help::lines(model), None),
        (_, Page::List) => overview(model, width, room),
        (_, Page::Container) => page(model, width, room),
    };
    body.resize(room, Line::default());
    lines.append(&mut body);
    lines.push(foot(model, width, part.as_deref()));
    // In a window of one line the title is worth more than the foot.
    lines.truncate(height);
    lines
}

/// The furthest that the container's page can be scrolled in a window of this size.
pub(super) fn most_scroll(model: &Model, width: u16, height: u16) -> usize {
    let around = 2 + warnings(model, width, usize::from(height) / 5).len();
    let room = usize::from(height).saturating_sub(around);
    detail::lines(model, width).len().saturating_sub(room)
}

/// What fits of the container's page, and which part that is.
fn page(model: &Model, width: u16, room: usize) -> (Vec<Line<'static>>, Option<String>) {
    let page = detail::lines(model, width);
    let long = page.len();
    let above = model.scroll.min(long.saturating_sub(room));
    let part = (long > room).then(|| format!("{}-{} of {long}", above + 1, above + room));
    (page.into_iter().skip(above).collect(), part)
}

/// The GPUs, and below them the containers, and which of these.
fn overview(model: &Model, width: u16, room: usize) -> (Vec<Line<'static>>, Option<String>) {
    if model.status().is_none() {
        let text = match &model.trouble {
            None => format!("  asking {} ...", model.socket),
            Some(_) => String::new(),
        };
        return (vec![Line::styled(text, model.look.faint())], None);
    }
    // GPUs get a third, and what containers do not need.
    let needed = list::height(model);
    let gpus_room = (room / 3).max(room.saturating_sub(needed));
    let mut lines = gpus::gpus(model, width, gpus_room);
    let left = room.saturating_sub(lines.len());
    lines.extend(list::list(model, width, left));
    (lines, list::part(model, left))
}

/// `quota-daemon 0.1.0 up 3 d 2 h: 2 GPUs, 3 containers, 7 processes        every 1 s`
fn title(model: &Model, width: u16) -> Line<'static> {
    let count = crate::output::count::<usize>;
    let mut text = String::from("quota-daemon");
    if let (Some(status), Some(sample)) = (model.status(), &model.last) {
        let up = sample.unix.saturating_sub(status.daemon.started_at);
        let processes: u32 = status.containers.iter().map(|c| c.processes).sum();
        if width >= 60 {
            text.push_str(&format!(
                " {}, up {}",
                harmless(&status.daemon.version),
                time(up.saturating_mul(SECOND))
            ));
        }
        text.push_str(&format!(
            ": {}, {}, {}",
            count(status.devices.len(), "GPU", "GPUs"),
            count(status.containers.len(), "container", "containers"),
            crate::output::count(processes, "process", "processes"),
        ));
    }
    let text = cut(&text, usize::from(width), model.look.more());
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

/// What does not work: the daemon's silence first, then what it says of itself.
fn warnings(model: &Model, width: u16, most: usize) -> Vec<Line<'static>> {
    let look = model.look;
    let mut lines = Vec::new();
    if let Some(trouble) = &model.trouble {
        // This is worth several lines, where it is all that there is to say.
        let alone = model.status().is_none();
        let text = harmless(trouble);
        let every = time(nanos(model.interval));
        if alone {
            let wrapped = wrap(&text, usize::from(width));
            lines.extend(wrapped.into_iter().map(|t| Line::styled(t, look.alarm())));
            lines.push(Line::raw(format!("Trying again every {every}; q quits.")));
            return lines;
        }
        let old = model.last.as_ref().map(|l| model.now.saturating_sub(l.at));
        let text = format!("{} old, for {text}", time(nanos(old.unwrap_or_default())));
        lines.push(Line::styled(
            cut(&text, usize::from(width), look.more()),
            look.alarm(),
        ));
    }
    let warnings = model.status().map(|s| s.daemon.warnings.as_slice());
    for warning in warnings.unwrap_or_default() {
        let text = cut(&harmless(warning), usize::from(width), look.more());
        lines.push(Line::styled(text, look.warning()));
    }
    lines.truncate(most.max(1));
    lines
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A text in lines of this width, broken between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The keys, and at the right which part is shown.
fn foot(model: &Model, width: u16, part: Option<&str>) -> Line<'static> {
    let keys: &[(&str, &str)] = match (model.help, model.page) {
        (true, _) => &[("any key", "back"), ("q", "quit")],
        (_, Page::List) => &[
            ("q", "quit"),
            ("?", "help"),
            ("enter", "why"),
            ("nmtwrp", "order"),
        ],
        (_, Page::Container) => &[
            ("esc", "back"),
            ("up/down", "scroll"),
            ("?", "help"),
            ("q", "quit"),
        ],
    };
    let mut spans = Vec::new();
    let part = part.unwrap_or_default();
    let mut room = usize::from(width).saturating_sub(part.len());
    for (key, deed) in keys {
        let long = key.len() + deed.len() + 3;
        if long > room {
            break;
        }
        room -= long;
        spans.push(Span::styled(
            (*key).to_owned(),
            Style::new().add_modifier(Modifier::BOLD),
        ));
        spans.push(Span::styled(format!(" {deed}  "), model.look.faint()));
    }
    spans.push(Span::raw(format!(
        "{part:>wide$}",
        wide = room + part.len()
    )));
    Line::from(spans)
}
