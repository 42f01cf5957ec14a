//! `run` with a daemon that holds the quota: in a declared container, or in one of this run's own.
//!
//! The process registers itself before it becomes the program. It stays the same process, so the container of its own lasts
//! as long as the program and what the program starts, and is gone after that.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use quota_abi::wire::{Purpose, SOCKET_NAME, Status};

use super::{Args, random_group};
use crate::api::{Change, Request};
use crate::attach::{self, Silent};
use crate::client::Where;
use crate::environment::Environment;
use crate::exit::Stop;
use crate::model::check_name;
use crate::report::Container;

/// What a daemon can do for a run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "With a daemon")]
pub(super) struct Flags {
    /// Let the daemon hold the quota, in a container of this run's own: it can be seen, and changed while it runs.
    #[arg(long, conflicts_with_all = ["group", "container"])]
    pub(super) daemon: bool,

    /// Run in this declared container; --memory and --compute can only lower what it has.
    #[arg(long, value_name = "NAME", conflicts_with = "group")]
    pub(super) container: Option<String>,

    /// GPU time by weight, with what others leave besides, instead of --compute.
    #[arg(
        long,
        short,
        value_name = "NUMBER",
        requires = "daemon",
        conflicts_with = "compute"
    )]
    weight: Option<u32>,

    /// The most that a weight gets.
    #[arg(long, value_name = "SHARE", requires = "weight")]
    cap: Option<String>,

    /// Who is served first: the higher.
    #[arg(long, short, value_name = "NUMBER", requires = "daemon")]
    priority: Option<i32>,

    #[command(flatten)]
    place: Where,
}

/// Variables that say in words what the container of a run's own says live.
pub(super) const HELD: [&str; 3] = ["GPU_QUOTA_MEMORY", "GPU_QUOTA_COMPUTE", "GPU_QUOTA_CONTEXT"];

impl Flags {
    /// Whether a daemon is to hold the quota.
    pub(super) fn asked(&self) -> bool {
        self.daemon || self.container.is_some()
    }

    /// The attach socket of the container that the program will be in.
    pub(super) fn socket(&self, args: &Args, environment: &Environment) -> Result<PathBuf, Stop> {
        match &self.container {
            Some(name) => self.join(name),
            None => self.own(args, environment),
        }
    }

    fn join(&self, name: &str) -> Result<PathBuf, Stop> {
        check_name(name).map_err(|wrong| Stop::Usage(format!("--container {wrong}")))?;
        let folder = self.place.state.join("containers").join(name);
        let folder = std::path::absolute(folder).map_err(anyhow::Error::from)?;
        let socket = folder.join(SOCKET_NAME);
        if !socket.exists() {
            return Err(Stop::NotFound(format!(
                "there is no container {name}: {} does not exist; declare it in the daemon's configuration, or make it \
                 with `quota-daemon set {name} --create`",
                socket.display()
            )));
        }
        speak(&socket, Purpose::View)?;
        Ok(socket)
    }

    fn own(&self, args: &Args, environment: &Environment) -> Result<PathBuf, Stop> {
        let value = |flag: &str, variable: &str| {
            let text = environment.text(variable);
            match text {
                Some(text) if text.contains('=') => Err(Stop::Usage(format!(
                    "{flag} takes one value with --daemon; make a container with `quota-daemon set --create --device ...` \
                     and run in it with --container"
                ))),
                text => Ok(text),
            }
        };
        let compute = match self.weight {
            None => value("--compute", "GPU_QUOTA_COMPUTE")?,
            Some(_) => None,
        };
        let change = Change {
            container: random_group()?,
            create: true,
            transient: true,
            memory: value("--memory", "GPU_QUOTA_MEMORY")?,
            compute,
            weight: self.weight,
            cap: self.cap.clone(),
            priority: self.priority,
            context: args.context.clone(),
            ..Change::default()
        };
        if change.memory.is_none() {
            let text = "say the memory: --memory 4GiB, or --memory none for no limit";
            return Err(Stop::Usage(text.into()));
        }
        let made: Container = self.place.ask(&Request::Set(change))?;
        let socket = std::path::absolute(&made.socket).context("the container's socket")?;
        speak(&socket, Purpose::Attach)?;
        Ok(socket)
    }
}

/// Registers this process, or sees at least that it could be.
fn speak(socket: &Path, purpose: Purpose) -> Result<(), Stop> {
    let place = socket.display();
    let answered = attach::ask(socket, purpose).map_err(|silent| match silent {
        Silent::Away(_) => Stop::Unreachable(format!(
            "{place}: {silent}; start the daemon with `quota-daemon serve`"
        )),
        _ => Stop::Other(anyhow!("{place}: {silent}")),
    })?;
    match answered.answer.status {
        Status::Granted => Ok(()),
        _ => Err(Stop::Other(anyhow!("{place}: {}", answered.answer.text))),
    }
}
