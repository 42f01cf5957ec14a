//! Why the daemon does not start, or a container cannot be served.

use std::io;
use std::path::PathBuf;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another daemon works in the directory.
    #[error("another daemon{} has {}: stop it first, or give this one another --state", pid_text(*pid), path.display())]
    Locked {
        /// The file that is locked.
        path: PathBuf,
        /// Its pid, if it left one.
        pid: Option<u32>,
    },
    /// The kernel refused a step.
    #[error("cannot {step} {}: {error}", path.display())]
    Path {
        /// What was to be done.
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The kernel refused something that has no path.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
    /// A policy that is not one.
    #[error("container {container}: {error}")]
    Policy {
        /// Whose.
        container: String,
        /// What is wrong with it.
        error: quota_abi::policy::map::Error,
    },
    /// More would be promised than there is.
    #[error(transparent)]
    Promise(#[from] super::promise::Broken),
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or(String::new(), |pid| format!(" (pid {pid})"))
}
