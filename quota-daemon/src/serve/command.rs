//! The command `serve`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;

use crate::api;
use crate::config::Source;
use crate::control::{self, Server};
use crate::exit::Stop;
use crate::model::{Device, Uuid};

use super::signals::{Signals, Wish};
use super::{Fixed, Parts, Running, Settings};

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,

    /// Keep the regions in a plain directory, and mount nothing.
    #[arg(long)]
    no_mount: bool,
}

/// Serves until it is told to end.
///
/// # Errors
/// The configuration makes no sense, another daemon has the directory, or the kernel refuses.
pub fn run(args: &Args) -> Result<(), Stop> {
    let signals = Signals::block().context("blocking signals")?;
    let config = args
        .source
        .load()
        .map_err(|problems| Stop::Usage(problems.to_string()))?;
    raise_descriptors();
    let source = args.source.clone();
    let parts = Parts {
        gpus: Arc::new(Fixed(devices())),
        reread: Box::new(move || source.load().map_err(|problems| problems.to_string())),
    };
    let daemon = config.daemon.clone();
    let settings = Settings {
        config,
        mount: !args.no_mount,
    };
    let running = super::start(settings, parts).map_err(anyhow::Error::from)?;
    let path = daemon.state.join(api::SOCKET_NAME);
    let metrics: control::Metrics = Arc::new(|_| String::new());
    let control = Server::start(&path, daemon.group.as_ref(), running.manager(), metrics)
        .with_context(|| format!("listening at {}", path.display()))?;
    notify(&[NotifyState::Ready]);
    attend(&running, &signals)?;
    notify(&[NotifyState::Stopping]);
    drop(control);
    tracing::info!("ending; containers stay limited");
    Ok(())
}

/// Does what signals ask, and tells systemd that the daemon is well as long as it is.
fn attend(running: &Running, signals: &Signals) -> Result<(), Stop> {
    let watchdog = sd_notify::watchdog_enabled();
    let pause = watchdog.map_or(Duration::from_secs(3600), |period| period / 3);
    let (mut turns, mut turned_at) = (0, Instant::now());
    loop {
        match signals.wait(pause) {
            Some(Wish::Stop) => return Ok(()),
            Some(Wish::Reload) => reload(running),
            None => {}
        }
        if !running.is_sound() {
            return Err(Stop::Other(anyhow::anyhow!(
                "a thread of the daemon has ended: start it again"
            )));
        }
        let now = running.turns();
        if now != turns {
            (turns, turned_at) = (now, Instant::now());
        }
        if watchdog.is_some_and(|period| turned_at.elapsed() < period) {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

fn reload(running: &Running) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
    if let Err(refused) = running.manager().reload() {
        tracing::error!("everything stays as it was: {refused}");
    }
    notify(&[NotifyState::Ready]);
}

/// Says something to systemd, where that listens.
fn notify(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}

/// Three descriptors for each container, one for each registered process.
fn raise_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("the limit of open files stays as it is: {error}");
    }
}

/// The devices that NVML knows.
fn devices() -> Vec<Device> {
    let library = std::ffi::OsStr::new("libnvidia-ml.so.1");
    let nvml = match nvml_wrapper::Nvml::builder().lib_path(library).init() {
        Ok(nvml) => nvml,
        Err(error) => {
            tracing::error!("NVML does not answer: {error}");
            return Vec::new();
        }
    };
    let count = nvml.device_count().unwrap_or(0);
    let device = |index| {
        let device = nvml.device_by_index(index).ok()?;
        Some(Device {
            uuid: device.uuid().ok()?.parse::<Uuid>().ok()?,
            index,
            name: device.name().ok()?,
            memory_bytes: device.memory_info().ok()?.total,
            mig: false,
        })
    };
    (0..count).filter_map(device).collect()
}
