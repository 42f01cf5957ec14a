//! `quota-daemon cdi generate`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::edits::{Common, Preload, trouble_with};
use super::kind::{Kind, check_device};
use super::scan::other_with;
use super::spec::{Device, Spec};
use super::{keep, write};
use crate::config::{Config, Source};
use crate::exit::Stop;
use crate::model::Origin;
use crate::output::{count, print};
use crate::shim;
use crate::words::nearest;

/// Letters that may be wrong in a name for it still to be recognised.
const SLIPS: usize = 2;

/// Which devices, and where to.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --output the file is printed. `--output /etc/cdi` is read by Docker, containerd, Podman and CRI-O, \
                  and has to be written again when a container is added; with [cdi] publish = true the daemon \
                  keeps /var/run/cdi up to date by itself."
)]
pub struct Args {
    /// Containers of the configuration, or made by `set` [default: all of the configuration].
    #[arg(value_name = "CONTAINER")]
    containers: Vec<String>,

    /// The directory to write into, or the file.
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,

    /// The kind of the devices [default: gpu-quota.io/container, or as configured].
    #[arg(long, value_name = "VENDOR/CLASS")]
    kind: Option<Kind>,

    /// How the library is loaded: `env` and `none` leave an image's own /etc/ld.so.preload in its place
    /// [default: replace, or as configured].
    #[arg(long, value_name = "HOW")]
    preload: Option<Preload>,

    /// The library on this host [default: as configured, or where it is installed].
    #[arg(long, value_name = "FILE", env = shim::VARIABLE)]
    shim: Option<PathBuf>,

    /// Read this configuration instead of /etc/gpu-quota.
    #[arg(long, value_name = "PATH", env = "GPU_QUOTA_CONFIG")]
    config: Option<PathBuf>,

    /// The daemon's directory [default: /run/gpu-quota, or as configured].
    #[arg(long, value_name = "DIR", env = "GPU_QUOTA_STATE")]
    state: Option<PathBuf>,
}

/// Writes the file.
///
/// # Errors
/// No such container, no library, or the file cannot be written.
pub fn run(args: &Args) -> Result<(), Stop> {
    let source = Source {
        config: args.config.clone(),
        state: args.state.clone(),
        ..Source::default()
    };
    let config = source
        .load()
        .map_err(|problems| Stop::Usage(problems.to_string()))?;
    let cdi = &config.cdi;
    let kind = args.kind.as_ref().unwrap_or(&cdi.kind);
    let state = std::path::absolute(&config.daemon.state).map_err(anyhow::Error::from)?;
    let names = names(&config, &state, &args.containers)?;
    let library = shim::find(args.shim.as_deref().or(cdi.library.as_deref()))?;
    let common = Common {
        state: &state,
        library: &library,
        preload: args.preload.unwrap_or(cdi.preload),
    };
    let spec = Spec::new(kind, devices(&common, &names, args.containers.is_empty())?);
    if let Some(trouble) = trouble_with(&library) {
        tell(format_args!("{trouble}"));
    }
    let Some(output) = &args.output else {
        return Ok(print(&spec.text())?);
    };
    let path = place(output, kind);
    if let Some((other, device)) = other_with(kind, &path, &spec.devices) {
        return Err(anyhow::anyhow!(
            "{} has {} already, and of two in one directory runtimes take neither: remove that file, or write elsewhere; \
             what a daemon publishes ([cdi] publish) need not be written",
            other.display(),
            kind.device(device)
        )
        .into());
    }
    put(&path, &spec)?;
    // The daemon does so too; a file that names what is not there yet would puzzle.
    if state.is_dir()
        && let Err(error) = keep::put(&state)
    {
        tell(format_args!(
            "{} is the daemon's to write, and could not be written: {error}",
            keep::preload(&state).display()
        ));
    }
    let devices = count(spec.devices.len(), "device", "devices");
    let mut text = format!("{}: {devices}\n", path.display());
    for device in &spec.devices {
        text.push_str(&format!("--device {}\n", kind.device(&device.name)));
    }
    Ok(print(&text)?)
}

/// The containers that are meant.
fn names(config: &Config, state: &Path, asked: &[String]) -> Result<Vec<String>, Stop> {
    let declared: BTreeSet<String> = config
        .containers
        .iter()
        .map(|spec| spec.name.clone())
        .collect();
    if asked.is_empty() {
        if declared.is_empty() {
            return Err(Stop::NotFound(
                "no container is declared: add a [[container]] to the configuration, or name one that `quota-daemon set --create` made"
                    .into(),
            ));
        }
        return Ok(declared.into_iter().collect());
    }
    let known: BTreeSet<String> = declared.into_iter().chain(served(state)).collect();
    let mut names = Vec::new();
    for name in asked {
        if !known.contains(name) {
            return Err(Stop::NotFound(unknown(name, &known)));
        }
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// Those that a daemon serves, or served last.
fn served(state: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(state.join("containers"));
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

fn unknown(name: &str, known: &BTreeSet<String>) -> String {
    let meant = nearest(name, known.iter().map(String::as_str), SLIPS);
    let mend = match meant {
        Some(meant) => format!("did you mean {meant}?"),
        None if known.is_empty() => "none is declared or served".into(),
        None => {
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            format!("there are {}", known.join(", "))
        }
    };
    format!("there is no container {name}; {mend}")
}

/// The device of each. Where nobody has asked for this one, a container that can have none is passed over, with a line.
fn devices(common: &Common<'_>, names: &[String], all: bool) -> Result<Vec<Device>, Stop> {
    let mut devices = Vec::new();
    for name in names {
        match common.device(name) {
            Ok(device) => devices.push(device),
            Err(wrong) if all => tell(format_args!("{wrong}; it is left out")),
            Err(wrong) => return Err(Stop::Usage(wrong)),
        }
    }
    if devices.is_empty() {
        let wrong = names.first().map_or_else(String::new, |name| {
            check_device(name).err().unwrap_or_default()
        });
        return Err(Stop::Usage(wrong));
    }
    Ok(devices)
}

fn tell(text: std::fmt::Arguments<'_>) {
    eprintln!("quota-daemon: {text}");
}

/// The file that is meant: a directory gets one of the name that is usual.
fn place(output: &Path, kind: &Kind) -> PathBuf {
    let file = output
        .extension()
        .is_some_and(|extension| extension == "json" || extension == "yaml");
    if file && !output.is_dir() {
        output.into()
    } else {
        output.join(kind.file())
    }
}

fn put(path: &Path, spec: &Spec) -> anyhow::Result<()> {
    let folder = write::folder(path);
    let hint = "be root, or name another directory with --output";
    write::directory(folder)
        .with_context(|| format!("cannot make the directory {}; {hint}", folder.display()))?;
    write::leftovers(
        folder,
        &path.file_name().unwrap_or_default().to_string_lossy(),
    );
    // JSON is YAML, and what every runtime reads.
    write::atomically(path, spec.text().as_bytes()).with_context(|| {
        format!(
            "cannot write {} in {}; {hint}",
            path.display(),
            folder.display()
        )
    })
}

/// Whether a container of this origin is somebody's to start containers with.
#[must_use]
pub(super) fn has_device(origin: Origin) -> bool {
    // One of the default rule is found by its cgroup, and has its name from that.
    origin != Origin::Default
}
