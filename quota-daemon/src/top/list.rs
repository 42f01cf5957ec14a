//! The list of containers.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::columns::{Column, columns};
use super::model::{Model, Row};

/// The list in so many lines, its head among them. Where there are more containers, those around the selected one.
pub(super) fn list(model: &Model, width: u16, height: usize) -> Vec<Line<'static>> {
    let rows = model.rows();
    let longest = rows
        .iter()
        .map(|row| row.container.name.chars().count())
        .max();
    let longest = u16::try_from(longest.unwrap_or(0)).unwrap_or(u16::MAX);
    let several = model.status().is_some_and(|s| s.devices.len() > 1);
    let columns = columns(width, longest, several);

    let room = height.saturating_sub(1);
    let selected = model
        .selection()
        .map(|container| container.name.clone())
        .unwrap_or_default();
    let above = above(&rows, &selected, room);

    let mut lines = vec![head(model, &columns, width)];
    let shown = rows.iter().enumerate().skip(above).take(room);
    for (place, row) in shown {
        // Whoever comes in the middle of a container sees its name.
        let row = &Row {
            first: row.first || place == above,
            ..*row
        };
        lines.push(line(model, &columns, row, row.container.name == selected));
    }
    if rows.is_empty() && model.status().is_some() {
        lines.push(Line::styled(
            "  no container yet: declare one in the configuration, or `quota-daemon set NAME --create ...`",
            model.look.faint(),
        ));
    }
    lines.truncate(height);
    lines
}

/// How many lines are above what is shown.
fn above(rows: &[Row<'_>], selected: &str, room: usize) -> usize {
    let at = rows.iter().position(|row| row.container.name == selected);
    at.unwrap_or(0)
        .saturating_sub(room / 2)
        .min(rows.len().saturating_sub(room))
}

/// Which lines are shown, where it is not all of them.
pub(super) fn part(model: &Model, height: usize) -> Option<String> {
    let rows = model.rows();
    let room = height.saturating_sub(1);
    let above = above(&rows, &model.selection()?.name, room);
    (rows.len() > room).then(|| format!("{}-{} of {}", above + 1, above + room, rows.len()))
}

/// How many lines the whole list takes.
pub(super) fn height(model: &Model) -> usize {
    1 + model.rows().len().max(1)
}

fn head(model: &Model, columns: &[(Column, u16)], width: u16) -> Line<'static> {
    let mut text = String::from(" ");
    for (column, wide) in columns {
        let mut name = column.head().to_owned();
        if column.sort() == Some(model.sort) {
            name.push(model.look.order(model.reversed));
        }
        // The sign of the order may stand in the space between columns.
        let wide = usize::from(*wide) + 1;
        if column.left() {
            text.push_str(&format!(" {name:<room$}", room = wide - 1));
        } else {
            text.push_str(&format!("{name:>wide$}"));
        }
    }
    let text = format!("{text:<wide$}", wide = usize::from(width));
    Line::styled(text, Style::new().add_modifier(Modifier::REVERSED))
}

fn line(model: &Model, columns: &[(Column, u16)], row: &Row<'_>, selected: bool) -> Line<'static> {
    let look = model.look;
    let pointer = if selected { look.pointer() } else { ' ' };
    let active = row.share.is_some_and(|share| share.active);
    let sign = if active { look.active() } else { ' ' };
    let mut spans = vec![Span::raw(format!("{pointer}{sign}"))];
    for (place, (column, wide)) in columns.iter().enumerate() {
        if place > 0 {
            spans.push(Span::raw(" "));
        }
        let mut cell = column.cell(look, row, *wide);
        let filled: usize = cell.iter().map(Span::width).sum();
        let blank = Span::raw(" ".repeat(usize::from(*wide).saturating_sub(filled)));
        if column.left() {
            spans.append(&mut cell);
            spans.push(blank);
        } else {
            spans.push(blank);
            spans.append(&mut cell);
        }
    }
    let style = if selected {
        Style::new().add_modifier(Modifier::BOLD)
    } else {
        Style::new()
    };
    Line::from(spans).style(style)
}
