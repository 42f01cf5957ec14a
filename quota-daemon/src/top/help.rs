//! What keys, columns and signs mean.

use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::look::Part;
use super::model::Model;

/// The page, what is needed first coming first.
pub(super) fn lines(model: &Model) -> Vec<Line<'static>> {
    let look = model.look;
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::styled("Keys", bold)];
    let keys = [
        ("up, down, page, home, end", "select a container"),
        ("enter", "its processes, refusals and waits; esc: back"),
        (
            "n m t w r p",
            "order by name, memory, GPU time, waits, refusals,",
        ),
        ("", "processes; the same key again: the other way round"),
        ("space; q", "ask the daemon now; quit"),
    ];
    lines.extend(keys.map(|(key, deed)| Line::raw(format!("  {key:<26} {deed}"))));
    lines.push(Line::styled("Memory", bold));
    let parts = [
        (Part::Held, "held by containers, by their ledgers"),
        (
            Part::Overhead,
            "beyond that, by NVML: contexts, modules, rounding",
        ),
        (
            Part::Foreign,
            "held by others: unregistered processes, and the dead",
        ),
        (Part::Promised, "promised to containers, and not used"),
    ];
    lines.extend(parts.map(|(part, text)| Line::raw(format!("  {}  {text}", look.glyph(part)))));
    lines.push(Line::styled("Columns and signs", bold));
    let columns = [
        (
            "OWN%",
            "GPU time: its limit, or what its weight guarantees it",
        ),
        ("NOW%", "what it may use now, loans included"),
        ("GOT%", "what it used over the last second"),
        (
            "WAIT/s",
            "launches that had to wait; WAITms/s: how long, over all threads",
        ),
        ("REFSD", "requests for memory that were refused, in all"),
    ];
    lines.extend(columns.map(|(name, text)| Line::raw(format!("  {name:<9} {text}"))));
    lines.push(Line::raw(format!(
        "  {}         has work on the GPU",
        look.active()
    )));
    let signs = [
        ("!", "of a GPU: NVML fails, or it is used past the library"),
        ("D", "it has damaged its shared memory (see its page)"),
        ("U", "processes of its cgroup use the GPU past the library"),
        ("o", "observes only: nothing is refused or delayed"),
    ];
    lines.extend(signs.map(|(sign, text)| Line::raw(format!("  {sign:<9} {text}"))));
    lines
}
