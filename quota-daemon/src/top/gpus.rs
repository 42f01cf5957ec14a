//! The GPUs: for each a line with a bar of its memory, and where there is room one more in figures.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::bar::bar;
use super::look::Part;
use super::model::Model;
use super::text::{cut, harmless, size, used_of};
use crate::report::{DeviceStatus, Unregistered};

/// What a device's memory is used for.
struct Uses {
    held: u64,
    overhead: u64,
    foreign: u64,
    promised: u64,
}

/// The GPUs in at most so many lines.
pub(super) fn gpus(model: &Model, width: u16, height: usize) -> Vec<Line<'static>> {
    let Some(status) = model.status() else {
        return Vec::new();
    };
    let devices = &status.devices;
    let mut lines = Vec::new();
    // Figures only where every GPU can have them.
    let full: Vec<Vec<Line<'static>>> = devices
        .iter()
        .map(|device| {
            let mut lines = vec![line(model, device, width)];
            lines.extend(figures(model, device, width));
            lines.extend(troubles(model, device, width));
            lines
        })
        .collect();
    if full.iter().map(Vec::len).sum::<usize>() <= height {
        lines.extend(full.into_iter().flatten());
    } else if devices.len() <= height {
        lines.extend(devices.iter().map(|device| line(model, device, width)));
    } else {
        let shown = height.saturating_sub(1);
        let rest = devices.len() - shown;
        lines.extend(devices.iter().take(shown).map(|d| line(model, d, width)));
        if height > 0 {
            lines.push(Line::styled(
                format!("{rest} more GPUs: they need a higher window"),
                model.look.faint(),
            ));
        }
    }
    if devices.is_empty() && height > 0 {
        lines.push(Line::styled("no GPU known", model.look.warning()));
    }
    lines
}

/// How many lines the GPUs take in full.
pub(super) fn height(model: &Model) -> usize {
    let devices = model.status().map(|s| s.devices.as_slice());
    devices
        .unwrap_or_default()
        .iter()
        .map(|device| 2 + troubles(model, device, 80).len())
        .sum::<usize>()
        .max(1)
}

fn uses(model: &Model, device: &DeviceStatus) -> Uses {
    let shares = || {
        let containers = model.status().map(|s| s.containers.as_slice());
        containers
            .unwrap_or_default()
            .iter()
            .flat_map(|container| &container.devices)
            .filter(|share| share.uuid == device.device.uuid)
    };
    let unregistered: u64 = device.unregistered.iter().filter_map(|p| p.bytes).sum();
    let dead: u64 = shares().map(|share| share.memory_dead_bytes).sum();
    let held: u64 = shares().map(|share| share.memory_used_bytes).sum();
    let overhead: u64 = shares().map(|share| share.memory_overhead_bytes).sum();
    let known = unregistered.saturating_add(dead);
    // What NVML counts and nobody is known to hold is someone else's too, the driver's for example.
    let beyond = device.used_bytes.unwrap_or(0);
    let beyond = beyond.saturating_sub(held.saturating_add(overhead));
    Uses {
        held,
        overhead,
        foreign: known.max(beyond),
        promised: device.promised_bytes,
    }
}

/// `0 NVIDIA H100  [####++..   ]  34.2/80.0 GiB   87 %  2 active`
fn line(model: &Model, device: &DeviceStatus, width: u16) -> Line<'static> {
    let look = model.look;
    let name = harmless(&device.device.name);
    let kind = if device.device.mig { "MIG" } else { "GPU" };
    let uses = uses(model, device);
    let all = device.device.memory_bytes;
    let used = device.used_bytes;
    let figures = match used {
        Some(used) => used_of(used, all),
        None => format!("?/{}", size(all)),
    };
    let busy = device
        .utilization_percent
        .map_or_else(|| "   ?%".into(), |percent| format!("{percent:>4}%"));
    let tail = match width {
        0..60 => format!(" {figures} {busy}"),
        60..100 => format!(" {figures:>15} {busy} {:>2} active", device.active),
        _ => format!(" {figures:>15}  {busy} busy  {:>2} active", device.active),
    };
    let wide = usize::from(width);
    let room = wide.saturating_sub(tail.chars().count());
    // Where there is no line for what is wrong, there is a sign at least.
    let wrong = device.trouble.is_some() || !device.unregistered.is_empty();
    let sign = if wrong { '!' } else { ' ' };
    let label = format!("{kind}{:>2}{sign}", device.device.index);
    let names = room.saturating_sub(label.len() + 1).min(match width {
        0..60 => 6,
        60..100 => 22,
        _ => 36,
    });
    let name = cut(&name, names, look.more());
    let head = format!("{label} {name:<names$} ");
    let inner = room.saturating_sub(head.chars().count() + 2);

    let parts = [
        (Part::Held, uses.held),
        (Part::Overhead, uses.overhead),
        (Part::Foreign, uses.foreign),
        (
            Part::Promised,
            uses.promised
                .saturating_sub(uses.held.saturating_add(uses.overhead)),
        ),
    ];
    let style = if wrong { look.alarm() } else { Style::new() };
    let mut spans = vec![Span::styled(head, style)];
    if inner >= 4 {
        spans.push(Span::styled("[", look.faint()));
        let inner = u16::try_from(inner).unwrap_or(u16::MAX);
        spans.extend(bar(look, inner, all, &parts));
        spans.push(Span::styled("]", look.faint()));
    }
    spans.push(Span::raw(tail));
    Line::from(spans)
}

/// `# held 31.2 GiB  + overhead 1.9 GiB  ! other 1.1 GiB  . promised 60.0 GiB`
fn figures(model: &Model, device: &DeviceStatus, width: u16) -> Option<Line<'static>> {
    let look = model.look;
    let uses = uses(model, device);
    let sign = |part| Span::styled(format!("{} ", look.glyph(part)), look.part(part));
    let over = uses.promised > device.device.memory_bytes;
    let mut spans = vec![Span::raw("    ")];
    let figures = [
        (Part::Held, "held", uses.held),
        (Part::Overhead, "overhead", uses.overhead),
        (Part::Foreign, "other", uses.foreign),
        (Part::Promised, "promised", uses.promised),
    ];
    for (part, name, bytes) in figures {
        let text = format!("{name} {}  ", size(bytes));
        let style = if part == Part::Promised && over {
            look.warning()
        } else {
            look.faint()
        };
        spans.push(sign(part));
        spans.push(Span::styled(text, style));
    }
    let line = Line::from(spans);
    (line.width() <= usize::from(width) + 2).then_some(line)
}

/// What is wrong with a device, and who uses it past the library.
fn troubles(model: &Model, device: &DeviceStatus, width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    let mut lines = Vec::new();
    let room = usize::from(width).saturating_sub(4);
    if let Some(trouble) = &device.trouble {
        let text = cut(&harmless(trouble), room, look.more());
        lines.push(Line::styled(format!("    {text}"), look.warning()));
    }
    if !device.unregistered.is_empty() {
        let text: Vec<_> = device.unregistered.iter().map(unregistered).collect();
        let text = format!("unregistered: {}", text.join("; "));
        let text = cut(&harmless(&text), room, look.more());
        lines.push(Line::styled(format!("    {text}"), look.alarm()));
    }
    lines
}

/// `python (4711) 1.1 GiB in team-a, killed`
pub(super) fn unregistered(process: &Unregistered) -> String {
    let mut text = match &process.program {
        Some(program) => format!("{program} ({})", process.pid),
        None => format!("pid {}", process.pid),
    };
    if let Some(bytes) = process.bytes {
        text.push_str(&format!(" {}", size(bytes)));
    }
    if let Some(container) = &process.container {
        text.push_str(&format!(" in {container}"));
    }
    if process.killed {
        text.push_str(", killed");
    }
    text
}
