//! `quota-daemon set` and `remove`: a container's limits, at once and for what runs.

use crate::api::{Change, Request};
use crate::client::{Client, Where};
use crate::exit::Stop;
use crate::output::{json, print};
use crate::report::{Container, Status};
use crate::status::containers;
use crate::table::Screen;

/// What to change.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is not given stays. A limit below what is in use refuses what is asked for next and \
                        ends nothing."
)]
pub struct Args {
    /// The container.
    #[arg(value_name = "CONTAINER")]
    container: String,

    /// Make the container if there is none. It says its memory then.
    #[arg(long)]
    create: bool,

    /// On this device alone, by its number as nvidia-smi has it, or GPU-<uuid>.
    #[arg(long, short, value_name = "DEVICE")]
    device: Option<String>,

    /// Device memory: 4GiB, 512MiB, 1.5g, bytes, or none.
    #[arg(long, short, value_name = "SIZE")]
    memory: Option<String>,

    /// GPU time as a hard cap: 30%, 30 or 0.3; none: free.
    #[arg(long, short, value_name = "SHARE", conflicts_with_all = ["weight", "cap"])]
    compute: Option<String>,

    /// GPU time as a guarantee by weight, what others leave besides: 1 to 10000.
    #[arg(long, short, value_name = "NUMBER")]
    weight: Option<u32>,

    /// The most that a weight gets: 50%, or none.
    #[arg(long, value_name = "SHARE")]
    cap: Option<String>,

    /// Who is served first: the higher.
    #[arg(long, short, value_name = "NUMBER")]
    priority: Option<i32>,

    /// Refuse and delay nothing, and count what would have been.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    observe: Option<bool>,

    /// What one process's context is charged: a size, or measured.
    #[arg(long, value_name = "SIZE")]
    context: Option<String>,

    /// Processes at the host's socket belong to it if their cgroup matches; may be given again.
    #[arg(long, value_name = "PATTERN")]
    cgroup: Vec<String>,

    /// Print the container as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Where,
}

impl Args {
    fn change(&self) -> Change {
        Change {
            container: self.container.clone(),
            create: self.create,
            device: self.device.clone(),
            memory: self.memory.clone(),
            compute: self.compute.clone(),
            weight: self.weight,
            cap: self.cap.clone(),
            priority: self.priority,
            observe: self.observe,
            context: self.context.clone(),
            cgroups: (!self.cgroup.is_empty()).then(|| self.cgroup.clone()),
            ..Change::default()
        }
    }
}

/// Asks the daemon for the change and prints what has come of it.
///
/// # Errors
/// Nothing to change, no daemon, or what the daemon refuses.
pub fn run(args: &Args) -> Result<(), Stop> {
    let change = args.change();
    let nothing = Change {
        container: change.container.clone(),
        device: change.device.clone(),
        ..Change::default()
    };
    if change == nothing {
        let text =
            "nothing to change: give --memory 4GiB, --compute 30%, --weight 5, or another value";
        return Err(Stop::Usage(text.into()));
    }
    let mut client = Client::connect(&args.place.socket())?;
    let container: Container = client.ask(&Request::Set(change))?;
    if args.json {
        return Ok(json(&container)?);
    }
    let status: Status = client.ask(&Request::Status)?;
    let device = container.device.clone().filter(|_| args.create);
    let without = format!("container {} has no device", container.name);
    let warnings = status.daemon.warnings.iter();
    for warning in warnings.filter(|warning| args.create && warning.starts_with(&without)) {
        eprintln!("quota-daemon: {warning}");
    }
    let mut text = containers(&[container], &status).show(Screen::stdout());
    if let Some(device) = device {
        text.push_str(&format!("podman or docker run: --device {device}\n"));
    }
    Ok(print(&text)?)
}

/// Which container to forget.
#[derive(Debug, clap::Args)]
pub struct Remove {
    /// The container: one that was made by `set --create` and has no processes.
    #[arg(value_name = "CONTAINER")]
    container: String,

    #[command(flatten)]
    place: Where,
}

/// Asks the daemon to forget a container.
///
/// # Errors
/// There is no daemon, or what the daemon refuses.
pub fn remove(args: &Remove) -> Result<(), Stop> {
    let container = args.container.clone();
    args.place.ask(&Request::Remove { container })
}
