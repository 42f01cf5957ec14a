//! `quota-daemon status`: devices, containers, and what is wrong.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::api::Request;
use crate::client::Where;
use crate::exit::Stop;
use crate::model::{Compute, Device, Origin, Uuid};
use crate::output::{json, print};
use crate::report::{Container, Daemon, DeviceStatus, Share, Status, Unregistered};
use crate::table::{Cell, Screen, Table, Tone, clean, numbers, words};
use crate::units::{percent, ppm, size, time};

/// Which daemon, and how.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Where,
}

/// Asks the daemon and prints what it says.
///
/// # Errors
/// There is no daemon.
pub fn run(args: &Args) -> Result<(), Stop> {
    let status: Status = args.place.ask(&Request::Status)?;
    if args.json {
        return Ok(json(&status)?);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    Ok(print(&text(&status, now, Screen::stdout()))?)
}

/// Everything for people; `now` is Unix time in seconds.
fn text(status: &Status, now: u64, screen: Screen) -> String {
    let mut text = daemon(&status.daemon, now, screen);
    text.push('\n');
    if status.devices.is_empty() {
        text.push_str("no GPU is known\n");
    } else {
        text.push_str(&devices(status).show(screen));
    }
    text.push('\n');
    if status.containers.is_empty() {
        text.push_str("no container is declared\n");
    } else {
        text.push_str(&containers(&status.containers, status).show(screen));
    }
    let troubles = troubles(status);
    if !troubles.is_empty() {
        text.push('\n');
    }
    for (tone, line) in troubles {
        text.push_str(&screen.tone(&line, tone));
        text.push('\n');
    }
    text
}

fn daemon(daemon: &Daemon, now: u64, screen: Screen) -> String {
    let up = now.saturating_sub(daemon.started_at);
    let mut text = format!(
        "quota-daemon {}, pid {}, up {}, {}\n",
        daemon.version,
        daemon.pid,
        time(up.saturating_mul(1_000_000_000)),
        daemon.state
    );
    for warning in &daemon.warnings {
        text.push_str(&screen.tone(&format!("warning: {}", clean(warning)), Tone::Warn));
        text.push('\n');
    }
    text
}

fn devices(status: &Status) -> Table {
    let mut table = Table::new([
        words("GPU"),
        words("NAME").spare(2),
        numbers("USED"),
        numbers("OF"),
        numbers("PROMISED"),
        numbers("BUSY"),
        numbers("ACTIVE"),
        words("UUID").spare(3),
    ]);
    for DeviceStatus {
        device,
        promised_bytes,
        used_bytes,
        utilization_percent,
        active,
        ..
    } in &status.devices
    {
        let promised = Cell::from(size(*promised_bytes));
        let over = *promised_bytes > device.memory_bytes;
        table.row([
            label_of(device).into(),
            (&device.name).into(),
            used_bytes.map_or("?".into(), size).into(),
            size(device.memory_bytes).into(),
            promised.tone(if over { Tone::Warn } else { Tone::Plain }),
            utilization_percent
                .map_or("?".into(), |percent| format!("{percent} %"))
                .into(),
            active.to_string().into(),
            device.uuid.to_string().into(),
        ]);
    }
    table
}

/// A row for each container and device of it.
pub fn containers(containers: &[Container], status: &Status) -> Table {
    let mut table = Table::new([
        words("CONTAINER"),
        numbers("PROC"),
        words("GPU"),
        numbers("USED"),
        numbers("LIMIT"),
        numbers("OVERHEAD").spare(3),
        numbers("REFUSED").spare(2),
        words("TIME"),
        numbers("NOW").spare(1),
        numbers("GOT"),
        numbers("WAITED").spare(4),
        words("NOTE").spare(5),
    ]);
    for container in containers {
        let mut name = Cell::from(&container.name);
        let mut processes = Cell::from(container.processes.to_string());
        if container.devices.is_empty() {
            let mut row = vec![name, processes, "-".into()];
            row.resize(12, Cell::default());
            table.row(row);
            continue;
        }
        let mut origin = Some(container.origin);
        for share in &container.devices {
            let row = row(share, label(status, share.uuid), origin.take());
            table.row(
                [
                    &[std::mem::take(&mut name), std::mem::take(&mut processes)],
                    &row[..],
                ]
                .concat(),
            );
        }
    }
    table
}

fn row(share: &Share, device: String, origin: Option<Origin>) -> [Cell; 10] {
    let full = share
        .memory_limit_bytes
        .is_some_and(|limit| share.memory_used_bytes + share.memory_overhead_bytes >= limit);
    let used = Cell::from(size(share.memory_used_bytes));
    let refused = Cell::from(share.refusals.to_string());
    let (own, got) = (share.own_percent, share.got_percent);
    [
        device.into(),
        used.tone(if full { Tone::Warn } else { Tone::Plain }),
        share.memory_limit_bytes.map_or("none".into(), size).into(),
        size(share.memory_overhead_bytes).into(),
        refused.tone(if share.refusals > 0 {
            Tone::Warn
        } else {
            Tone::Plain
        }),
        compute(&share.compute, own).into(),
        share.now_percent.map_or("-".into(), percent).into(),
        got.map_or("-".into(), percent).into(),
        time(share.waited_ns).into(),
        note(share, origin).into(),
    ]
}

/// How GPU time is ruled, in a few words.
#[must_use]
pub fn compute(compute: &Compute, own: Option<f64>) -> String {
    match compute {
        Compute::Free => "free".into(),
        Compute::Limit { ppm: limit } => ppm(*limit),
        Compute::Share { weight, cap_ppm } => {
            let own = own.map_or_else(String::new, |own| format!(", {}", percent(own)));
            let cap = cap_ppm.map_or_else(String::new, |cap| format!(", at most {}", ppm(cap)));
            format!("weight {weight}{own}{cap}")
        }
    }
}

fn note(share: &Share, origin: Option<Origin>) -> String {
    let mut notes = Vec::new();
    match origin {
        None | Some(Origin::Config) => {}
        Some(Origin::Api) => notes.push("by set".to_owned()),
        Some(Origin::Run) => notes.push("by run".to_owned()),
        Some(Origin::Default) => notes.push("by [default]".to_owned()),
    }
    if share.observe {
        notes.push("observed only".to_owned());
    }
    if share.priority != 0 {
        notes.push(format!("priority {}", share.priority));
    }
    if share.memory_dead_bytes > 0 {
        notes.push(format!(
            "{} held by the dead",
            size(share.memory_dead_bytes)
        ));
    }
    notes.join(", ")
}

/// What a person should look at, below the tables.
fn troubles(status: &Status) -> Vec<(Tone, String)> {
    let mut lines = Vec::new();
    for one in &status.devices {
        let label = label_of(&one.device);
        if let Some(trouble) = &one.trouble {
            lines.push((Tone::Warn, format!("GPU {label}: {}", clean(trouble))));
        }
        for process in &one.unregistered {
            lines.push((Tone::Bad, format!("GPU {label}: {}", unregistered(process))));
        }
    }
    for container in &status.containers {
        if let Some(damage) = &container.damage {
            let text = format!("container {}: {}", container.name, clean(damage));
            lines.push((Tone::Bad, text));
        }
    }
    lines
}

fn unregistered(process: &Unregistered) -> String {
    let program = process.program.as_deref().map(clean);
    let program = program.map_or_else(String::new, |program| format!(" ({program})"));
    let holds = match process.bytes {
        Some(bytes) => format!("holds {}", size(bytes)),
        None => "uses it".into(),
    };
    let container = match &process.container {
        Some(name) => format!(", in container {name}"),
        None => String::new(),
    };
    let killed = if process.killed {
        "; it was killed"
    } else {
        ""
    };
    format!(
        "process {}{program}{container} {holds} and is not registered{killed}",
        process.pid
    )
}

/// A device in a few characters: its index, and of a MIG instance the beginning of its UUID.
#[must_use]
pub fn label(status: &Status, uuid: Uuid) -> String {
    let found = status.devices.iter().find(|one| one.device.uuid == uuid);
    found.map_or_else(|| short(uuid), |one| label_of(&one.device))
}

fn label_of(device: &Device) -> String {
    if device.mig {
        format!("{}/{}", device.index, short(device.uuid))
    } else {
        device.index.to_string()
    }
}

fn short(uuid: Uuid) -> String {
    uuid.to_string().chars().skip(4).take(8).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn share(uuid: Uuid) -> Share {
        Share {
            uuid,
            memory_limit_bytes: Some(4 << 30),
            memory_used_bytes: 1 << 30,
            memory_overhead_bytes: 200 << 20,
            memory_dead_bytes: 0,
            memory_peak_bytes: 2 << 30,
            refusals: 3,
            compute: Compute::Share {
                weight: 5,
                cap_ppm: Some(500_000),
            },
            observe: false,
            priority: 0,
            own_percent: Some(25.0),
            now_percent: Some(50.0),
            got_percent: Some(49.96),
            active: true,
            gpu_time_ns: 1,
            waited_ns: 1_500_000_000,
            waits: 2,
            launches: 3,
            forced: 1,
            measured_ns: 2_000_000_000,
            estimated_ns: 2_100_000_000,
        }
    }

    pub(crate) fn status() -> Status {
        let uuid = Uuid([7; 16]);
        let device = DeviceStatus {
            device: Device {
                uuid,
                index: 0,
                name: "NVIDIA H200".into(),
                memory_bytes: 141 << 30,
                mig: false,
            },
            promised_bytes: 12 << 30,
            used_bytes: Some(3 << 30),
            utilization_percent: Some(97),
            trouble: None,
            active: 1,
            unregistered: vec![Unregistered {
                pid: 4711,
                program: Some("evil\x1b[2J".into()),
                bytes: Some(2 << 30),
                container: Some("a".into()),
                killed: true,
            }],
        };
        let container = |name: &str, devices| Container {
            name: name.into(),
            origin: Origin::Config,
            socket: "/x".into(),
            device: None,
            processes: 2,
            damage: None,
            devices,
        };
        Status {
            version: 1,
            daemon: Daemon {
                pid: 42,
                version: "0.1.0".into(),
                started_at: 1_000,
                state: "/run/gpu-quota".into(),
                warnings: vec!["NVML does not answer".into()],
            },
            devices: vec![device],
            containers: vec![
                container("a", vec![share(uuid), share(Uuid([9; 16]))]),
                container("idle", Vec::new()),
            ],
        }
    }

    #[test]
    fn everything_is_told_once() {
        let text = text(&status(), 1_125, Screen::PLAIN);
        let expected = "\
quota-daemon 0.1.0, pid 42, up 2 min 5 s, /run/gpu-quota
warning: NVML does not answer

GPU  NAME          USED       OF  PROMISED  BUSY  ACTIVE  UUID
0    NVIDIA H200  3 GiB  141 GiB    12 GiB  97 %       1  GPU-07070707-0707-0707-0707-070707070707

CONTAINER  PROC  GPU        USED  LIMIT  OVERHEAD  REFUSED  TIME                           NOW   GOT  WAITED  NOTE
a             2  0         1 GiB  4 GiB   200 MiB        3  weight 5, 25 %, at most 50 %  50 %  50 %   1.5 s
                 09090909  1 GiB  4 GiB   200 MiB        3  weight 5, 25 %, at most 50 %  50 %  50 %   1.5 s
idle          2  -

GPU 0: process 4711 (evil?[2J), in container a holds 2 GiB and is not registered; it was killed
";
        assert_eq!(text, expected);
    }

    #[test]
    fn eighty_columns_hold_it() {
        let screen = Screen {
            width: Some(80),
            colour: false,
        };
        let text = containers(&status().containers, &status()).show(screen);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(text.contains("LIMIT") && text.contains("GOT"), "{text}");
    }

    #[test]
    fn the_json_is_the_daemons() {
        let value = serde_json::to_value(status()).unwrap();
        assert_eq!(value["devices"][0]["uuid"], Uuid([7; 16]).to_string());
        assert_eq!(value["containers"][0]["devices"][0]["policy"], "share");
        let back: Status = serde_json::from_value(value).unwrap();
        assert_eq!(back, status());
    }
}
