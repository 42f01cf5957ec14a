//! Is a daemon asked for, and does it answer?

use std::env;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::finding::Findings;

/// What programs started here would find.
pub(super) enum Daemon {
    /// None is asked for: every process enforces its own variables.
    NotAsked,
    /// It takes connections.
    Reachable,
    /// It is asked for and away.
    Unreachable,
}

pub(super) fn examine(findings: &mut Findings) -> Daemon {
    let Some(socket) = env::var_os("GPU_QUOTA_SOCKET").filter(|socket| !socket.is_empty()) else {
        findings.info("daemon", "none is asked for: quotas come from variables");
        return Daemon::NotAsked;
    };
    let socket = Path::new(&socket);
    match UnixStream::connect(socket) {
        Ok(_) => {
            findings.ok("daemon", format!("{} takes connections", socket.display()));
            Daemon::Reachable
        }
        Err(error) => {
            let mend = if error.kind() == ErrorKind::PermissionDenied {
                "this user may not use the socket: check its owner and mode"
            } else {
                "start the daemon, or unset GPU_QUOTA_SOCKET to take quotas from variables"
            };
            findings.failure(
                "daemon",
                format!("GPU_QUOTA_SOCKET={}: {error}", socket.display()),
                mend,
            );
            Daemon::Unreachable
        }
    }
}
