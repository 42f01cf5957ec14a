//! The command `serve`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;

use crate::config::{DaemonSettings, Source, Unregistered};
use crate::control::{self, Server};
use crate::exit::Stop;
use crate::http::Listener;
use crate::metrics::{self, Counters};
use crate::reconcile::drive::Gpus;
use crate::{api, gpu, log};

use super::signals::{Signals, Wish};
use super::{Parts, Running, Settings};

/// How long the daemon waits for NVML before it serves without knowing the devices.
const FIRST: Duration = Duration::from_secs(3);

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
    // Before there are threads: it may begin this program again.
    let shimmed = gpu::shimmed::leave().context("leaving the library behind")?;
    let signals = Signals::block().context("blocking signals")?;
    let config = args
        .source
        .load()
        .map_err(|problems| Stop::Usage(problems.to_string()))?;
    let daemon = config.daemon.clone();
    log::start(daemon.log_format, &daemon.log).map_err(Stop::Usage)?;
    raise_descriptors();
    let gpus = Gpus::start(gpu::Nvml::new(), gpu::Pace::default()).context("watching GPUs")?;
    if gpus.first(FIRST).devices.is_empty() {
        tracing::warn!(
            "no device is known yet: limits by index, and of every device, wait for NVML"
        );
    }
    let counters = Arc::new(Counters::default());
    let source = args.source.clone();
    let parts = Parts {
        gpus: gpus.clone(),
        reread: Box::new(move || source.load().map_err(|problems| problems.to_string())),
        counters: counters.clone(),
        warnings: shimmed.into_iter().collect(),
    };
    let settings = Settings {
        config,
        mount: !args.no_mount,
    };
    let running = super::start(settings, parts).map_err(anyhow::Error::from)?;
    let kill = daemon.unregistered == Unregistered::Kill;
    gpus.serve(running.core(), counters.clone(), kill)
        .context("reconciling")?;
    let _doors = open_doors(&running, &daemon, &counters)?;
    notify(&[NotifyState::Ready]);
    attend(&running, &signals)?;
    notify(&[NotifyState::Stopping]);
    tracing::info!("ending; containers stay limited");
    Ok(())
}

/// The control socket, and the address for Prometheus.
fn open_doors(
    running: &Running,
    daemon: &DaemonSettings,
    counters: &Arc<Counters>,
) -> anyhow::Result<(Server, Option<Listener>)> {
    let path = daemon.state.join(api::SOCKET_NAME);
    let its = counters.clone();
    let text: control::Metrics = Arc::new(move |status| metrics::render(status, &its));
    let control = Server::start(&path, daemon.group.as_ref(), running.manager(), text)
        .with_context(|| format!("listening at {}", path.display()))?;
    let (manager, its) = (running.manager(), counters.clone());
    let listener = daemon
        .metrics
        .map(|address| {
            Listener::start(
                address,
                Arc::new(move || metrics::render(&manager.status(), &its)),
            )
            .with_context(|| format!("listening at {address} for Prometheus"))
        })
        .transpose()?;
    Ok((control, listener))
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

/// Four descriptors for each container, one for each registered process.
fn raise_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("the limit of open files stays as it is: {error}");
    }
}
