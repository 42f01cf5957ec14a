//! The daemon's configuration: `config.toml` and what lies in `conf.d`, read into what the daemon's parts speak of.
//!
//! Nothing is silently unlimited: a container says its memory, or says `none`. Whatever makes no sense is refused with the
//! file, the line and the column, and all of it at once.

mod cdi;
mod change;
mod container;
mod daemon;
mod fields;
mod files;
mod once;
mod problem;
mod said;
mod source;
#[cfg(test)]
mod tests;
pub mod values;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use change::apply;
pub use files::File;
pub use problem::{Problem, Problems};
pub use source::Source;

use crate::cdi::{Kind, Preload};
use crate::model::{Origin, Quota, Selector, Spec};

/// Everything that the files say.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The daemon itself.
    pub daemon: DaemonSettings,
    /// Who is admitted at the host's socket without being declared; `None`: nobody.
    pub default: Option<Rule>,
    /// The declared containers, in the order of the files.
    pub containers: Vec<Spec>,
    /// Containers as devices.
    pub cdi: CdiSettings,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

/// The daemon's own settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DaemonSettings {
    /// Its directory.
    pub state: PathBuf,
    /// Whose members may do at the control socket what root may.
    pub group: Option<Group>,
    /// Where Prometheus may ask; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// What is logged: a level, or directives as `tracing` reads them.
    pub log: String,
    /// In which form.
    pub log_format: LogFormat,
    /// How much of a device may be promised.
    pub oversubscribe: Oversubscribe,
    /// What happens to processes that use a GPU past the library.
    pub unregistered: Unregistered,
    /// Whether containers that contend for a device take turns.
    pub turns: bool,
    /// Bytes that a context is charged where a container says nothing; `None`: as measured.
    pub context_bytes: Option<u64>,
}

impl Default for DaemonSettings {
    fn default() -> Self {
        Self {
            state: quota_abi::wire::STATE.into(),
            group: None,
            metrics: None,
            log: "info".into(),
            log_format: LogFormat::Auto,
            oversubscribe: Oversubscribe::No,
            unregistered: Unregistered::Report,
            turns: true,
            context_bytes: None,
        }
    }
}

/// How containers are offered as devices to container runtimes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CdiSettings {
    /// The directory in which a running daemon keeps a file for each container; `None`: it keeps none.
    pub publish: Option<PathBuf>,
    /// The kind of the devices.
    pub kind: Kind,
    /// How the library is loaded.
    pub preload: Preload,
    /// The library; `None`: where it is installed.
    pub library: Option<PathBuf>,
}

/// A group of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// As it was written.
    pub name: String,
    /// Its number.
    pub gid: u32,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people on a terminal, for the journal where systemd says that it listens, else for people without colour.
    Auto,
    /// For people.
    Human,
    /// One object a line.
    Json,
    /// With the priority before each line.
    Journald,
}

/// How much of a device's memory and guaranteed time may be promised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Oversubscribe {
    /// What there is.
    No,
    /// So many times what there is; at least 1.
    By(f64),
    /// Anything.
    Any,
}

impl Oversubscribe {
    /// The most that may be promised of `there`; `None`: anything.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a factor of at least 1 and at most 1000 of the bytes of a device; a rounded byte does not matter"
    )]
    pub fn most(self, there: u64) -> Option<u64> {
        match self {
            Self::No => Some(there),
            Self::By(factor) => Some((there as f64 * factor) as u64),
            Self::Any => None,
        }
    }
}

/// What happens to processes of declared containers that use a GPU past the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unregistered {
    /// They are shown, counted and logged.
    Report,
    /// They are ended too.
    Kill,
}

/// The rule for processes at the host's socket that no declared container's cgroups match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For these cgroups; empty: for all.
    pub cgroups: Vec<String>,
    /// As in [`Spec::every`].
    pub every: Option<Quota>,
    /// As in [`Spec::devices`].
    pub devices: BTreeMap<Selector, Quota>,
}

impl Rule {
    /// The container that it makes of one that it admits.
    #[must_use]
    pub fn spec(&self, name: &str) -> Spec {
        Spec {
            name: name.into(),
            origin: Origin::Default,
            cgroups: Vec::new(),
            every: self.every,
            devices: self.devices.clone(),
        }
    }
}

impl Config {
    /// What `files` say together.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn read(files: &[File]) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let documents: Vec<_> = files
            .iter()
            .filter_map(|file| Some((file, file.parse(&mut problems)?)))
            .collect();
        let mut settings = daemon::Reader::default();
        for (file, document) in &documents {
            settings.read(file, document, &mut problems);
        }
        let daemon = settings.settings;
        let mut devices = cdi::Reader::default();
        for (file, document) in &documents {
            devices.read(file, document, &mut problems);
        }
        let mut reader = container::Reader::new(daemon.context_bytes);
        for (file, document) in &documents {
            reader.read(file, document, &mut problems);
        }
        problems.none()?;
        Ok(Self {
            daemon,
            default: reader.default,
            containers: reader.containers,
            cdi: devices.settings,
            files: files.iter().map(|file| file.path.clone()).collect(),
        })
    }

    /// Reads and reads what these files say; see [`Source::load`] for those that nobody names.
    ///
    /// # Errors
    /// A file that cannot be read, and everything that is wrong with the others.
    pub fn open(paths: &[impl AsRef<Path>]) -> Result<Self, Problems> {
        Self::read(&files::open(paths)?)
    }
}
