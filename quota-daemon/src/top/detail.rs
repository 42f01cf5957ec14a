//! The page of one container: what it has of each device, its processes, and why it was refused memory or had to wait.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::bar::bar;
use super::cells::policy;
use super::fold::fold;
use super::look::Part;
use super::model::{Model, Row, in_use};
use super::text::{SECOND, cut, harmless, number, percent, rate, used_of};
use crate::model::{Origin, Uuid};
use crate::report::{Container, Process};
use crate::units::{size, time};
use crate::why::{refusal, wait};

/// The page, however long it is.
pub(super) fn lines(model: &Model, width: u16) -> Vec<Line<'static>> {
    let Some(container) = model.selection() else {
        return vec![Line::raw("this container is gone")];
    };
    let mut lines = about(model, container, width);
    for row in model.rows_of(container) {
        lines.extend(device(model, &row, width));
    }
    match &model.detail {
        Some(detail) if detail.container == container.name => match &detail.answer {
            Ok((processes, why)) => {
                lines.push(title(model, "PROCESSES", processes.len()));
                lines.extend(processes.iter().flat_map(|p| process(model, p)));
                lines.push(title(model, "LAST REFUSALS", why.refusals.len()));
                lines.extend(
                    why.refusals
                        .iter()
                        .map(|r| event(model, (r.ago_ns, r.pid_inside, r.uuid), &refusal(r))),
                );
                lines.push(title(model, "LAST WAITS", why.waits.len()));
                lines.extend(
                    why.waits
                        .iter()
                        .map(|w| event(model, (w.ago_ns, w.pid_inside, w.uuid), &wait(w))),
                );
            }
            Err(text) => lines.push(Line::styled(harmless(text), model.look.alarm())),
        },
        _ => lines.push(Line::styled("asking ...", model.look.faint())),
    }
    lines
        .iter()
        .flat_map(|line| fold(line, usize::from(width)))
        .collect()
}

fn title(model: &Model, text: &str, number: usize) -> Line<'static> {
    let none = if number == 0 { "  none" } else { "" };
    Line::from(vec![
        Span::styled(text.to_owned(), Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(none, model.look.faint()),
    ])
}

fn about(model: &Model, container: &Container, width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    let origin = match container.origin {
        Origin::Config => "of the configuration",
        Origin::Api => "made by a command",
        Origin::Run => "made by `run`",
        Origin::Default => "made by the default rule",
    };
    let mut lines = vec![Line::from(vec![
        Span::styled(
            harmless(&container.name),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Span::raw(format!(
            "  {origin}, {}",
            crate::output::count(container.processes, "process", "processes")
        )),
    ])];
    let socket = cut(
        &harmless(&container.socket),
        usize::from(width).saturating_sub(2),
        look.more(),
    );
    lines.push(Line::styled(format!("  {socket}"), look.faint()));
    if let Some(damage) = &container.damage {
        lines.push(Line::styled(
            format!("  damage: {}", harmless(damage)),
            look.alarm(),
        ));
    }
    lines
}

/// What the container has of one device, in three lines or four.
fn device(model: &Model, row: &Row<'_>, width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    let Some(share) = row.share else {
        return vec![Line::raw("  It may use no device.")];
    };
    let name = row
        .device
        .map_or_else(String::new, |d| harmless(&d.device.name));
    let mut lines = vec![Line::from(vec![
        Span::styled(
            gpu(model, Some(share.uuid)),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Span::raw(format!("  {name}  ")),
        Span::styled(share.uuid.to_string(), look.faint()),
    ])];

    let all = share
        .memory_limit_bytes
        .or(row.device.map(|d| d.device.memory_bytes));
    let mut spans = vec![Span::raw("  memory   ")];
    if let (Some(all), true) = (all, width >= 60) {
        let parts = [
            (Part::Held, share.memory_used_bytes),
            (Part::Overhead, share.memory_overhead_bytes),
            (Part::Foreign, share.memory_dead_bytes),
        ];
        spans.push(Span::raw("["));
        spans.extend(bar(look, 12, all, &parts));
        spans.push(Span::raw("] "));
    }
    spans.push(Span::raw(match share.memory_limit_bytes {
        Some(limit) => used_of(in_use(share), limit),
        None => format!("{}, no limit", size(in_use(share))),
    }));
    spans.push(Span::raw(format!(
        ": {} held, {} overhead, peak {}",
        size(share.memory_used_bytes),
        size(share.memory_overhead_bytes),
        size(share.memory_peak_bytes),
    )));
    lines.push(Line::from(spans));
    let mut words = vec![format!("{} refused", number(share.refusals))];
    if share.memory_dead_bytes > 0 {
        words.push(format!(
            "{} held by dead processes",
            size(share.memory_dead_bytes)
        ));
    }
    if row.unregistered > 0 {
        words.push(format!("{} unregistered in its cgroup", row.unregistered));
    }
    if share.observe {
        words.push("observes only: nothing is refused or delayed".into());
    }
    lines.push(Line::raw(format!("           {}", words.join(", "))));
    lines.push(Line::raw(format!(
        "  GPU time {}, priority {}: own {} %, now {} %, got {} %",
        policy(share.compute),
        share.priority,
        percent(share.own_percent),
        percent(share.now_percent),
        percent(share.got_percent),
    )));
    lines.push(Line::raw(format!(
        "           {} launches/s, {} waits/s, {:.0} ms/s waited; in all {} used, {} waits of {}",
        rate(row.rates.launches),
        rate(row.rates.waits),
        row.rates.waited * 1e3,
        time(share.gpu_time_ns),
        number(share.waits),
        time(share.waited_ns),
    )));
    lines
}

/// `  4711 (12 inside)  python  user 1000  for 3 min  GPU 0: 3.1 GiB (3.5 by NVML)`
fn process(model: &Model, process: &Process) -> Vec<Line<'static>> {
    let unix = model.last.as_ref().map_or(0, |sample| sample.unix);
    let since = unix.saturating_sub(process.since).saturating_mul(SECOND);
    let head = format!(
        "  {:>7} (inside {})  {}  uid {}  for {}",
        process.pid,
        process.pid_inside,
        cut(&harmless(&process.program), 16, model.look.more()),
        process.uid,
        time(since),
    );
    let memory: Vec<_> = process
        .memory
        .iter()
        .map(|held| {
            let nvml = held
                .nvml_bytes
                .map(|bytes| format!(" ({} by NVML)", size(bytes)));
            format!(
                "{} {}{}",
                gpu(model, Some(held.uuid)),
                size(held.ledger_bytes),
                nvml.unwrap_or_default()
            )
        })
        .collect();
    match memory.as_slice() {
        [] => vec![Line::raw(head)],
        [one] => vec![Line::raw(format!("{head}  {one}"))],
        more => std::iter::once(Line::raw(head))
            .chain(more.iter().map(|m| Line::raw(format!("            {m}"))))
            .collect(),
    }
}

/// `  3 s ago  pid 12  GPU 0  asked 1 GiB, ...`
fn event(model: &Model, (ago, pid, uuid): (u64, u32, Option<Uuid>), text: &str) -> Line<'static> {
    Line::raw(format!(
        "  {} ago  pid {pid}  {}  {text}",
        time(ago),
        gpu(model, uuid)
    ))
}

/// A device by the index that the list shows.
fn gpu(model: &Model, uuid: Option<Uuid>) -> String {
    let devices = model.status().map(|status| status.devices.as_slice());
    let found = devices
        .unwrap_or_default()
        .iter()
        .find(|device| Some(device.device.uuid) == uuid);
    match (found, uuid) {
        (Some(status), _) => format!("GPU {}", status.device.index),
        (None, Some(uuid)) => uuid.to_string(),
        (None, None) => "GPU ?".into(),
    }
}
