//! What a command and the daemon say to each other at the control socket: one JSON object a line, one answer to each
//! request. Everything that a command can do, a program can do here.

use serde::{Deserialize, Serialize};

use crate::report;

/// Name of the control socket in the daemon's directory.
pub const SOCKET_NAME: &str = "control.sock";
/// No request is longer.
pub const MOST: usize = 64 * 1024;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// [`report::Status`].
    Status,
    /// A list of [`report::Process`].
    Processes {
        /// Of this container alone.
        container: Option<String>,
    },
    /// [`report::Why`].
    Why {
        /// The container.
        container: String,
    },
    /// Changes or creates a container; answers with its [`report::Container`].
    Set(Change),
    /// Forgets a container that was not declared in the configuration and has no processes.
    Remove {
        /// The container.
        container: String,
    },
    /// Reads the configuration again; answers with a list of lines that say what has changed.
    Reload,
    /// The text for Prometheus.
    Metrics,
}

/// A change of a container. What is `None` stays. Values are spelt as in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The container.
    pub container: String,
    /// Make it if there is none.
    #[serde(default)]
    pub create: bool,
    /// For `create`: it goes when its last process has ended (`run`).
    #[serde(default)]
    pub transient: bool,
    /// The device, by index or UUID; `None`: every device that has no values of its own.
    pub device: Option<String>,
    /// A size, or `none`.
    pub memory: Option<String>,
    /// A share that is a hard cap, or `none`.
    pub compute: Option<String>,
    /// A weight, instead of `compute`.
    pub weight: Option<u32>,
    /// The most that a weight gets; `none`: no cap.
    pub cap: Option<String>,
    /// Who is served first.
    pub priority: Option<i32>,
    /// Count only.
    pub observe: Option<bool>,
    /// A size that a context is charged, or `measured`.
    pub context: Option<String>,
    /// Cgroup patterns at the host's socket, instead of those that it has.
    pub cgroups: Option<Vec<String>>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// As asked.
    Ok(serde_json::Value),
    /// Not so.
    Error(Refused),
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Refused {
    /// The kind, which commands turn into exit codes.
    pub kind: Kind,
    /// For a person: what is wrong, and the mend.
    pub text: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request makes no sense.
    Usage,
    /// There is no such container or device.
    NotFound,
    /// The asker may not.
    Forbidden,
    /// It cannot be done now, for example because more would be promised than there is.
    Failed,
}

/// What the daemon does for those who ask: its core, behind the control socket, the metrics listener and signals.
pub trait Manager: Send + Sync {
    /// Everything at this moment.
    fn status(&self) -> report::Status;
    /// The registered processes.
    ///
    /// # Errors
    /// There is no such container.
    fn processes(&self, container: Option<&str>) -> Result<Vec<report::Process>, Refused>;
    /// The last refusals and waits.
    ///
    /// # Errors
    /// There is no such container.
    fn why(&self, container: &str) -> Result<report::Why, Refused>;
    /// Changes or creates a container.
    ///
    /// # Errors
    /// A value makes no sense, more would be promised than there is, there is no such container.
    fn set(&self, change: &Change) -> Result<report::Container, Refused>;
    /// Forgets a container.
    ///
    /// # Errors
    /// It is of the configuration, has processes, or does not exist.
    fn remove(&self, container: &str) -> Result<(), Refused>;
    /// Reads the configuration again.
    ///
    /// # Errors
    /// What is wrong with it; then everything stays as it was.
    fn reload(&self) -> Result<Vec<String>, Refused>;
}
