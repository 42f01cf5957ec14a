//! `quota-daemon why`: the last refusals and waits of a container, with the arithmetic in words.

use quota_abi::bucket::Rate;

use crate::api::Request;
use crate::client::{Client, Where};
use crate::exit::Stop;
use crate::gpu_time::Used;
use crate::model::Uuid;
use crate::output::{json, print};
use crate::report::{Refusal, Share, Status, Wait, Why};
use crate::status::{compute, label};
use crate::units::{percent, signed_time, size, time};

/// Whose, and how.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The container.
    #[arg(value_name = "CONTAINER")]
    container: String,

    /// Show so many of each at most.
    #[arg(long, short, value_name = "NUMBER", default_value_t = 5)]
    number: usize,

    /// Print all as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Where,
}

/// Asks the daemon and prints what it says.
///
/// # Errors
/// There is no daemon, or no such container.
pub fn run(args: &Args) -> Result<(), Stop> {
    let mut client = Client::connect(&args.place.socket())?;
    let container = args.container.clone();
    let why: Why = client.ask(&Request::Why { container })?;
    if args.json {
        return Ok(json(&why)?);
    }
    let status = client.ask(&Request::Status)?;
    Ok(print(&text(&why, &status, args.number))?)
}

fn text(why: &Why, status: &Status, number: usize) -> String {
    let mut text = now(why, status);
    let device = |uuid: Option<Uuid>| match uuid {
        Some(uuid) => format!("GPU {}", label(status, uuid)),
        None => "a device".into(),
    };
    section(&mut text, "refusals of memory", why.refusals.len(), number);
    for one in why.refusals.iter().take(number) {
        let head = head(one.ago_ns, one.pid_inside, &device(one.uuid));
        text.push_str(&format!("  {head}:\n    {}\n", refusal(one)));
    }
    section(&mut text, "waits of launches", why.waits.len(), number);
    for one in why.waits.iter().take(number) {
        let head = head(one.ago_ns, one.pid_inside, &device(one.uuid));
        text.push_str(&format!("  {head}:\n    {}\n", wait(one)));
    }
    text
}

/// What holds at this moment: the events may be of another.
fn now(why: &Why, status: &Status) -> String {
    let container = status
        .containers
        .iter()
        .find(|one| one.name == why.container);
    let mut text = String::new();
    for share in container.iter().flat_map(|container| &container.devices) {
        let label = label(status, share.uuid);
        text.push_str(&format!(
            "{} now on GPU {label}: {}\n",
            why.container,
            limits(share)
        ));
        if let Some(used) = Used::from(share).text() {
            text.push_str(&format!("  so far {used}\n"));
        }
    }
    text
}

fn limits(share: &Share) -> String {
    let used = size(share.memory_used_bytes);
    let memory = match share.memory_limit_bytes {
        None => format!("{used} allocated, no limit"),
        Some(limit) => {
            let beyond = share.memory_overhead_bytes;
            let room = size(limit.saturating_sub(beyond));
            match beyond {
                0 => format!("{used} allocated of {room}"),
                _ => format!(
                    "{used} allocated of {room}, the limit of {} less {} of overhead (contexts, modules: held by NVML beyond \
                     what was asked for)",
                    size(limit),
                    size(beyond)
                ),
            }
        }
    };
    let observe = if share.observe { "; observed only" } else { "" };
    format!(
        "{memory}; GPU time {}{observe}",
        compute(&share.compute, share.own_percent)
    )
}

fn section(text: &mut String, what: &str, there: usize, shown: usize) {
    let more = match there.saturating_sub(shown) {
        0 => String::new(),
        more => format!(" ({more} more with --number)"),
    };
    match there {
        0 => text.push_str(&format!("no {what}\n")),
        _ => text.push_str(&format!("{what}, the newest first{more}:\n")),
    }
}

fn head(ago_ns: u64, pid: u32, device: &str) -> String {
    format!("{} ago, pid {pid} in the container, {device}", time(ago_ns))
}

/// `asked 512 MiB; ...`.
pub(crate) fn refusal(one: &Refusal) -> String {
    let others = one.held_bytes.saturating_sub(one.own_bytes);
    let asked = size(one.asked_bytes);
    if one.asked_bytes > one.room_bytes {
        return format!(
            "asked {asked}, more than the {} that the container may allocate in all",
            size(one.room_bytes)
        );
    }
    let held = format!(
        "asked {asked}; the container held {} of {} ({} this process, {} others)",
        size(one.held_bytes),
        size(one.room_bytes),
        size(one.own_bytes),
        size(others)
    );
    let wanted = one.held_bytes.saturating_add(one.asked_bytes);
    match wanted.saturating_sub(one.room_bytes) {
        0 => format!("{held}, which would have fitted, but for what others asked at that moment"),
        short => format!("{held}, so {} short", size(short)),
    }
}

/// `charged 5 ms; ...`.
pub(crate) fn wait(one: &Wait) -> String {
    let Some(rate) = rate(one.rate_percent) else {
        let waited = time(one.waited_ns);
        return format!(
            "charged {}; it waited {waited} for its turn",
            time(one.asked_ns)
        );
    };
    let resume = rate.resume();
    let short = resume.saturating_sub(one.level_ns);
    let filled = rate.time_for(short);
    let rest = match (filled, one.waited_ns) {
        (filled, waited) if waited > filled.saturating_mul(2).saturating_add(5_000_000) => {
            ", the rest of it for others of the container that spent what came in, or for its turn"
        }
        (filled, waited) if waited < filled / 2 => {
            ", less because the rate rose, or charges were corrected by what was measured"
        }
        _ => "",
    };
    format!(
        "charged {}; the bucket stood at {} and launches go on from {} on: {} at {} are {}; it waited {}{rest}",
        time(one.asked_ns),
        signed_time(one.level_ns),
        signed_time(resume),
        signed_time(short),
        percent(one.rate_percent),
        time(filled),
        time(one.waited_ns)
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a percentage, bounded"
)]
fn rate(percent: f64) -> Option<Rate> {
    Rate::from_ppm((percent.clamp(0.0, 100.0) * 10_000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::VERSION;

    const MIB: u64 = 1 << 20;

    fn a_refusal(asked: u64) -> Refusal {
        Refusal {
            ago_ns: 3_000_000_000,
            pid_inside: 12,
            uuid: Some(Uuid([7; 16])),
            asked_bytes: asked * MIB,
            own_bytes: 2150 * MIB,
            held_bytes: 3686 * MIB,
            room_bytes: 3896 * MIB,
        }
    }

    fn a_wait(level_ns: i64, waited_ns: u64) -> Wait {
        Wait {
            ago_ns: 1_500_000,
            pid_inside: 12,
            uuid: None,
            asked_ns: 5_000_000,
            level_ns,
            rate_percent: 30.0,
            waited_ns,
        }
    }

    #[test]
    fn the_arithmetic_of_a_refusal() {
        assert_eq!(
            refusal(&a_refusal(512)),
            "asked 512 MiB; the container held 3.59 GiB of 3.8 GiB (2.09 GiB this process, 1.5 GiB others), so 302 MiB short"
        );
        assert!(refusal(&a_refusal(100)).ends_with("but for what others asked at that moment"));
        assert_eq!(
            refusal(&a_refusal(5000)),
            "asked 4.88 GiB, more than the 3.8 GiB that the container may allocate in all"
        );
    }

    #[test]
    fn the_arithmetic_of_a_wait() {
        assert_eq!(
            wait(&a_wait(-12_000_000, 42_000_000)),
            "charged 5 ms; the bucket stood at -12 ms and launches go on from 500 us on: 12.5 ms at 30 % are 41.6 ms; it waited 42 ms"
        );
        assert!(wait(&a_wait(-12_000_000, 100_000_000)).contains("the rest of it for others"));
        assert!(wait(&a_wait(-12_000_000, 10_000_000)).contains("less because"));
        let turn = Wait {
            rate_percent: 100.0,
            ..a_wait(0, 7_000_000)
        };
        assert_eq!(wait(&turn), "charged 5 ms; it waited 7 ms for its turn");
    }

    #[test]
    fn the_whole_text() {
        let mut why = Why {
            version: VERSION,
            container: "a".into(),
            refusals: vec![a_refusal(512), a_refusal(512)],
            waits: Vec::new(),
        };
        let status = crate::status::tests::status();
        let text = super::text(&why, &status, 1);
        let expected = "\
a now on GPU 0: 1 GiB allocated of 3.8 GiB, the limit of 4 GiB less 200 MiB of overhead (contexts, modules: held by NVML beyond what was asked for); GPU time weight 5, 25 %, at most 50 %
  so far 1 ns of GPU time used by 3 launches; 2 launches waited 1.5 s in all, 1 of them let through on credit, since work in flight might have waited for them; 2 s measured, where 2.1 s had been estimated, 5 % more
a now on GPU 09090909: 1 GiB allocated of 3.8 GiB, the limit of 4 GiB less 200 MiB of overhead (contexts, modules: held by NVML beyond what was asked for); GPU time weight 5, 25 %, at most 50 %
  so far 1 ns of GPU time used by 3 launches; 2 launches waited 1.5 s in all, 1 of them let through on credit, since work in flight might have waited for them; 2 s measured, where 2.1 s had been estimated, 5 % more
refusals of memory, the newest first (1 more with --number):
  3 s ago, pid 12 in the container, GPU 0:
    asked 512 MiB; the container held 3.59 GiB of 3.8 GiB (2.09 GiB this process, 1.5 GiB others), so 302 MiB short
no waits of launches
";
        assert_eq!(text, expected);
        why.refusals.clear();
        why.waits.push(a_wait(0, 1_000_000));
        let text = super::text(&why, &status, 5);
        assert!(text.contains("no refusals of memory\n"), "{text}");
        assert!(
            text.contains("1.5 ms ago, pid 12 in the container, a device:\n"),
            "{text}"
        );
    }
}
