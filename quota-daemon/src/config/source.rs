//! Where a configuration comes from: files, over them the environment, over that the command line.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{Config, Group, LogFormat, Problems, files, values};

/// Read where nobody names a file.
const FILE: &str = "/etc/gpu-quota/config.toml";
/// Read as well, after it.
const FOLDER: &str = "/etc/gpu-quota/conf.d";

/// The files, and what outranks them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Source {
    /// Read this file, or the *.toml of this directory, instead of /etc/gpu-quota/config.toml and conf.d.
    #[arg(long, value_name = "PATH", env = "GPU_QUOTA_CONFIG")]
    pub config: Option<PathBuf>,

    /// The daemon's directory [default: /run/gpu-quota].
    #[arg(long, value_name = "DIR", env = "GPU_QUOTA_STATE")]
    pub state: Option<PathBuf>,

    /// The group whose members may use the control socket.
    #[arg(long, value_name = "NAME", env = "GPU_QUOTA_ADMINS", value_parser = values::group)]
    pub group: Option<Group>,

    /// Where Prometheus may ask, as 127.0.0.1:9400.
    #[arg(long, value_name = "ADDRESS", env = "GPU_QUOTA_METRICS", value_parser = values::address)]
    pub metrics: Option<SocketAddr>,

    /// What is logged: error, warn, info, debug, trace, or directives by part [default: info].
    #[arg(long, value_name = "LEVEL", env = "GPU_QUOTA_DAEMON_LOG", value_parser = values::log)]
    pub log: Option<String>,

    /// The form of log lines [default: auto].
    #[arg(long, value_name = "FORM", env = "GPU_QUOTA_DAEMON_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
}

impl Source {
    /// Reads everything; also when it is asked for again by `reload`.
    ///
    /// # Errors
    /// A file that is named and cannot be read, and everything that is wrong with any.
    pub fn load(&self) -> Result<Config, Problems> {
        let mut config = Config::read(&files::open(&self.paths())?)?;
        let daemon = &mut config.daemon;
        daemon.state = self.state.clone().unwrap_or_else(|| daemon.state.clone());
        daemon.group = self.group.clone().or_else(|| daemon.group.clone());
        daemon.metrics = self.metrics.or(daemon.metrics);
        daemon.log = self.log.clone().unwrap_or_else(|| daemon.log.clone());
        daemon.log_format = self.log_format.unwrap_or(daemon.log_format);
        Ok(config)
    }

    /// What is read: a file that nobody names may be missing.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        match &self.config {
            Some(path) => vec![path.clone()],
            None => [FILE, FOLDER]
                .into_iter()
                .map(PathBuf::from)
                .filter(|path| !is_missing(path))
                .collect(),
        }
    }
}

/// One that is there and cannot be read is not missing.
fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}
