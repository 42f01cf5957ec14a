//! `quota-daemon cdi list`: what a container runtime finds, and whether a container would start with it and be limited.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::DIRECTORIES;
use super::kind::Kind;
use super::scan::{Found, look, unread};
use crate::config::Source;
use crate::exit::Stop;
use crate::output::{json, print};
use crate::table::{Cell, Screen, Table, Tone, words};

/// Where to look.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A directory, instead of /etc/cdi, /var/run/cdi and where the daemon publishes; may be given again, the one that counts
    /// most last.
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,

    /// The kind of the devices [default: gpu-quota.io/container, or as configured].
    #[arg(long, value_name = "VENDOR/CLASS")]
    kind: Option<Kind>,

    /// Print the list as JSON.
    #[arg(long)]
    json: bool,

    /// Read this configuration instead of /etc/gpu-quota.
    #[arg(long, value_name = "PATH", env = "GPU_QUOTA_CONFIG")]
    config: Option<PathBuf>,
}

/// The JSON form; `version` changes when a field changes its meaning.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    kind: Kind,
    directories: Vec<PathBuf>,
    devices: Vec<Found>,
    /// Files of this kind that could not be read.
    unread: Vec<PathBuf>,
}

/// Looks and prints.
///
/// # Errors
/// [`Stop::NotFound`] where there is no device, [`Stop::Failed`] where one has a problem.
pub fn run(args: &Args) -> Result<(), Stop> {
    let source = Source {
        config: args.config.clone(),
        ..Source::default()
    };
    let config = source
        .load()
        .map_err(|problems| Stop::Usage(problems.to_string()))?;
    let kind = args.kind.clone().unwrap_or(config.cdi.kind);
    let mut directories = args.dir.clone();
    if directories.is_empty() {
        directories.extend(DIRECTORIES.map(PathBuf::from));
        directories.extend(config.cdi.publish.filter(|own| !same(own, &DIRECTORIES)));
    }
    let devices = look(&kind, &directories);
    let unread: Vec<_> = directories
        .iter()
        .flat_map(|directory| unread(&kind, directory))
        .collect();
    for file in &unread {
        eprintln!(
            "quota-daemon: {} is not JSON as it should be, and was not examined: write it again, or remove it",
            file.display()
        );
    }
    let sound = unread.is_empty() && devices.iter().all(|device| device.problems.is_empty());
    let none = devices.is_empty();
    let report = Report {
        version: 1,
        kind,
        directories,
        devices,
        unread,
    };
    if args.json {
        json(&report)?;
    } else if !none {
        print(&table(&report.devices).show(Screen::stdout()))?;
    }
    if none {
        let places: Vec<_> = report
            .directories
            .iter()
            .map(|directory| directory.display().to_string())
            .collect();
        return Err(Stop::NotFound(format!(
            "no device {} in {}; write one with `quota-daemon cdi generate --output /etc/cdi`, or let the daemon do it with [cdi] publish = true",
            report.kind,
            places.join(", ")
        )));
    }
    if sound { Ok(()) } else { Err(Stop::Failed) }
}

/// `/var/run` is `/run` on most hosts.
fn same(one: &Path, others: &[&str]) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
    others
        .iter()
        .any(|other| real(one) == real(Path::new(other)))
}

fn table(devices: &[Found]) -> Table {
    let mut table = Table::new([words("DEVICE"), words("NOTE"), words("FILE").spare(1)]);
    for found in devices {
        let note: Cell = match found.problems.is_empty() {
            true => Cell::from("served"),
            false => Cell::from(found.problems.join("; ")).tone(Tone::Bad),
        };
        table.row([
            (&found.device).into(),
            note,
            found.file.display().to_string().into(),
        ]);
    }
    table
}
